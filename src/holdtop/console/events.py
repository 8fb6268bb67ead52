"""The lines of an event log as the console shows them. Every field is foreign text."""

from __future__ import annotations

import json
from dataclasses import dataclass

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import short_id
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
    "left": "critical",
}
#: Fields that say nothing to a reader of the screen, or stand in columns of their own.
_SILENT = frozenset({"at", "boot", "event", "ticket", "by_pid", "resource"})


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


def parse_event(resource: str, text: str) -> LogLine:
    """One line of the log; what is no JSON object is shown as it stands."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return LogLine(resource, "", "?", "", text)
    if not isinstance(said, dict):
        return LogLine(resource, "", "?", "", text)
    rest = "  ".join(
        f"{key}={_value(value)}" for key, value in said.items() if key not in _SILENT and value not in ("", None)
    )
    event = _text(said, "event")
    role = _ROLES.get(event, "text")
    if event == "released" and said.get("verdict") != "clean":
        role = "warning"
    return LogLine(resource, _text(said, "at"), event, _text(said, "ticket"), rest, role)


def _text(said: dict[str, object], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def log_row(entry: LogLine, width: int, glyphs: Glyphs, *, selected: bool = False) -> Line:
    instant = parse(entry.at)
    clock = f"{instant:%H:%M:%S}" if instant else " " * 8
    return line(
        Span(f" {clock} ", "muted"),
        Span(glyphs.column(entry.resource, 4) + " ", "muted"),
        Span(glyphs.column(entry.kind, 10) + " ", entry.role, entry.role != "text"),
        Span(glyphs.column(short_id(entry.ticket), 14) + " ", "accent"),
        Span(glyphs.clean(entry.text, width), "muted" if entry.kind == "note" else "text"),
        selected=selected,
    )


def matches(entry: LogLine, wanted: str) -> bool:
    return any(wanted in word.casefold() for word in (entry.resource, entry.kind, entry.ticket, entry.text))
