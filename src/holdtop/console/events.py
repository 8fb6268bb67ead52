"""The lines of an event log as the console shows them. Every field is foreign text."""

from __future__ import annotations

import json
from dataclasses import dataclass

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.happened import in_words
from holdtop.console.view.queue import WIDE, short_id
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.console.view.when import parse

_ROLES: dict[str, Role] = {
    "taken": "held",
    "released": "ok",
    "ending": "warning",
    "ended": "warning",
    "warned": "warning",
    "evicted": "warning",
    "recovered": "warning",
    "left": "warning",
    "kept": "critical",
    "settled": "ok",
    "unreleased": "critical",
}


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of one log: an event, or what was no event (``?``), or a note of the follower (``note``)."""

    resource: str
    #: RFC 3339 as written, or empty.
    at: str
    kind: str
    ticket: str
    text: str
    role: Role = "text"
    #: Whose hold it was, where the event says so; the world knows it of the others.
    lane: str = ""


def parse_event(resource: str, text: str) -> LogLine:
    """One line of the log; what is no JSON object is shown as it stands."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return LogLine(resource, "", "?", "", text)
    if not isinstance(said, dict):
        return LogLine(resource, "", "?", "", text)
    event = _text(said, "event")
    role = _ROLES.get(event, "text")
    if event in ("released", "settled") and said.get("verdict") != "clean":
        role = "warning"
    lane = _text(said, "lane") if event == "queued" else ""
    return LogLine(resource, _text(said, "at"), event, _text(said, "ticket"), in_words(event, said), role, lane)


def _text(said: dict[str, object], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def log_row(entry: LogLine, lane: str, width: int, glyphs: Glyphs, *, selected: bool = False) -> Line:
    """``lane``: whose ticket it is, or empty."""
    instant = parse(entry.at)
    clock = f"{instant:%H:%M:%S}" if instant else " " * 8
    return line(
        Span(f" {clock} ", "muted"),
        Span(glyphs.column(entry.resource, 4) + " ", "muted"),
        Span(glyphs.column(entry.kind, 10) + " ", entry.role, entry.role != "text"),
        *_whose(entry, lane, width, glyphs),
        Span(glyphs.clean(entry.text, width), "muted" if entry.kind == "note" else "text"),
        selected=selected,
    )


def _whose(entry: LogLine, lane: str, width: int, glyphs: Glyphs) -> list[Span]:
    """Lane and ticket; nothing for what is no hold's."""
    if not entry.ticket:
        return []
    named = Span(glyphs.column(lane or glyphs.dash, 14 if width >= WIDE else 12) + " ", "text", True)
    ticket = Span(glyphs.column(short_id(entry.ticket), 10) + " ", "muted")
    return [named, ticket] if width >= WIDE else [named]


def matches(entry: LogLine, lane: str, wanted: str) -> bool:
    return any(wanted in word.casefold() for word in (entry.resource, entry.kind, entry.ticket, entry.text, lane))
