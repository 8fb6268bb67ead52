"""``holdtop runner remove``: undo what ``install`` made."""

from __future__ import annotations

import argparse
import json

from holdtop.cli.runner_options import settings_of
from holdtop.cli.runner_steps import change
from holdtop.cli.runner_verify import narrate
from holdtop.errors import HoldError, RefusedError
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.remove import plan


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    try:
        steps = plan(settings, Manager(system=settings.system), now=args.now)
    except HoldError as error:
        raise RefusedError(str(error)) from error
    if args.dry_run:
        for step in steps:
            narrate(f"would: {step.text}")
    done = [] if args.dry_run else change(args, steps)
    if args.json:
        told = {"schema": 1, "dry_run": args.dry_run, "steps": [step.text for step in steps], "done": done}
        print(json.dumps(told), flush=True)
    if done:
        narrate("the forge still lists it as offline: remove it on its page")
    return 0
