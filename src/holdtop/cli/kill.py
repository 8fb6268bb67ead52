"""``holdtop kill``: end a payload, a part of one, or something that was left behind."""

from __future__ import annotations

import argparse

from holdtop.cli import acting_options
from holdtop.errors import UsageError

EPILOG = """exit status: 0 ended, 5 something was left (named), 6 refused (why), 7 already gone"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("kill", help="end a payload, or a flagged process", epilog=EPILOG, allow_abbrev=False)
    parser.add_argument(
        "ticket",
        nargs="?",
        metavar="TICKET",
        help="its id, number or pid, a part of the id that is unique, or its lane",
    )
    parser.add_argument(
        "--pid", type=int, metavar="PID", help="a member (its whole payload is meant), or a flagged survivor or stray"
    )
    parser.add_argument("--subtree", type=int, metavar="PID", help="of a payload, only this process and those below it")
    acting_options.add_grace(parser)
    acting_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from holdtop.cli import acting
    from holdtop.operator import plan_kill
    from holdtop.operator.select import find_ticket

    if args.ticket is None and args.pid is None and args.subtree is None:
        raise UsageError("kill needs a TICKET, --pid PID or --subtree PID; holdtop status shows them")
    if args.ticket is not None and args.pid is not None:
        raise UsageError("kill takes a TICKET or --pid PID, not both")
    return acting.act(
        args,
        lambda snapshot: plan_kill(
            snapshot,
            None if args.ticket is None else find_ticket(snapshot, args.ticket),
            pid=args.pid,
            subtree=args.subtree,
            state_dir=args.state_dir,
            dry_run=args.dry_run,
        ),
    )
