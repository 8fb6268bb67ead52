"""What is wrong, worst first: two rows each, the evidence and the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import short_id
from holdtop.console.view.text import Line, Span, line, width_of
from holdtop.console.view.when import coarse, seconds_until
from holdtop.model.values import Flag
from holdtop.render import cells

ROWS = 2
_STATE_DIR = re.compile(r"(--state-dir )('[^']*'|\S+)")
#: What the key of an act does to a flag whose remedy is that act.
_HINTS = {"kill": "ends it", "evict": "takes it out of the queue", "recover": "frees it"}


def flag_rows(
    flag: Flag, now: str, width: int, glyphs: Glyphs, keys: Mapping[str, str], *, selected: bool, marked: bool = False
) -> tuple[Line, Line]:
    """``keys``: which key calls an act; the selected flag says so beside the command."""
    since = seconds_until(now, flag.since)
    where = " ".join(filter(None, (flag.resource, short_id(flag.ticket) if flag.ticket else None)))
    head = [
        Span(glyphs.mark if marked else " ", "accent", True),
        Span(f"{glyphs.severity[flag.severity]} ", flag.severity, True),
        Span(f"{glyphs.clean(flag.kind, 24)} ", flag.severity, True),
        Span(f"{glyphs.clean(where, 40)} ", "accent"),
        Span(f"{coarse(since)} " if since is not None else "", "muted"),
        Span(glyphs.clean(flag.text, width)),
    ]
    remedy = [Span(f"   {glyphs.arrow} ", "muted")]
    if selected and (verb := _verb(flag)) in keys:
        remedy += [Span(keys[verb], "accent", True), Span(f" {_HINTS[verb]} {glyphs.dot} ")]
    remedy.append(Span(_shortened(glyphs.clean(flag.remedy), width - width_of(remedy), glyphs), "muted"))
    return line(*head, selected=selected), line(*remedy, selected=selected)


def _shortened(remedy: str, room: int, glyphs: Glyphs) -> str:
    """Where there is no room for all of it, not the path of the state is shown but what is to be done."""
    return remedy if cells(remedy) <= room else _STATE_DIR.sub(rf"\1{glyphs.ellipsis}", remedy)


def _verb(flag: Flag) -> str:
    """The act that the remedy's command is, or empty."""
    program, _, rest = flag.remedy.partition(" ")
    verb = rest.split(" ")[0]
    return verb if program == "holdtop" and verb in _HINTS else ""


def matches(flag: Flag, wanted: str) -> bool:
    words = (flag.kind, flag.resource or "", flag.ticket or "", flag.text, flag.remedy)
    return any(wanted in word.casefold() for word in words)
