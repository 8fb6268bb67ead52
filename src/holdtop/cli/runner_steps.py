"""What the changing parts of ``holdtop runner`` share: the steps shown, the question, the steps done."""

from __future__ import annotations

import argparse
import sys

from holdtop.cli.runner_verify import narrate
from holdtop.errors import HoldError, RefusedError
from holdtop.host.values import Step, carry_out
from holdtop.render import clean


def change(args: argparse.Namespace, steps: list[Step]) -> list[str]:
    """Ask, and do them; what was done. Raises ``RefusedError``, also for what a hold would call its own failure."""
    if not steps:
        narrate("nothing was to be done")
        return []
    _confirm(args, steps)
    try:
        carry_out(steps, narrate)
    except HoldError as error:
        raise RefusedError(str(error)) from error
    return [step.text for step in steps]


def _confirm(args: argparse.Namespace, steps: list[Step]) -> None:
    if args.yes:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise RefusedError("without a terminal nobody can be asked: give --yes, or --dry-run to look only")
    print("\n".join(clean(step.text) for step in steps), file=sys.stderr)
    print("do this? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RefusedError("not confirmed: nothing was done")
