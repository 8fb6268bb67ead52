"""The help page, made from the table of keys that is in force."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from holdtop.console.keys import Key, spoken
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Span, line, title, wrapped

#: Cells of the keys' names.
_NAMES = 20
_SIGNS = (
    (
        "Memory bar",
        "held: the payload under the token. strays & survivors: device users outside every payload. "
        "unattributed (nobody): in use, and no process that could be looked into holds it. "
        "VRAM and GTT are never added.",
    ),
    (
        "Unknown",
        "is never zero: what could not be read says why. 'closed' stands for a process whose device "
        "memory may not be looked into from this account.",
    ),
    ("Colours", "repeat what signs and words say already; nothing is said by colour alone."),
)


def help_lines(
    keys: Sequence[Key], troubles: Sequence[str], roots: Sequence[str], width: int, glyphs: Glyphs
) -> list[Line]:
    """``roots``: where the sensors are recorded ones."""
    lines: list[Line] = []
    for trouble in troubles:
        lines += wrapped(f"{glyphs.severity['warning']} {trouble}", width, glyphs, "warning", indent=1)
    for group, members in groupby(keys, key=lambda key: key.group):
        lines += [*([line()] if lines else []), title(group, "", width, glyphs)]
        for key in members:
            names = ", ".join(spoken(name) for name in key.keys.split(","))
            first, *rest = wrapped(key.help, width, glyphs, indent=_NAMES)
            lines += [line(Span(f"  {names:<{_NAMES - 2}}", "accent", True), Span(first.spans[0].text[_NAMES:])), *rest]
    lines += [line(), title("Reading the screen", "", width, glyphs)]
    for name, words in _SIGNS:
        lines.append(line(Span(f"  {name}", "accent", True)))
        lines += wrapped(words, width, glyphs, indent=4)
    if roots:
        lines.append(line(Span("  Recorded sensors", "accent", True)))
    for root in roots:
        lines += wrapped(root, width, glyphs, indent=4)
    return lines
