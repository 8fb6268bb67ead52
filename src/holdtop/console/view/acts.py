"""Operators' acts, two rows each: who did what to whom and why, and what became of it. Every field is foreign text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdtop.console.feeds import Acts
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import short_id
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.console.view.when import coarse, seconds_until
from holdtop.render import bytes_text, counted, objects, whole

ROWS = 2
READING = "reading the audit"


@dataclass(frozen=True, slots=True)
class Deed:
    """The records of one act: what was meant, and how it ended; a refusal is its own end."""

    act: str
    user: str
    meant: Mapping[str, Any]
    #: ``None`` while it is under way, or when nobody lived to write it.
    ended: Mapping[str, Any] | None


def deeds(acts: Acts) -> list[Deed]:
    """The newest first."""
    found: dict[tuple[object, str], Deed] = {}
    for record in acts.records:
        uid = whole(record.get("uid"))
        key = (uid, str(record.get("act")))
        before = found.get(key)
        ended = record if record.get("kind") != "intent" else before.ended if before else None
        name = "?" if uid is None else acts.users.get(uid, str(uid))
        found[key] = Deed(key[1], name, before.meant if before else record, ended)
    return list(reversed(found.values()))


def act_rows(deed: Deed, now: str, width: int, glyphs: Glyphs, *, selected: bool) -> tuple[Line, Line]:
    meant, ended = deed.meant, deed.ended
    ago = seconds_until(now, _text(meant, "at"))
    sign, role, word = judged(deed, glyphs)
    pids = [str(one.get("pid")) for one in objects(meant.get("targets"))]
    about = " ".join(filter(None, (_text(meant, "resource"), _text(meant, "lane"), short_id(_text(meant, "ticket")))))
    named = about or (f"pid {', '.join(pids)}" if pids else _text(meant, "asked"))
    head = line(
        Span(f" {sign:<2}", role, True),
        Span(f"{coarse(ago, '?'):>6} ", "muted"),
        Span(glyphs.column(_text(meant, "verb"), 7) + " ", "accent", True),
        Span(f"{glyphs.clean(named, 60)} ", "text", True),
        Span(f"by {glyphs.clean(deed.user, 24)}"),
        Span(f": {glyphs.clean(_text(meant, 'reason') or 'no reason', width)}", "muted"),
        selected=selected,
    )
    said = _text(ended or {}, "text") or _text(ended or {}, "why")
    more = f" {glyphs.dot} {counted(len(pids), 'process', 'processes')}" if pids else ""
    back = whole((ended or {}).get("returned_bytes"))
    memory = f" {glyphs.dot} {bytes_text(back)} came back" if back else ""
    return head, line(
        Span(f"          {glyphs.arrow} ", "muted"),
        Span(f"{word} ", role, True),
        Span(glyphs.clean(f"{said}{more}{memory}", width)),
        selected=selected,
    )


def judged(deed: Deed, glyphs: Glyphs) -> tuple[str, Role, str]:
    """Sign, role and word for how it ended."""
    if deed.ended is None:
        return glyphs.state["ending"], "warning", "no outcome yet:"
    if deed.ended.get("kind") == "refused":
        return glyphs.severity["warning"], "warning", "refused:"
    if deed.ended.get("status") in (0, 7):
        return glyphs.fine, "ok", "done:"
    return glyphs.severity["critical"], "critical", "incomplete:"


def chain_words(acts: Acts | None, *, reading: bool = False) -> str:
    """Whether the records are whole, as far as the chains can show; ``reading``: they are looked at again."""
    if acts is None or reading:
        return READING
    if acts.trouble:
        return f"cannot be read: {acts.trouble}"
    if acts.bad or acts.bad is None:
        return "newest first"
    return "all chains whole, newest first" if acts.records else "all chains whole"


def chain_line(acts: Acts | None, glyphs: Glyphs) -> Line | None:
    """The first bad record of the chains; ``None`` where all are whole."""
    if acts is None or not acts.bad:
        return None
    more = f" (and {len(acts.bad) - 1} more)" if len(acts.bad) > 1 else ""
    alarm = f" {glyphs.severity['critical']} the record is not whole: "
    return line(Span(alarm, "critical", True), Span(f"{acts.bad[0]}{more}", "critical"))


def matches(deed: Deed, wanted: str) -> bool:
    values = (*deed.meant.values(), *(deed.ended or {}).values(), deed.user)
    return any(wanted in value.casefold() for value in values if isinstance(value, str))


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""
