"""``holdtop history``: how long each lane's holds took, waited, and what they needed."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdtop.cli import looking
from holdtop.hold import receipt
from holdtop.hold.places import Places
from holdtop.model.lanes import Lane, Summary, lanes
from holdtop.model.past import Archive, sign
from holdtop.render import cells, clean, duration_text, fit, short_bytes

SCHEMA = 1
#: The longest text of a cell, in characters.
LONG = 40
HEAD = ("RES", "LANE", "RUNS", "HELD", "P90", "WAITED", "P90", "PEAK", "LAST END")
EPILOG = """of the releases on record, which are a few thousand at most. HELD and WAITED: the middle one, and one that
nine in ten do not exceed. PEAK: the payloads' own device memory, the greatest; with a ~ where only the device's level
was read, in which others may have had a part. What no hold has said is shown as -."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("history", help="what each lane's holds took so far", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    looking.add_options(parser)
    add("--lane", metavar="NAME", help="this lane alone, by command")
    add("--json", action="store_true", help="one object: all lanes with their commands")


def run(args: argparse.Namespace) -> int:
    """Raises ``HoldtopError`` where the state cannot be found or read."""
    places = looking.chosen(args)
    found = {place: [one for one in _lanes(place) if args.lane in (None, one.name)] for place in places}
    if args.json:
        print(json.dumps({"schema": SCHEMA, "resources": [_resource(*one) for one in found.items()]}))
        return 0
    rows = [row for place, some in found.items() for row in _rows(place.resource, some, by_command=bool(args.lane))]
    whose = f"no hold of lane {clean(args.lane, LONG)}" if args.lane else "no hold"
    lines = _table([HEAD, *rows]) if rows else [f"{whose} has left a receipt here yet"]
    print("\n".join(lines))
    return 0


def _lanes(place: Places) -> list[Lane]:
    if not os.path.lexists(place.queue_path):
        return []
    with place.open_queue() as queue:
        return lanes(Archive(receipt.newest(queue, receipt.ALL)))


def _resource(place: Places, found: Sequence[Lane]) -> Mapping[str, Any]:
    return {
        "resource": place.resource,
        "queue_path": place.queue_path,
        "lanes": [
            {
                "lane": lane.name,
                **_summary(lane.whole),
                "commands": [{"command": command, **_summary(some)} for command, some in lane.commands.items()],
            }
            for lane in found
        ],
    }


def _summary(some: Summary) -> Mapping[str, Any]:
    last = {key: getattr(some.last, key) for key in ("ticket", "at", "reason", "status", "verdict")}
    figures = {key: getattr(some, key) for key in Summary.__slots__ if key != "last"}
    return {**figures, "last": last}


def _rows(resource: str, found: Sequence[Lane], *, by_command: bool) -> Iterator[Sequence[str]]:
    for lane in found:
        yield _row(resource, lane.name, lane.whole)
        for command, some in lane.commands.items() if by_command else ():
            yield _row("", f"  {command}", some)


def _row(resource: str, name: str, some: Summary) -> Sequence[str]:
    spans = (some.held_median_seconds, some.held_p90_seconds, some.waited_median_seconds, some.waited_p90_seconds)
    last = some.last
    status = "" if last.status is None else f" {last.status}"
    return (
        resource,
        name,
        str(some.runs),
        *(duration_text(seconds, "-") for seconds in spans),
        sign(some.peak_source) + short_bytes(some.peak_bytes, "-"),
        f"{last.at or '-'}  {last.reason or '-'}{status}, {last.verdict or '-'}",
    )


def _last(row: Sequence[str], ascii_only: bool) -> str:
    return clean(row[-1], 2 * LONG, ascii_only=ascii_only)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Text to the left, numbers to the right; foreign text of any kind stays in its cell."""
    ascii_only = looking.ascii_only()
    shown = [[*(clean(cell, LONG, ascii_only=ascii_only) for cell in row[:-1]), _last(row, ascii_only)] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        texts = (fit(cell, width, pad=True) for cell, width in zip(row[:2], widths, strict=False))
        numbers = (cell.rjust(width) for cell, width in zip(row[2:-1], widths[2:-1], strict=True))
        yield "  ".join((*texts, *numbers, row[-1])).rstrip()
