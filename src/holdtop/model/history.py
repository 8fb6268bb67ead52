"""What a lane's past says of its next turn: from the receipts of its holds. Foreign text: odd ones count for nothing.

A range is the shortest and the longest that was seen, never an average: nobody is promised anything.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from holdtop.model import clock
from holdtop.model.values import ExpectedStart, Memory, Resource, Ticket, WillItFit

#: Fewer holds than this say nothing about how long the next one takes.
FEWEST = 3
#: Older ones than so many say nothing about today.
NEWEST = 20
#: No hold lasts longer, in seconds; no machine has more, in bytes.
_LONGEST = 10 * 365 * 86400.0
_LARGEST = 1 << 50
#: The shortest and the longest, in seconds.
Range = tuple[float, float]
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Past:
    """The newest holds like one; by its command where there are enough of those, else of its lane."""

    seconds: tuple[float, ...]
    peaks: tuple[int, ...]


def past(receipts: Sequence[Mapping[str, object]], lane: str | None, command: Sequence[str]) -> Past:
    """``receipts``: oldest first; of two of one ticket the later is the complete one."""
    spelt = (shlex.join(command), " ".join(command))  # the latter of one that was cut short, and has no words
    by_ticket = {str(one.get("ticket")): one for one in receipts if lane and one.get("lane") == lane}
    alike = [one for one in by_ticket.values() if one.get("command") in spelt]
    counted = (alike if len(alike) >= FEWEST else list(by_ticket.values()))[-NEWEST:]
    seconds = (_number(one.get("held_seconds"), _LONGEST) for one in counted)
    peaks = (_number(_of(one.get("memory"), "peak_bytes"), _LARGEST) for one in counted)
    return Past(tuple(one for one in seconds if one is not None), tuple(int(one) for one in peaks if one is not None))


def foretell(resource: Resource, receipts: Sequence[Mapping[str, object]], memory: Memory, now: str) -> Resource:
    """The resource with what its waiting tickets may expect. ``now``: RFC 3339."""
    if not resource.waiting:
        return resource
    tickets = (*resource.waiting, *([resource.holder] if resource.holder else []))
    known = {ticket.id: past(receipts, ticket.lane, ticket.command) for ticket in tickets}
    span = _left(resource, known, now)
    waiting = []
    for ticket in resource.waiting:
        fit = _fit(known[ticket.id], resource, memory) if resource.name == "gpu" else None
        waiting.append(replace(ticket, expected_start=_expected(span, now), will_it_fit=fit))
        span = _added(span, _whole(known[ticket.id], ticket))
    return replace(resource, waiting=tuple(waiting))


def _left(resource: Resource, known: Mapping[str, Past], now: str) -> Range | None:
    """How long the holder may go on; by its past, and never beyond its deadline."""
    holder = resource.holder
    if holder is None:
        return (0.0, 0.0) if resource.state == "free" else None
    overdue = clock.since(holder.deadline_at, now)
    latest = math.inf if overdue is None else max(0.0, -overdue)
    held = holder.held_seconds
    seconds = known[holder.id].seconds
    longer = [one - held for one in seconds if one > held] if held is not None and len(seconds) >= FEWEST else []
    if not longer:
        return (0.0, latest) if latest < math.inf else None
    return min(min(longer), latest), min(max(longer), latest)


def _whole(known: Past, ticket: Ticket) -> Range | None:
    """How long a hold takes that has not begun."""
    limit = _duration(ticket.limits.get("max-hold", ""))
    if len(known.seconds) < FEWEST:
        return None if limit is None else (0.0, limit)
    most = math.inf if limit is None else limit
    return min(most, *known.seconds), min(most, max(known.seconds))


def _added(one: Range | None, other: Range | None) -> Range | None:
    return (one[0] + other[0], one[1] + other[1]) if one and other else None


def _expected(span: Range | None, now: str) -> ExpectedStart | None:
    instant = clock.parse(now)
    if span is None or instant is None:
        return None
    low, high = ((instant + timedelta(seconds=min(one, _LONGEST))).isoformat(timespec="seconds") for one in span)
    return ExpectedStart(low, high)


def _fit(known: Past, resource: Resource, memory: Memory) -> WillItFit | None:
    """By the largest peak that was seen. What the holder has is had back before the turn comes."""
    if not known.peaks:
        return None
    need, headroom = max(known.peaks), memory.headroom_bytes
    if headroom is not None and resource.holder is not None:
        headroom = None if memory.payload_bytes is None else headroom + memory.payload_bytes
    return WillItFit(need, headroom, None if headroom is None else need <= headroom)


def _duration(text: str) -> float | None:
    """Seconds of ``90``, ``90s``, ``15m``, ``2h``."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return _number(float(number) * _SECONDS[unit], _LONGEST)
    except ValueError:
        return None


def _of(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _number(value: object, limit: float) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= limit:
        return float(value)
    return None
