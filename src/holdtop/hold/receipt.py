"""Release receipts: for each hold, how it ended and whether anything was left."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Literal

from holdtop.hold import logs
from holdtop.hold.files import Dir, Untrusted, json_object
from holdtop.hold.ticket import now
from holdtop.hold.view import TicketFile
from holdtop.payload.custody import Member, Report
from holdtop.render import whole

RECEIPTS = ".receipts.jsonl"
OLDER = ".receipts.1.jsonl"
#: Renamed away beyond this size, in bytes: about two thousand holds. One older file is kept.
ROTATE_AT = 1024 * 1024
#: As much as there is, unless somebody has put more there.
ALL = 4 * ROTATE_AT
Verdict = Literal["clean", "dirty", "settling", "unknown"]
_TAIL = 64 * 1024


def verdict(report: Report) -> Verdict:
    """``clean`` only on the kernel's word that no process is left, and with the device's memory back where it was.

    What a scan missed is unknown. So is what a process may do that was kept on request, or one that has the device
    open and is not ours. Memory that is still falling is ``settling``; what nobody holds after its time is dirt.
    """
    if any(left.why != "kept" for left in report.left):
        return "dirty"
    if report.launch_error:
        return "clean"
    if not report.proof or report.suspects:
        return "unknown"
    return _OF_MEMORY[report.memory.state] if report.memory else "clean"


_OF_MEMORY: Mapping[str, Verdict] = {"back": "clean", "falling": "settling", "left": "dirty", "unknown": "unknown"}


def write(
    queue: Dir,
    ticket: TicketFile,
    report: Report,
    *,
    released: bool,
    status: int | None = None,
    waited_seconds: float | None = None,
    held_seconds: float | None = None,
) -> Exception | None:
    """Append one receipt. A ``None`` in it: nobody was there to know.

    Gives why it could not be written, instead of raising it.
    """
    said = {
        "at": now(),
        "ticket": ticket.id,
        "lane": ticket.lane,
        "command": ticket.command,
        "reason": report.end.reason,
        "status": status,
        "waited_seconds": None if waited_seconds is None else round(waited_seconds, 3),
        "held_seconds": None if held_seconds is None else round(held_seconds, 3),
        "verdict": verdict(report),
        "proof": report.proof,
        "released": released,
        "left": describe_left(report),
        "suspects": describe_suspects(report),
        "memory": describe_memory(report),
    }
    try:
        logs.rotate(queue, RECEIPTS, OLDER, ROTATE_AT)
        logs.append(queue, RECEIPTS, (json.dumps(said) + "\n").encode())
    except (OSError, Untrusted) as error:
        return error
    return None


def describe_left(report: Report) -> list[dict[str, object]]:
    return [{**_describe(left.member), "why": left.why} for left in report.left]


def describe_fates(report: Report) -> list[dict[str, object]]:
    return [{**_describe(fate.member), "ended_by": fate.ended_by} for fate in report.fates]


def describe_suspects(report: Report) -> list[dict[str, object]] | None:
    """``None``: who has the device open could not be looked into."""
    return None if report.suspects is None else [_describe(one) for one in report.suspects]


def describe_memory(report: Report) -> dict[str, object] | None:
    """``None``: none was measured."""
    use = report.memory
    if use is None:
        return None
    sizes = {"before_bytes": use.before_bytes, "peak_bytes": use.peak_bytes, "after_bytes": use.after_bytes}
    return {"pool": use.pool, **sizes, "peak_source": use.peak_source, "state": use.state, "why": use.why}


def _describe(member: Member) -> dict[str, object]:
    return {
        "pid": member.identity.pid,
        "start_ticks": member.identity.start_ticks,
        "name": member.name,
        "uid": member.uid,
        "found_by": member.found_by,
    }


def remark(said: Mapping[str, object]) -> str | None:
    """What the next taker should know of a receipt; foreign text. ``None``: nothing."""
    if said.get("verdict") == "clean":
        return None
    memory = said.get("memory")
    sizes = [whole(memory.get(key)) for key in ("before_bytes", "after_bytes")] if isinstance(memory, dict) else []
    before, after = sizes or (None, None)
    more = after - before if before is not None and after is not None else 0
    of_memory = f": {more / (1 << 30):.1f} GiB more device memory in use than before it" if more > 0 else ""
    return f"the last release ({said.get('ticket')}) was {said.get('verdict')}{of_memory}"


def newest(queue: Dir, most: int = _TAIL) -> tuple[Mapping[str, object], ...]:
    """The newest receipts that can be read, oldest first, one of each hold; anybody in the group may have written them.

    ``most``: so many bytes of them are read.
    """
    return _parsed(logs.tail(queue, (RECEIPTS, OLDER), most))


@lru_cache(maxsize=8)
def _parsed(data: bytes) -> tuple[Mapping[str, object], ...]:
    """A console looks every second, and a hold ends every few minutes."""
    lines = (said for line in data.split(b"\n") if (said := json_object(line)))
    return tuple({_hold(said, number): said for number, said in enumerate(lines)}.values())


def _hold(said: Mapping[str, object], number: int) -> Hashable:
    """Whose it is: of two of one hold the later is the complete one. What names none stands for itself."""
    lane, ticket = said.get("lane"), said.get("ticket")
    return (lane, ticket) if isinstance(ticket, str) and isinstance(lane, str | None) else number
