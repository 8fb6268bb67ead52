"""Why am I waiting, when is it my turn, will it fit: one sentence each, and no more than the past bears out."""

from __future__ import annotations

from datetime import datetime

from holdtop.console.view.when import parse, seconds_until
from holdtop.model.values import ExpectedStart, Resource, Ticket
from holdtop.render import bytes_text, duration_text

#: Seconds below which a span is no time, and two ends of a range are one.
_NOTHING = 60.0


def why_waiting(ticket: Ticket, resource: Resource | None, now: str) -> str:
    """Behind whom, for how long that one has held and may hold, and when it may be this one's turn."""
    ahead = max(0, ticket.position - 1)
    turn = "it is next in line" if not ahead else f"{ahead} {'is' if ahead == 1 else 'are'} ahead of it in line"
    return f"{ticket.lane or ticket.id} waits: {_behind(ticket, resource, now)}; {turn}; {start_words(ticket, now)}."


def _behind(ticket: Ticket, resource: Resource | None, now: str) -> str:
    holder = resource.holder if resource else None
    if holder is None:
        return f"{ticket.resource} is {resource.state if resource else 'unknown'} and nobody is known to hold it"
    held = f" for {duration_text(holder.held_seconds)}" if holder.held_seconds is not None else ""
    left = seconds_until(holder.deadline_at, now)
    limit = "" if left is None else f" and may for {duration_text(left)} more" if left > 0 else " and is over its time"
    return f"{holder.lane or holder.id} has held {ticket.resource}{held}{limit}"


def start_words(ticket: Ticket, now: str) -> str:
    """When the turn may come, from what was seen: a range, since nobody is promised anything."""
    expected = ticket.expected_start
    low, high = (seconds_until(end, now) for end in (expected.low, expected.high)) if expected else (None, None)
    if expected is None or low is None or high is None:
        return "no history yet to say when"
    if high < _NOTHING:
        return "its turn may come at any moment"
    if low < _NOTHING:
        return f"its turn may come at once or within {duration_text(high)}, by {_clock(expected.high, now)}"
    if high - low < _NOTHING:
        return f"its turn may come in about {duration_text(high)}, at {_clock(expected.high, now)}"
    return f"its turn may come in {duration_text(low)} to {duration_text(high)}, {_between(expected, now)}"


def _between(expected: ExpectedStart, now: str) -> str:
    return f"between {_clock(expected.low, now)} and {_clock(expected.high, now)}"


def _clock(text: str, now: str) -> str:
    """An instant as one would say it here: ``04:10``, ``tomorrow 04:10``, ``Fri 04:10``, ``12 Jan``."""
    instant, base = parse(text), parse(now)
    if instant is None or base is None:
        return "an unknown time"
    local = instant.astimezone(base.tzinfo)
    return f"{_day(local, base)}{local:%H:%M}" if (local.date() - base.date()).days < 7 else f"{local.day} {local:%b}"


def _day(local: datetime, base: datetime) -> str:
    days = (local.date() - base.date()).days
    return {0: "", 1: "tomorrow ", -1: "yesterday "}.get(days, f"{local:%a} ")


def fit_words(ticket: Ticket) -> str:
    """Whether what its lane has needed so far will find room."""
    fit = ticket.will_it_fit
    if fit is None:
        return "Will it fit? No history yet: no hold of its lane has said what it needed."
    size = bytes_text(fit.need_bytes)
    need = f"its lane has needed up to {size}"
    if fit.need_source == "level":
        need = f"in its lane's holds up to {size} more were in use, others' perhaps among them"
    if fit.fits is None:
        return f"Will it fit? Unknown: {need}, and how much will be free is not known."
    room = f"{bytes_text(fit.headroom_bytes)} are free once the holder is gone"
    return f"Will it fit? {'Yes' if fit.fits else 'No'}: {need}, and {room}."
