"""``holdtop audit``: operators' acts, one record a line; and whether the record is whole."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import time
from collections.abc import Iterator

from holdtop.cli import looking
from holdtop.errors import UsageError
from holdtop.hold import audit
from holdtop.hold.audit import Bad, Record
from holdtop.hold.files import Dir
from holdtop.hold.places import Places
from holdtop.hold.stop import user_name
from holdtop.render import clean

#: Between two looks with ``--follow``, in seconds.
POLL = 0.5


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "audit",
        help="operators' acts",
        epilog="exit status: 0; verify: 1 when a record is bad, and the first one of each account is named",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("what", nargs="?", choices=["verify"], metavar="verify", help="check every account's chain of records")
    looking.add_options(parser)
    add("--follow", action="store_true", help="go on printing what is added")
    add("--json", action="store_true", help="the records as they are stored, one JSON object a line")


def run(args: argparse.Namespace) -> int:
    if args.what and args.follow:
        raise UsageError("audit verify looks once: --follow is for the records, holdtop audit --follow")
    places = looking.chosen(args)
    if args.what == "verify":
        return _verify(places, args.json)
    seen: set[object] = set()
    while True:
        for record in records(places):
            if record["hash"] not in seen:
                seen.add(record["hash"])
                print(json.dumps(record) if args.json else line(record), flush=args.follow)
        if not args.follow:
            return 0
        time.sleep(POLL)


def line(record: Record) -> str:
    """One record for a person, on one line whatever it contains."""
    uid = record.get("uid")
    who = user_name(uid) if isinstance(uid, int) else "?"
    about = record.get("ticket") or record.get("asked") or _pids(record)
    said = record.get("why") or record.get("text") or record.get("reason") or ""
    words = (record.get("at"), record.get("act"), record.get("kind"), record.get("verb"), about, f"by {who}:", said)
    return " ".join(clean(str(word)) for word in words)


def _pids(record: Record) -> str:
    targets = record.get("targets") or record.get("fates") or ()
    return ",".join(f"pid {one.get('pid')}" for one in targets if isinstance(one, dict)) or record.get("resource", "")


@contextlib.contextmanager
def _queue(places: Places) -> Iterator[Dir | None]:
    """The queue's directory; ``None`` where nothing has been queued yet."""
    if not os.path.lexists(places.queue_path):
        yield None
        return
    with places.open_queue() as queue:
        yield queue


def records(places: list[Places]) -> list[Record]:
    """All that is on record there, by time. Raises ``HoldtopError``."""
    found: list[Record] = []
    for place in places:
        with _queue(place) as queue:
            found += audit.records(queue) if queue else []
    return sorted(found, key=audit.instant)


def broken(places: list[Places]) -> list[Bad]:
    """The first bad record of each chain there. Raises ``HoldtopError``."""
    bad: list[Bad] = []
    for place in places:
        with _queue(place) as queue:
            bad += audit.verify(queue) if queue else []
    return bad


def _verify(places: list[Places], as_json: bool) -> int:
    bad = broken(places)
    if as_json:
        print(json.dumps({"whole": not bad, "bad": [{"file": b.file, "line": b.line, "why": b.why} for b in bad]}))
    else:
        for one in bad:
            print(f"{clean(one.file)}:{one.line}: {clean(one.why)}")
        if not bad:
            print("whole: no record is missing or was changed, as far as the chains can show")
    return 1 if bad else 0
