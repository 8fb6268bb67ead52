"""The pages by name, the one that is shown marked; and which of them lies below the mouse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Span, line
from holdtop.render import cells

#: A page: its name, the key that opens it, what it is called.
Tab = tuple[str, str, str]


def tab_line(tabs: Sequence[Tab], page: str, width: int, glyphs: Glyphs) -> Line:
    spans = []
    for name, key, label in _that_fit(tabs, width):
        here = name == page
        spans += [
            Span(glyphs.focus if here else " ", "accent", True),
            Span(key, "accent", True),
            Span(f" {label}  ", "text" if here else "muted", here),
        ]
    return line(*spans)


def tab_at(tabs: Sequence[Tab], x: int, width: int) -> str | None:
    """The page whose tab covers the cell ``x``."""
    for name, key, label in _that_fit(tabs, width):
        x -= _width(key, label)
        if x < 0:
            return name
    return None


def _that_fit(tabs: Sequence[Tab], width: int) -> Iterator[Tab]:
    for tab in tabs:
        width -= _width(*tab[1:])
        if width < -2:  # the blanks behind the last one need no room
            return
        yield tab


def _width(key: str, label: str) -> int:
    return cells(key) + cells(label) + 4
