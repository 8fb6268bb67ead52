"""``holdtop state shims``: an account's older tools replaced by ours."""

from __future__ import annotations

import argparse

from holdtop.cli.state_steps import change
from holdtop.host.accounts import account
from holdtop.host.shims import plan


def run(args: argparse.Namespace) -> int:
    whose = account(args.user)
    return change(args, lambda: plan(whose), own_uid=whose.uid)
