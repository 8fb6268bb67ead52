"""The queue as a table: the holder and, in order, who waits; and one sentence on why somebody waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.resources import who
from holdtop.console.view.severity import STATES
from holdtop.console.view.subject import Entry
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.console.view.when import coarse, seconds_until
from holdtop.model.values import Pool, Severity, Ticket
from holdtop.render import bytes_text, short_bytes

#: From so many columns on a table shows all that it can.
WIDE = 100


def short_id(ticket_id: str) -> str:
    """A ticket's id without the zeros that order its file: ``12-4211``."""
    return ticket_id.lstrip("0") or ticket_id


def command_text(command: Iterable[str]) -> str:
    return " ".join(command)


def age(ticket: Ticket) -> float | None:
    return ticket.waited_seconds if ticket.state == "waiting" else ticket.held_seconds


#: ``None``: as a snapshot has them, each resource's holder first.
SORTS: dict[str, Callable[[Ticket], Any] | None] = {
    "position": None,
    "age": lambda ticket: -(age(ticket) or 0.0),
    "lane": lambda ticket: (ticket.lane or "", ticket.position),
    "memory": lambda ticket: -_on_device(ticket),
}


def _on_device(ticket: Ticket) -> int:
    return (ticket.payload.gtt_bytes or 0) + (ticket.payload.vram_bytes or 0) if ticket.payload else 0


def entry_matches(entry: Entry, wanted: str) -> bool:
    return any(wanted in word.casefold() for word in (entry.id, entry.resource, entry.why, str(entry.pid)))


def matches(ticket: Ticket, wanted: str) -> bool:
    words = (ticket.id, ticket.resource, ticket.lane or "", who(ticket), command_text(ticket.command))
    return any(wanted in word.casefold() for word in words)


def queue_head(width: int, glyphs: Glyphs, pool: Pool = "gtt") -> Line:
    lane = glyphs.column("LANE", _lane_width(width))
    text = f"   {'#':>2} {'RES':<4}{lane} {'USER':<8}"
    text += (
        f"{'STATE':<9}{'AGE':>6} {'LEFT':>7} {pool.upper():>9} {'TICKET':<14} "
        if width >= WIDE
        else (f"{'AGE':>6} {'LEFT':>6} {pool.upper():>6} ")
    )
    return line(Span(glyphs.fit(text + "COMMAND", width), "muted"))


def _lane_width(width: int) -> int:
    return 14 if width < WIDE else 20


def queue_row(
    ticket: Ticket,
    now: str,
    width: int,
    glyphs: Glyphs,
    *,
    pool: Pool = "gtt",
    ghost: Severity | None = None,
    selected: bool = False,
) -> Line:
    """``ghost``: the ticket's token is there and its hold is dead, and how bad that is."""
    wide, role = width >= WIDE, ghost or STATES[ticket.state]
    state = "ghost" if ghost else ticket.state
    left, left_role = _left(ticket, now)
    spans = [
        Span(f" {glyphs.state[state]} ", role),
        Span(f"{ticket.position or '':>2} ", "muted"),
        Span(glyphs.column(ticket.resource, 3) + " ", "muted"),
        Span(glyphs.column(ticket.lane or glyphs.dash, _lane_width(width)) + " ", "text", ticket.position == 0),
        Span(glyphs.column(who(ticket), 7) + " "),
        *([Span(f"{state:<9}", role)] if wide else []),
        Span(f"{coarse(age(ticket), glyphs.dash):>6} "),
        Span(f"{left:>{7 if wide else 6}} ", left_role),
        _held(ticket.payload.held(pool) if ticket.payload else None, wide, glyphs),
        *([Span(glyphs.column(short_id(ticket.id), 14) + " ", "muted")] if wide else []),
        *_remark(ticket, state, role, wide, glyphs),
        Span(glyphs.clean(command_text(ticket.command), width), "muted"),
    ]
    return line(*spans, selected=selected)


def entry_row(entry: Entry, width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    pid = f"pid {entry.pid}, " if entry.pid is not None else ""
    return line(
        Span(f" {glyphs.state['unknown']} ", "warning"),
        Span(f"{'':>2} "),
        Span(glyphs.column(entry.resource, 3) + " ", "muted"),
        Span(glyphs.column(entry.id, _lane_width(width)) + " "),
        Span(glyphs.clean(pid + entry.why, width), "muted"),
        selected=selected,
    )


def _held(size: int | None, wide: bool, glyphs: Glyphs) -> Span:
    text = f"{bytes_text(size, glyphs.dash):>9} " if wide else f"{short_bytes(size, glyphs.dash):>6} "
    return Span(text, "held" if size else "muted")


def _remark(ticket: Ticket, state: str, role: Role, wide: bool, glyphs: Glyphs) -> list[Span]:
    """What must not be overlooked, before the command."""
    if ticket.being_ended_by is not None:
        return [Span(f"being ended by {glyphs.clean(ticket.being_ended_by, 16)} ", "warning", True)]
    if state in ("ghost", "paused", "ending") and not wide:
        return [Span(f"{state} ", role, True)]
    return []


def _left(ticket: Ticket, now: str) -> tuple[str, Role]:
    """The countdown of a running ticket to its deadline."""
    if ticket.state == "waiting" or ticket.deadline_at is None:
        return "", "muted"
    left = seconds_until(ticket.deadline_at, now)
    over = left is not None and left < 0
    return coarse(left, "?"), "warning" if over else "text"
