"""``holdtop doctor``: what is wrong with this box's set-up, and the exact remedy."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict

from holdtop.cli import looking
from holdtop.host.doctor import Case, Fact, Finding, Said, Unlooked, examine
from holdtop.render import clean, counted
from holdtop.sampler import look_once
from holdtop.sources.roots import Roots

#: Seconds for the look that the sections go by.
LOOK = 2.0
#: Longest text on a line, in characters.
LONG = 500
SCHEMA = 1
_LISTS: Mapping[type[Said], str] = {Finding: "findings", Fact: "facts", Unlooked: "could_not_look"}

Examined = Mapping[str, tuple[Said, ...]]


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
    if args.json:
        about = {"schema": SCHEMA, "host": snapshot.host, "taken_at": snapshot.taken_at, "roots": list(roots.said)}
        print(json.dumps(about | _lists(examined)), flush=True)
    else:
        only = looking.ascii_only()
        print("\n".join(clean(line, LONG, ascii_only=only) for line in _lines(roots, examined)), flush=True)
    found = sum(isinstance(one, Finding) for said in examined.values() for one in said)
    unlooked = sum(isinstance(one, Unlooked) for said in examined.values() for one in said)
    remark = f", {counted(unlooked, 'thing', 'things')} could not be looked at" if unlooked else ""
    print(f"{counted(found, 'finding', 'findings') if found else 'nothing found'}{remark}", file=sys.stderr)
    return 1 if found else 0


def _lists(examined: Examined) -> dict[str, list[dict[str, str]]]:
    lists: dict[str, list[dict[str, str]]] = {name: [] for name in _LISTS.values()}
    for section, said in examined.items():
        for one in said:
            lists[_LISTS[type(one)]].append({"section": section, **asdict(one)})
    return lists


def _lines(roots: Roots, examined: Examined) -> Iterator[str]:
    """Facts last within each section."""
    yield from (f"not the live box: {root}" for root in roots.said)
    for section, said in examined.items():
        yield section
        for one in sorted(said, key=lambda one: isinstance(one, Fact)):
            yield from _of(one)


def _of(one: Said) -> Iterator[str]:
    match one:
        case Finding():
            yield f"  FINDING {one.kind}: {one.what}"
            yield f"    why:    {one.why}"
            yield f"    remedy: {one.remedy}"
        case Unlooked():
            yield f"  could not look: {one.what}: {one.why}"
        case Fact():
            yield f"  {one.what}"
