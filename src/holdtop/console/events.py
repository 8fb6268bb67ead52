"""The lines of event logs and of other files as the console shows them. Every field is foreign text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdtop.console.follow import Place
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.happened import in_words
from holdtop.console.view.queue import WIDE, short_id
from holdtop.console.view.severity import verdict_role
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.console.view.when import parse

_ROLES: dict[str, Role] = {
    "taken": "held",
    "ending": "warning",
    "ended": "warning",
    "warned": "warning",
    "evicted": "warning",
    "recovered": "warning",
    "left": "warning",
    "kept": "critical",
    "unreleased": "critical",
}


#: How other programs say how bad a line is, within its first ``_LEVEL_WITHIN`` characters.
_CRITICAL = re.compile(r"\b(?:error|fatal|critical|panic|traceback|exception|oom)\b", re.IGNORECASE)
_WARNING = re.compile(r"\bwarn(?:ing)?\b", re.IGNORECASE)
_LEVEL_WITHIN = 120
#: By the name of a level the roles that it shows; of "all" every one.
LEVELS: dict[str, frozenset[Role]] = {
    "all": frozenset(),
    "warnings and errors": frozenset({"warning", "critical"}),
    "errors": frozenset({"critical"}),
}


@dataclass(frozen=True, slots=True, eq=False)
class LogLine:
    """One line of one log: an event, what was no event (``?``), a line of a file, or a note of the follower."""

    #: Whose event log it is of; empty for a line of another file.
    resource: str
    #: RFC 3339 as written, or empty.
    at: str
    kind: str
    ticket: str
    text: str
    role: Role = "text"
    #: Whose hold it was, where the event says so; the world knows it of the others.
    lane: str = ""
    #: Path of the file, where it is no event log.
    file: str = ""
    #: It has no end yet: a later line of the same log takes its place.
    unfinished: bool = False
    #: Bytes of the log that a note says are not shown.
    left_out: int = 0
    #: Where it begins in its file; ``None`` where that is not known.
    place: Place | None = None

    @property
    def log(self) -> str:
        """Which log it is of: a path, or a resource."""
        return self.file or self.resource


def parse_line(path: str, text: str) -> LogLine:
    """One line of a file that says nothing about holds."""
    head = text[:_LEVEL_WITHIN]
    role: Role = "critical" if _CRITICAL.search(head) else "warning" if _WARNING.search(head) else "text"
    return LogLine("", "", "line", "", text, role, file=path)


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
    if event in ("released", "settled"):
        role = verdict_role(said.get("verdict"))
    if event in ("ending", "ended") and said.get("reason") == "exited":
        role = "text"  # by itself: nothing to be warned of
    lane = _text(said, "lane") if event == "queued" else ""
    return LogLine(resource, _text(said, "at"), event, _text(said, "ticket"), in_words(event, said), role, lane)


def _text(said: dict[str, object], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""


def log_row(
    entry: LogLine,
    lane: str,
    width: int,
    glyphs: Glyphs,
    *,
    selected: bool = False,
    found: bool = False,
    shift: int = 0,
) -> Line:
    """``lane``: whose ticket it is, or empty. ``found``: a search marked it. ``shift``: cells of its text left out."""
    mark = Span(glyphs.focus if found else " ", "accent", True)
    text = glyphs.clean(entry.text, shift + 2 * width)[shift:]
    plain: Role = "muted" if entry.kind == "note" else "text"
    if entry.file:
        return line(mark, Span(text, plain if entry.kind == "note" else entry.role, found), selected=selected)
    instant = parse(entry.at)
    clock = f"{instant:%H:%M:%S}" if instant else " " * 8
    return line(
        mark,
        Span(f"{clock} ", "muted"),
        Span(glyphs.column(entry.resource, 4) + " ", "muted"),
        Span(glyphs.column(entry.kind, 10) + " ", entry.role, entry.role != "text"),
        *_whose(entry, lane, width, glyphs),
        Span(text, plain, found),
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


def in_order(lines: Iterable[LogLine]) -> list[LogLine]:
    """Lines of several logs by their instants; a line without one stays behind the one it followed."""
    last: dict[str, float] = {}
    dated = []
    for entry in lines:
        if (instant := parse(entry.at)) is not None:
            last[entry.resource] = instant.timestamp()
        dated.append((last.get(entry.resource, 0.0), entry))
    return [entry for _, entry in sorted(dated, key=lambda pair: pair[0])]
