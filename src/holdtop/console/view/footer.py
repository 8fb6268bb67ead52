"""The last line: what has just happened, else the keys."""

from __future__ import annotations

from collections.abc import Iterable

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Span, line
from holdtop.render import cells


def footer(keys: Iterable[tuple[str, str]], note: str, width: int, glyphs: Glyphs) -> Line:
    """As many (key, label) as fit, in their order; a note takes their place."""
    if note:
        return line(Span(" " + glyphs.clean(note, 4 * width), "warning", True))
    spans = []
    room = width - 1
    for key, label in keys:
        taken = cells(key) + cells(label) + 3
        if taken > room:
            break
        spans += [Span(f" {key}", "accent", True), Span(f" {label} ", "muted")]
        room -= taken
    return line(*spans)
