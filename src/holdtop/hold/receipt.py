"""Release receipts: for each hold, how it ended and whether anything was left."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Literal

from holdtop.hold.files import Dir, Untrusted, append, json_object
from holdtop.hold.ticket import now
from holdtop.hold.view import TicketFile
from holdtop.payload.custody import Report

RECEIPTS = ".receipts.jsonl"
Verdict = Literal["clean", "dirty", "unknown"]
_TAIL = 64 * 1024


def verdict(report: Report) -> Verdict:
    """About processes: ``clean`` only on the kernel's word that none is left; what a scan missed is unknown."""
    if report.left:
        return "dirty"
    return "clean" if report.proof or report.launch_error else "unknown"


def write(queue: Dir, ticket: TicketFile, report: Report, status: int, held_seconds: float, released: bool) -> None:
    """Append one receipt; never raises."""
    said = {
        "at": now(),
        "ticket": ticket.id,
        "lane": ticket.lane,
        "reason": report.end.reason,
        "status": status,
        "held_seconds": round(held_seconds, 3),
        "verdict": verdict(report),
        "proof": report.proof,
        "released": released,
        "left": describe_left(report),
    }
    with contextlib.suppress(OSError, Untrusted):
        append(queue, RECEIPTS, (json.dumps(said) + "\n").encode())


def describe_left(report: Report) -> list[dict[str, object]]:
    return [
        {
            "pid": left.member.identity.pid,
            "start_ticks": left.member.identity.start_ticks,
            "name": left.member.name,
            "uid": left.member.uid,
            "why": left.why,
            "found_by": left.member.found_by,
        }
        for left in report.left
    ]


def last(queue: Dir) -> Mapping[str, object] | None:
    """The newest receipt that can be read."""
    with contextlib.suppress(OSError, Untrusted):
        fd = queue.open(RECEIPTS)
        try:
            size = os.fstat(fd).st_size
            data = os.pread(fd, _TAIL, max(0, size - _TAIL))
        finally:
            os.close(fd)
        for line in reversed(data.split(b"\n")):
            if said := json_object(line):
                return said
    return None
