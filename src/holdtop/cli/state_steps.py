"""What the changing parts of ``holdtop state`` share: the steps shown, the question, the steps done."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable

from holdtop.cli.confirm import confirm
from holdtop.errors import HoldError, RefusedError
from holdtop.host.values import Step, carry_out
from holdtop.render import clean


def state_dir(args: argparse.Namespace) -> str:
    return os.path.abspath(str(args.state_dir))


def change(args: argparse.Namespace, plan: Callable[[], list[Step]], *, own_uid: int = 0) -> int:
    """Plan, ask, do. Raises ``RefusedError``, also for what a hold would call its own failure.

    ``own_uid``: the account that may do it besides root, since it changes what is its own.
    """
    if os.geteuid() not in (0, own_uid):
        raise RefusedError(f"holdtop state {args.part} changes what only root may: sudo holdtop state {args.part} …")
    try:
        steps = plan()
        done: list[str] = []
        if not args.dry_run and steps:
            confirm(args, steps)
            carry_out(steps, lambda text: _told(args, text, done))
    except HoldError as error:
        raise RefusedError(str(error)) from error
    if args.json:
        told = {"schema": 1, "dry_run": args.dry_run, "steps": [step.text for step in steps], "done": done}
        print(json.dumps(told))
    elif args.dry_run:
        print("\n".join(clean(step.text) for step in steps) or "nothing is to be done")
    elif not steps:
        print("nothing was to be done")
    return 0


def _told(args: argparse.Namespace, text: str, done: list[str]) -> None:
    done.append(text)
    if not args.json:
        print(clean(text), flush=True)
