"""``holdtop state migrate``: a home's queue becomes part of the shared one."""

from __future__ import annotations

import argparse

from holdtop.cli.state_steps import change, state_dir
from holdtop.host.migrate import plan


def run(args: argparse.Namespace) -> int:
    return change(args, lambda: plan(state_dir(args), args.home))
