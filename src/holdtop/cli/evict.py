"""``holdtop evict``: remove a ticket that waits, or an entry of another tool; ask a running one to stop."""

from __future__ import annotations

import argparse

from holdtop.cli import acting_options

EPILOG = """exit status: 0 evicted, 5 something was left (named), 6 refused (why), 7 already gone"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("evict", help="remove a ticket from the queue", epilog=EPILOG, allow_abbrev=False)
    parser.add_argument(
        "ticket", metavar="TICKET", help="its id (a running one: the whole), a part of it, its lane, or an entry's name"
    )
    acting_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from holdtop.cli import acting
    from holdtop.operator import plan_evict
    from holdtop.operator.select import find_ticket

    return acting.act(
        args,
        lambda snapshot: plan_evict(
            snapshot,
            find_ticket(snapshot, args.ticket, evict=True),
            state_dir=args.state_dir,
            dry_run=args.dry_run,
        ),
    )
