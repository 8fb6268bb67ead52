"""The question before steps are taken, for the verbs that change a box."""

from __future__ import annotations

import argparse
import sys

from holdtop.errors import RefusedError
from holdtop.host.values import Step
from holdtop.render import clean


def confirm(args: argparse.Namespace, steps: list[Step]) -> None:
    """Raises ``RefusedError`` unless somebody says yes, here or on the command line."""
    if args.yes:
        return
    if not sys.stdin or not sys.stdin.isatty():
        raise RefusedError("without a terminal nobody can be asked: give --yes, or --dry-run to look only")
    print("\n".join(clean(step.text) for step in steps), file=sys.stderr)
    print("do this? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise RefusedError("not confirmed: nothing was done")
