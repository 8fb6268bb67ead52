"""What a lane's past says of its next turn.

A range is the shortest and the longest that was seen, never an average: nobody is promised anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from holdtop.model import clock
from holdtop.model.past import FEWEST, LONGEST, Archive, Past, number
from holdtop.model.values import ExpectedStart, Memory, Resource, Ticket, WillItFit

#: The sum of more ranges than so many tells nobody anything.
FORETOLD = 100
#: The shortest and the longest, in seconds.
Range = tuple[float, float]
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def foretell(resource: Resource, memory: Memory, now: str) -> Resource:
    """The resource with what its waiting tickets may expect. ``now``: RFC 3339."""
    if not resource.waiting:
        return resource
    tickets = (*resource.waiting, *([resource.holder] if resource.holder else []))
    archive = Archive.of(resource.receipts)
    known = {ticket.id: archive.past(ticket.lane, ticket.command) for ticket in tickets}
    span = _left(resource, known, now)
    waiting = []
    for ticket in resource.waiting:
        fit = _fit(known[ticket.id], resource, memory) if resource.name == "gpu" else None
        expected = _expected(span, now)
        waiting.append(replace(ticket, expected_start=expected, will_it_fit=fit) if expected or fit else ticket)
        crowded = ticket.position >= FORETOLD
        span = None if crowded else _added(span, _whole(known[ticket.id], ticket))
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
    low, high = ((instant + timedelta(seconds=min(one, LONGEST))).isoformat(timespec="seconds") for one in span)
    return ExpectedStart(low, high)


def _fit(known: Past, resource: Resource, memory: Memory) -> WillItFit | None:
    """By the largest peak that was seen. What the holder has is had back before the turn comes."""
    if not known.peaks:
        return None
    need, headroom = max(known.peaks), memory.headroom_bytes
    if headroom is not None and resource.holder is not None:
        headroom = None if memory.payload_bytes is None else headroom + memory.payload_bytes
    return WillItFit(need, headroom, None if headroom is None else need <= headroom, known.peak_source)


def _duration(text: str) -> float | None:
    """Seconds of ``90``, ``90s``, ``15m``, ``2h``."""
    count, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return number(float(count) * _SECONDS[unit], LONGEST)
    except ValueError:
        return None
