"""``holdtop status``: one look at queue, token, device and flags."""

from __future__ import annotations

import argparse
import json
import threading

from holdtop.cli import looking
from holdtop.cli.status_text import Text
from holdtop.model.schema import to_mapping
from holdtop.model.values import Snapshot
from holdtop.sampler import Sampler, look_once

#: Seconds for the look itself: the whole command stays under two.
DEADLINE = 1.4
EPILOG = """exit status, the worst of all resources: 0 free, 1 held, 3 a warning or critical flag stands (wins),
4 unknown. What is unknown is said as such, with its reason: never as 0 and never as "none"."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("status", help="one look at everything", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    looking.add_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one object by the JSON schema, one a line with --watch")
    form.add_argument("--plain", action="store_true", help="sentences, one fact a line, in a stable order")
    add("--watch", action="store_true", help="look every second and print what changed, until interrupted")


def run(args: argparse.Namespace) -> int:
    question = looking.question(args)
    text = Text(ascii_only=looking.ascii_only())
    if args.watch:
        return _watch(args, question, text)
    snapshot = look_once(**question, deadline=DEADLINE)
    if args.json:
        print(json.dumps(to_mapping(snapshot)), flush=True)
    else:
        print("\n".join(text.sentences(snapshot) if args.plain else text.table(snapshot)), flush=True)
    return exit_status(snapshot)


def exit_status(snapshot: Snapshot) -> int:
    """Over all resources: a warning or critical flag, else unknown, else held, else free."""
    if any(flag.severity != "info" for flag in snapshot.flags):
        return 3
    states = {resource.state for resource in snapshot.resources}
    if "unknown" in states:
        return 4
    return 0 if states == {"free"} else 1


def _watch(args: argparse.Namespace, question: looking.Question, text: Text) -> int:
    """Until interrupted: ``+`` what is so now, ``-`` what is so no longer; with ``--json`` each look that differs."""
    arrived = threading.Event()
    sampler = Sampler(**question, on_snapshot=lambda _: arrived.set())
    sampler.start()
    shown: list[str] | None = None
    while arrived.wait():
        arrived.clear()
        snapshot = sampler.newest
        facts = list(text.facts(snapshot)) if snapshot else []
        if snapshot is None or facts == shown:
            continue
        if args.json:
            print(json.dumps(to_mapping(snapshot)), flush=True)
        else:
            for mark, old, new in (("-", facts, shown or []), ("+", shown or [], facts)):
                for line in (line for line in new if line not in old):
                    print(f"{snapshot.taken_at} {mark} {line}", flush=True)
        shown = facts
    return 0
