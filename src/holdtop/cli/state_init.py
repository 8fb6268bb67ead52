"""``holdtop state init``: make the shared state directory."""

from __future__ import annotations

import argparse

from holdtop.cli.state_steps import change, state_dir
from holdtop.host.init import Wanted, plan


def run(args: argparse.Namespace) -> int:
    wanted = Wanted(state_dir(args), args.group, tuple(args.user), tuple(args.migrate_from))
    return change(args, lambda: plan(wanted))
