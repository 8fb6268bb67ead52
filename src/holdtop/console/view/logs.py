"""The logs that are followed, one row each: how much there is of it, and what it said last."""

from __future__ import annotations

from collections.abc import Sequence

from holdtop.console.events import LogLine
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Span, line

#: What the events of all holds are called among the files.
EVENTS = "events of all holds"


def source_head(width: int, glyphs: Glyphs) -> Line:
    name = glyphs.column("LOG", _name_width(width))
    return line(Span(glyphs.fit(f"   {name} {'LINES':>6}  NEWEST", width), "muted"))


def source_row(path: str, lines: Sequence[LogLine], width: int, glyphs: Glyphs, *, selected: bool) -> Line:
    newest = lines[-1] if lines else None
    bad = bool(path) and newest is not None and newest.kind == "note"
    mark = glyphs.severity["warning"] if bad else " "
    return line(
        Span(f" {mark} ", "warning", True),
        Span(_name(path, _name_width(width), glyphs) + " ", "text", True),
        Span(f"{len(lines):>6}  ", "muted"),
        Span(glyphs.clean(_said(newest), width), newest.role if newest else "muted"),
        selected=selected,
    )


def _said(newest: LogLine | None) -> str:
    if newest is None:
        return "nothing yet"
    return newest.text if newest.file or newest.kind == "note" else f"{newest.kind}: {newest.text}"


def _name(path: str, width: int, glyphs: Glyphs) -> str:
    """The end of a path, which tells more than its beginning."""
    shown = glyphs.clean(path) if path else EVENTS
    while len(shown) > width and "/" in shown[1:]:
        shown = shown[1:].partition("/")[2]
    return glyphs.column(shown, width)


def _name_width(width: int) -> int:
    return max(20, width // 3)
