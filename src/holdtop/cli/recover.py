"""``holdtop recover``: free a token whose hold is dead, or that cannot be read."""

from __future__ import annotations

import argparse

from holdtop.cli import acting_options

EPILOG = """exit status: 0 free, 5 something was left (named), 6 refused (why), 7 there is no token"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("recover", help="free a ghost's token", epilog=EPILOG, allow_abbrev=False)
    acting_options.add_grace(parser)
    acting_options.add_arguments(parser, resource="gpu")


def run(args: argparse.Namespace) -> int:
    from holdtop.cli import acting
    from holdtop.operator import plan_recover

    return acting.act(
        args,
        lambda snapshot: plan_recover(snapshot, args.resource, state_dir=args.state_dir, dry_run=args.dry_run),
    )
