"""One line per resource: who holds it, for how long, until when."""

from __future__ import annotations

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.severity import STATES, ghosts, verdict_role
from holdtop.console.view.text import Line, Role, Span, spread, width_of
from holdtop.console.view.when import coarse, seconds_until
from holdtop.model.values import Resource, Snapshot, Ticket
from holdtop.render import duration_text

#: Below this many seconds the countdown to a deadline is a warning.
CLOSE = 60.0


def resource_lines(snapshot: Snapshot, width: int, glyphs: Glyphs) -> list[Line]:
    name_width = max((len(resource.name) for resource in snapshot.resources), default=0)
    dead, now = ghosts(snapshot), snapshot.taken_at
    return [
        _resource(resource, dead.get(resource.name) or STATES[resource.state], now, name_width, width, glyphs)
        for resource in snapshot.resources
    ]


def _resource(resource: Resource, role: Role, now: str, name_width: int, width: int, glyphs: Glyphs) -> Line:
    left = [
        Span(f" {resource.name:<{name_width}} ", "text", True),
        Span(f"{glyphs.state[resource.state]} {resource.state.upper():<7} ", role, True),
    ]
    holder = resource.holder
    left += _holder(holder, now, width, glyphs) if holder else _nobody(resource, now, glyphs)
    last = [*_last(resource, now, 40, glyphs), Span(" ")] if holder else []
    path = [Span(f" {glyphs.clean(resource.token_path)} ", "muted")] if width >= 100 else []
    waiting = len(resource.waiting)
    foreign = f" {glyphs.dot} {len(resource.foreign)} foreign" if resource.foreign else ""
    left.append(Span(f" {glyphs.dot} {waiting or 'nobody'} waiting{foreign}", "text" if waiting else "muted"))
    both = width_of([*left, *last, *path]) < width
    return spread(left, [*last, *path] if both else last or path, width)


def _holder(holder: Ticket, now: str, width: int, glyphs: Glyphs) -> list[Span]:
    lane_width = 24 if width >= 100 else 14
    spans = [
        Span(glyphs.fit(holder.lane or "no lane", lane_width), "text", True),
        Span(f" {glyphs.dot} {glyphs.fit(who(holder), 12)} {glyphs.dot} {duration_text(holder.held_seconds)}"),
    ]
    if holder.being_ended_by is not None:
        spans.append(Span(f" {glyphs.dot} being ended by {glyphs.fit(holder.being_ended_by, 16)}", "warning", True))
    elif holder.state == "paused":
        spans.append(Span(f" {glyphs.dot} paused", "warning", True))
    spans.append(_deadline(holder, now, glyphs))
    return spans


def _deadline(holder: Ticket, now: str, glyphs: Glyphs) -> Span:
    if holder.deadline_at is None:
        return Span(f" {glyphs.dot} no deadline", "muted")
    left = seconds_until(holder.deadline_at, now)
    if left is not None and left < 0:
        return Span(f" {glyphs.dot} {glyphs.severity['warning']} {duration_text(-left)} over", "warning", True)
    close = left is not None and left < CLOSE
    sign = f"{glyphs.severity['warning']} " if close else ""
    return Span(f" {glyphs.dot} {sign}{duration_text(left)} left", "warning" if close else "text", close)


def _nobody(resource: Resource, now: str, glyphs: Glyphs) -> list[Span]:
    if resource.state != "free":
        return [Span("holder unknown", "warning")]
    return _last(resource, now, 60, glyphs) or [Span("nobody holds it", "muted")]


def _last(resource: Resource, now: str, width: int, glyphs: Glyphs) -> list[Span]:
    """How the last hold ended, from its receipt."""
    receipt = resource.last_receipt
    if receipt is None:
        return []
    at = receipt.get("at")
    since = seconds_until(now, at) if isinstance(at, str) else None
    ago = f" {coarse(since)} ago" if since is not None else ""
    said = f"last release {receipt.get('verdict', 'unknown')}{ago}, {receipt.get('lane', 'unknown lane')}"
    role = verdict_role(receipt.get("verdict"))
    return [Span(glyphs.fit(said, width), "muted" if role == "ok" else role)]


def who(ticket: Ticket) -> str:
    """The account, by name where it is known."""
    if ticket.user is not None:
        return ticket.user
    return "unknown user" if ticket.uid is None else f"uid {ticket.uid}"
