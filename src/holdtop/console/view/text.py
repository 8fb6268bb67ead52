"""A line of the screen as words with roles; what a role looks like is the theme's business."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, get_args

from holdtop.console.view.glyphs import Glyphs
from holdtop.render import cells, fit

Role = Literal[
    "text",
    "muted",
    "accent",
    "rule",
    "ok",
    "info",
    "warning",
    "critical",
    "held",
    "unattributed",
    "other",
    "available",
]
ROLES: tuple[Role, ...] = get_args(Role)


class Span(NamedTuple):
    """Some text of one role. The text need not be clean: the painter cleans what it draws."""

    text: str
    role: Role = "text"
    strong: bool = False


class Line(NamedTuple):
    """One row of the screen. ``selected`` rows are shown so even where there is no colour."""

    spans: tuple[Span, ...] = ()
    selected: bool = False


def line(*spans: Span | str, selected: bool = False) -> Line:
    return Line(tuple(Span(part) if isinstance(part, str) else part for part in spans), selected)


def width_of(spans: Iterable[Span]) -> int:
    """In cells; the spans' texts must be clean."""
    return sum(cells(span.text) for span in spans)


def spread(left: Iterable[Span], right: Iterable[Span], width: int) -> Line:
    """``left`` at the left edge and ``right`` at the right one, when both fit; else ``left`` alone."""
    left, right = tuple(left), tuple(right)
    gap = width - width_of(left) - width_of(right)
    return Line((*left, Span(" " * gap), *right) if gap >= 1 else left)


def title(name: str, detail: str, width: int, glyphs: Glyphs, *, focused: bool = False) -> Line:
    """The rule above a panel: its name, what it shows, and whether keys go to it."""
    mark = glyphs.focus if focused else glyphs.rule
    shown = glyphs.fit(f" {detail} " if detail else " ", max(0, width - len(name) - 4))
    rest = max(0, width - 2 - len(name) - cells(shown))
    return line(
        Span(f"{mark} ", "accent" if focused else "rule", focused),
        Span(name, "accent" if focused else "text", True),
        Span(shown, "muted"),
        Span(glyphs.rule * rest, "accent" if focused else "rule"),
    )


def wrapped(text: str, width: int, glyphs: Glyphs, role: Role = "text", indent: int = 3) -> list[Line]:
    """A paragraph of foreign text in lines of at most ``width`` cells, broken at blanks if there are any."""
    room = max(1, width - indent - 1)
    rows: list[str] = []
    row = ""
    for word in glyphs.clean(text, 2000).split(" "):
        for part in _pieces(word, room):
            if row and cells(row) + 1 + cells(part) > room:
                rows.append(row)
                row = part
            else:
                row = f"{row} {part}" if row else part
    return [line(Span(" " * indent + part, role)) for part in (*rows, row)]


def _pieces(word: str, room: int) -> list[str]:
    """A word that is longer than a row, in parts that are not."""
    pieces = []
    while cells(word) > room:
        part = fit(word, room, ellipsis="") or word[:1]
        pieces.append(part)
        word = word[len(part) :]
    return [*pieces, word]
