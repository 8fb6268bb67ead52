"""``holdtop state check``: whether all accounts meet in one queue, and what a member gains besides."""

from __future__ import annotations

import argparse

from holdtop.cli.said import report
from holdtop.cli.state_steps import state_dir
from holdtop.host.check import check


def run(args: argparse.Namespace) -> int:
    where = state_dir(args)
    return report(check(where), {"state_dir": where} if args.json else None)
