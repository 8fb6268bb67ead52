"""``holdtop runner install``: make what is missing, and say that it is installed only when it was seen to be."""

from __future__ import annotations

import argparse
import json

from holdtop.cli.runner_options import settings_of
from holdtop.cli.runner_steps import change
from holdtop.cli.runner_verify import asking, narrate, show, told
from holdtop.errors import HoldError, RefusedError, UsageError
from holdtop.host.runner import install, journal, unit
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.registration import Registration
from holdtop.host.runner.verify import verify


def run(args: argparse.Namespace) -> int:
    wanted = _wanted(args)
    settings = wanted.settings
    asked = asking(settings)
    manager = Manager(system=settings.system)
    try:
        steps = install.plan(wanted, manager)
    except HoldError as error:
        raise RefusedError(str(error)) from error
    for text in install.warnings(wanted):
        narrate(text)
    if args.dry_run:
        return _dry(args, wanted, [step.text for step in steps])
    done = change(args, steps)
    verdict = verify(settings, manager, narrate, asked)
    if args.json:
        print(json.dumps({"schema": 1, "done": done, **told(settings, verdict)}), flush=True)
    else:
        show(settings, verdict, as_json=False)
    if verdict.findings:
        for line in journal.last(settings):
            narrate(line)
    elif not verdict.unlooked:
        narrate(f"{settings.unit} is installed")
    return verdict.status


def _dry(args: argparse.Namespace, wanted: install.Wanted, steps: list[str]) -> int:
    text = unit.render(wanted.settings)
    if args.json:
        print(json.dumps({"schema": 1, "dry_run": True, "unit": wanted.settings.unit, "text": text, "steps": steps}))
    else:
        print(text, end="")
        for step in steps or ["nothing is to be done"]:
            narrate(f"would: {step}" if steps else step)
    return 0


def _wanted(args: argparse.Namespace) -> install.Wanted:
    if (args.url is None) != (args.token_file is None):
        raise UsageError("--url and --token-file: both, or neither")
    if args.linger and not args.user_manager:
        raise UsageError("--linger: only a unit of your own manager (--user-manager) needs it")
    return install.Wanted(
        settings_of(args),
        groups=tuple(name for name in args.groups.split(",") if name),
        tarball=args.tarball,
        sha256sums=args.sha256sums,
        registration=Registration(args.url, args.token_file, args.labels) if args.url else None,
        linger=args.linger,
        now=args.now,
    )
