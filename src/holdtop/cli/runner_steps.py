"""What the changing parts of ``holdtop runner`` share: the steps shown, the question, the steps done."""

from __future__ import annotations

import argparse

from holdtop.cli.confirm import confirm
from holdtop.cli.runner_verify import narrate
from holdtop.errors import HoldError, RefusedError
from holdtop.host.values import Step, carry_out


def change(args: argparse.Namespace, steps: list[Step]) -> list[str]:
    """Ask, and do them; what was done. Raises ``RefusedError``, also for what a hold would call its own failure."""
    if not steps:
        narrate("nothing was to be done")
        return []
    confirm(args, steps)
    try:
        carry_out(steps, narrate)
    except HoldError as error:
        raise RefusedError(str(error)) from error
    return [step.text for step in steps]
