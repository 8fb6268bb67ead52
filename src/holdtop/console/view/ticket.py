"""All that is known of one ticket, as names and sentences."""

from __future__ import annotations

from collections.abc import Iterator

from holdtop.console.view.expect import fit_words, why_waiting
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.happened import limits_text
from holdtop.console.view.queue import command_text, short_id
from holdtop.console.view.resources import who
from holdtop.console.view.text import Line, Span, line, wrapped
from holdtop.console.view.when import seconds_until
from holdtop.model.values import Resource, Ticket
from holdtop.render import duration_text

#: Cells of the column of names, with the margin.
_NAMES = 12


def ticket_title(ticket: Ticket) -> str:
    return f"{short_id(ticket.id)} of {ticket.lane or 'no lane'}, {ticket.resource}"


def ticket_lines(ticket: Ticket, resource: Resource | None, now: str, width: int, glyphs: Glyphs) -> list[Line]:
    if ticket.state == "waiting":
        lines = wrapped(why_waiting(ticket, resource, now), width, glyphs, "accent", indent=1)
        if ticket.resource == "gpu":
            lines += wrapped(fit_words(ticket), width, glyphs, "accent", indent=1)
    else:
        lines = wrapped(_holds(ticket, resource, now), width, glyphs, "accent", indent=1)
    for name, words in particulars(ticket):
        first, *rest = wrapped(words, width, glyphs, indent=_NAMES)
        lines += [line(Span(f" {name:<{_NAMES - 1}}", "muted"), Span(first.spans[0].text[_NAMES:])), *rest]
    return lines


def _holds(ticket: Ticket, resource: Resource | None, now: str) -> str:
    since = duration_text(ticket.held_seconds)
    if resource is not None and resource.state == "ghost" and ticket.position == 0:
        return f"{ticket.lane or ticket.id} took {ticket.resource} {since} ago; its hold is dead and its token remains."
    left = seconds_until(ticket.deadline_at, now)
    limit = " and has no time limit"
    if left is not None:
        limit = f" and may for {duration_text(left)} more" if left > 0 else f", {duration_text(-left)} over its time"
    waited = f"; it had waited {duration_text(ticket.waited_seconds)}" if (ticket.waited_seconds or 0) >= 1 else ""
    state = "" if ticket.state == "running" else f" and is {ticket.state}"
    return f"{ticket.lane or ticket.id} has held {ticket.resource} for {since}{state}{limit}{waited}."


def particulars(ticket: Ticket) -> Iterator[tuple[str, str]]:
    """Names and what they are; the last ones only where there is something to say."""
    yield "command", command_text(ticket.command) or "unknown"
    pids = f"pid {ticket.pid}" + (f", keeper {ticket.keeper_pid}" if ticket.keeper_pid else "")
    yield "started by", f"{who(ticket)}, {pids}, in {ticket.cwd or 'an unknown directory'}"
    if ticket.log_path:
        yield "log", ticket.log_path
    yield "limits", limits_text(ticket.limits) or "none"
    if ticket.containment:
        yield "kept by", ", ".join(ticket.containment)
    if ticket.being_ended_by is not None:
        yield "ending", f"being ended by {ticket.being_ended_by}"
