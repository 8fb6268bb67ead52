"""``holdtop runner drill``: show that a unit of this kind survives a job that runs out of memory."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from holdtop.cli.runner_options import settings_of
from holdtop.cli.runner_steps import change
from holdtop.cli.runner_verify import narrate
from holdtop.errors import UnseenError
from holdtop.host.runner import sizes
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.drill import DIRTIED, MEMORY_MAX, Drill, drill
from holdtop.host.values import Step
from holdtop.render import clean


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    manager = Manager(system=settings.system)
    shown: list[Drill] = []
    most, size = sizes.said(MEMORY_MAX), sizes.said(DIRTIED)
    text = f"start throw-away units of MemoryMax {most}, a child of which writes to {size}"
    step = Step(text, lambda: shown.append(drill(manager)))
    if args.dry_run:
        narrate(f"would: {text}")
        return 0
    change(args, [step])
    (seen,) = shown
    if args.json:
        print(json.dumps({"schema": 1, "shown": seen.why is None, **asdict(seen)}), flush=True)
    else:
        print("\n".join(map(clean, _lines(seen))), flush=True)
    return UnseenError.status if seen.why else 0


def _lines(seen: Drill) -> list[str]:
    told = [
        f"{name}: oom_kill {one.oom_kills}, job {'gone' if one.job_gone else 'there'}, "
        f"{one.active_state}, Result={one.result}"
        for name, one in (("OOMPolicy=continue", seen.ours), ("control, OOMPolicy=stop", seen.control))
        if one is not None
    ]
    verdict = (
        f"not shown here: {seen.why}" if seen.why else "shown: the job was killed, the unit lives, the control died"
    )
    return [*told, verdict]
