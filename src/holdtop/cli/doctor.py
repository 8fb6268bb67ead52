"""``holdtop doctor``: what is wrong with this box's set-up, and the exact remedy."""

from __future__ import annotations

import argparse

from holdtop.cli import looking
from holdtop.cli.said import report
from holdtop.host.doctor import Case, examine
from holdtop.sampler import look_once
from holdtop.sources.roots import Roots

#: Seconds for the look that the sections go by.
LOOK = 2.0


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="what is wrong with this box's set-up",
        epilog="exit status: 0 nothing was found, 1 findings. What could not be looked at is neither, and is said.",
        allow_abbrev=False,
    )
    parser.add_argument("--state-dir", metavar="DIR", help="where queue and token live")
    parser.add_argument("--json", action="store_true", help="one object: findings, facts, could_not_look")


def run(args: argparse.Namespace) -> int:
    looking.check_state_dir(args.state_dir)
    roots = Roots.from_environ()
    snapshot = look_once(state_dir=args.state_dir, roots=roots, deadline=LOOK)
    examined = examine(Case(roots, args.state_dir, snapshot))
    about = {"host": snapshot.host, "taken_at": snapshot.taken_at, "roots": list(roots.said)} if args.json else None
    return report(examined, about, tuple(f"not the live box: {root}" for root in roots.said))
