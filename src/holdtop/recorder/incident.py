"""A report of a stretch of a recording, in Markdown: what happened, who held, what leaked, who did what, the memory.

It says what was seen and nothing else; all foreign text stands in code spans, where it means nothing.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from holdtop.model.clock import parse
from holdtop.model.past import LONGEST, number
from holdtop.model.values import PARTS, SEVERITIES, Flag, Process, Reading, Snapshot, Ticket
from holdtop.recorder.marks import Mark
from holdtop.recorder.recording import Recording, clock
from holdtop.render import bytes_text, clean, counted, duration_text, objects, whole

#: Marks that are further apart than so many seconds are of two incidents; and what is shown before and after.
QUIET, MARGIN = 600, 60
#: Rows of a table, at most; and looks that are unpacked for it.
MOST = 500
#: Longest foreign text, in characters.
LONG = 300
#: Flags of what stays behind when a hold is over.
LEAKS = ("survivor", "unkillable", "ghost", "stray", "stranded-memory")
_READINGS = {"gtt_used_bytes": "GTT used", "vram_used_bytes": "VRAM used", "mem_available_bytes": "MemAvailable"}


def last_incident(recording: Recording) -> tuple[int, int] | None:
    """First and last position of the newest stretch in which something went wrong; ``None`` when nothing did."""
    marks = recording.marks()
    bad = [position for position, mark in marks if mark.severity != "info"]
    if not bad:
        return None
    times = [look.at_ms / 1000 for look in recording.instants]
    marked, worst = [position for position, _ in marks], bad[-1]
    first = _reached(worst, (position for position in reversed(marked) if position <= worst), times)
    last = _reached(worst, (position for position in marked if position >= worst), times)
    earlier = itertools.takewhile(lambda one: abs(times[one] - times[first]) <= MARGIN, range(first, -1, -1))
    later = itertools.takewhile(lambda one: abs(times[one] - times[last]) <= MARGIN, range(last, len(times)))
    return max(0, min(earlier) - 1), max(later)  # and how it was before


def _reached(position: int, others: Iterable[int], times: Sequence[float]) -> int:
    """The last one of ``others`` to which there is no quiet; by what passed in between, as clocks are set back."""
    for other in others:
        if abs(times[other] - times[position]) >= QUIET:
            break
        position = other
    return position


@dataclass(frozen=True, slots=True)
class Stretch:
    """All that the report draws from."""

    recording: Recording
    first: int
    last: int
    marks: Sequence[tuple[int, Mark]]
    #: Looks at which something happened, and those at both ends.
    looks: Sequence[Snapshot]
    acts: Sequence[Mapping[str, Any]]


def stretch(recording: Recording, first: int, last: int) -> Stretch:
    """Raises ``RecordingError``."""
    within = [(position, mark) for position, mark in recording.marks() if first <= position <= last]
    wanted = sorted({first, last, *[position for position, _ in within][-MOST:]})
    acts = [one.act for one in recording.told if one.act is not None and first <= one.position <= last]
    return Stretch(recording, first, last, within, [recording.snapshot(one) for one in wanted], acts)


def report(of: Stretch) -> Iterator[str]:
    """Its lines."""
    begin, end = of.looks[0], of.looks[-1]
    yield f"# Incident on {code(begin.host)}, {code(begin.taken_at)} to {code(end.taken_at)}"
    yield ""
    yield from _worst(of.looks)
    for title, lines in (
        ("Timeline", _timeline(of.marks)),
        ("Who held", _holders(of.looks)),
        ("What leaked", _leaks(of.looks)),
        ("What was done, and by whom", _acts(of)),
        ("Memory before and after", _memory(of.looks)),
        ("What this rests on", _sources(of)),
    ):
        yield from ("", f"## {title}", "", *lines)


def _worst(looks: Sequence[Snapshot]) -> Iterator[str]:
    flags = [flag for look in looks for flag in look.flags]
    if not flags:
        yield "No flag stood at any look of it."
        return
    worst = min(flags, key=lambda flag: SEVERITIES.index(flag.severity))
    yield f"Worst: {worst.severity} {code(worst.kind)} since {code(worst.since)}: {code(worst.text)}"
    yield f"Remedy then: {code(worst.remedy)}"


def _timeline(marks: Sequence[tuple[int, Mark]]) -> Iterator[str]:
    if not marks:
        yield "Nothing was marked."
        return
    rows = [(mark.at, mark.kind, mark.severity, mark.resource, mark.ticket, mark.text) for _, mark in marks]
    yield from table(("time", "what", "severity", "resource", "ticket", ""), rows)


def _holders(looks: Sequence[Snapshot]) -> Iterator[str]:
    """Those that were seen, and those that left a receipt and nothing else."""
    seen: dict[tuple[str, str], list[tuple[str, Ticket]]] = {}
    for look in looks:
        for resource in look.resources:
            if resource.holder is not None:
                seen.setdefault((resource.name, resource.holder.id), []).append((look.taken_at, resource.holder))
    ended = _ended(looks)
    rows = []
    for name, ticket in dict.fromkeys((*seen, *ended)):
        receipt = ended.get((name, ticket), {})
        if at := seen.get((name, ticket)):
            holder = at[-1][1]
            who: tuple[object, ...] = (holder.lane, holder.user, " ".join(holder.command), _held(at, receipt))
        else:
            who = (receipt.get("lane"), None, receipt.get("command"), "between two looks")
        how = ", ".join(str(receipt.get(key)) for key in ("at", "reason", "verdict"))
        rows.append((name, ticket, *who, how if receipt else "no receipt in this", _use(receipt)))
    if not rows:
        yield "Nobody held anything, as far as was seen."
        return
    yield from table(("resource", "ticket", "lane", "user", "command", "held", "ended", "memory"), rows)


def _held(at: Sequence[tuple[str, Ticket]], receipt: Mapping[str, object]) -> str:
    """Since when, and for how long; without a receipt, until when at least."""
    since, taken, age = at[0][0], parse(at[0][0]), number(at[0][1].held_seconds, LONGEST)
    if taken and age is not None:
        with contextlib.suppress(OverflowError):
            since = (taken - timedelta(seconds=age)).isoformat(timespec="seconds")
    seconds = number(receipt.get("held_seconds"), LONGEST)
    until = f"seen until {at[-1][0]}" if seconds is None else f"for {duration_text(seconds)}"
    return f"from {since}, {until}"


def _ended(looks: Sequence[Snapshot]) -> dict[tuple[str, str], Mapping[str, object]]:
    """Receipts that came in between, by what they said in the end."""
    before = [one for resource in looks[0].resources for one in resource.receipts]
    found = {
        (resource.name, str(one.get("ticket"))): one
        for look in looks
        for resource in look.resources
        for one in resource.receipts
    }
    return {key: one for key, one in found.items() if one not in before}


def _use(receipt: Mapping[str, object]) -> str | None:
    """``before 1.0 GiB, peak 41.0 GiB, after 8.0 GiB``."""
    memory = receipt.get("memory")
    if not isinstance(memory, Mapping):
        return None
    sizes = ((word, memory.get(f"{word}_bytes")) for word in ("before", "peak", "after"))
    return ", ".join(f"{word} {bytes_text(whole(size))}" for word, size in sizes)


def _leaks(looks: Sequence[Snapshot]) -> Iterator[str]:
    flags: dict[tuple[str, str | None, str], tuple[Flag, str]] = {}
    for look in looks:
        for flag in look.flags:
            if flag.kind in LEAKS:
                flags[flag.kind, flag.ticket, flag.text] = (flag, look.taken_at)
    for flag, seen in flags.values():
        times = f"from {code(flag.since)}, seen until {code(seen)}"
        yield f"- {flag.severity} {code(flag.kind)}: {code(flag.text)}; {times}"
    dirty = [one for one in _ended(looks).values() if one.get("verdict") != "clean"]
    for receipt in dirty:
        left = receipt.get("left")
        named = [f"{one.get('name')} (pid {one.get('pid')}, {one.get('why')})" for one in objects(left)]
        who = f"{receipt.get('lane')} ({receipt.get('ticket')})"
        what = f"left {', '.join(named)}" if named else "left no process that was seen"
        yield f"- {code(who)}, {code(receipt.get('verdict'))}: {code(what)}; memory: {code(_use(receipt))}"
    for process in looks[-1].leftovers:
        yield f"- at the end there was still {code(_process(process))}"
    if not flags and not dirty and not looks[-1].leftovers:
        yield "Nothing, as far as was seen."


def _acts(of: Stretch) -> Iterator[str]:
    if not of.acts:
        yield "No operator's act is on record for this time."
        return
    names = {ticket.uid: ticket.user for look in of.looks for ticket in _tickets(look)}
    rows = []
    for act in of.acts:
        who = names.get(act.get("uid")) or f"uid {act.get('uid')}"
        said = act.get("text") or act.get("why") or act.get("how")
        rows.append((act.get("at"), who, act.get("verb"), act.get("kind"), _about(act), act.get("reason"), said))
    yield from table(("time", "who", "verb", "record", "about", "reason", "what it says"), rows)


def _about(act: Mapping[str, Any]) -> str:
    pids = [f"pid {one.get('pid')}" for one in objects(act.get("targets") or act.get("fates"))]
    return ", ".join(str(one) for one in (act.get("ticket") or act.get("asked"), *pids) if one)


def _memory(looks: Sequence[Snapshot]) -> Iterator[str]:
    """At both ends, and at the look at which most of the pool was used."""
    pool = next((look.card.pool for look in looks if look.card and look.card.pool), "gtt")
    fullest = max(looks, key=lambda look: _value(look, f"{pool}_used_bytes") or 0.0)
    shown = (looks[0], fullest, looks[-1])
    rows: list[tuple[object, ...]] = [
        (label, *(bytes_text(_value(look, name)) for look in shown)) for name, label in _READINGS.items()
    ]
    rows += [
        (part, *(bytes_text(getattr(look.memory, f"{part}_bytes")) for look in shown)) for part in (*PARTS, "headroom")
    ]
    heads = (f"{word} {code(look.taken_at)}" for word, look in zip(("before", "fullest", "after"), shown, strict=True))
    yield from table(("", *heads), rows)


def _sources(of: Stretch) -> Iterator[str]:
    looks = of.recording.instants[of.first : of.last + 1]
    gap = max((later.at_ms - earlier.at_ms for earlier, later in itertools.pairwise(looks)), default=0)
    number = counted(len(looks), "recorded look", "recorded looks")
    yield f"- {number}; the longest time without one: {duration_text(gap / 1000)}."
    yield "- What began and ended between two looks is known from receipts and audits alone."
    if of.looks[0].boot_id != of.looks[-1].boot_id:
        yield "- The box was started anew in between."
    for root in of.looks[-1].roots:
        yield f"- Not of a live box: {code(root)}"
    for damage in of.recording.damage:
        yield f"- The recording is damaged: {code(damage)}"
    begin, end = (code(clock(of.recording.instants[place].at_ms)) for place in (0, -1))
    yield f"- The recording reaches from {begin} to {end}."


def table(heads: Sequence[object], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """At most ``MOST`` rows, the newest; each cell a code span, whatever it holds."""
    yield f"| {' | '.join(clean(str(head), LONG) for head in heads)} |"
    yield f"|{'---|' * len(heads)}"
    if len(rows) > MOST:
        yield f"| {counted(len(rows) - MOST, 'earlier row is', 'earlier rows are')} left out |"
    for row in rows[-MOST:]:
        yield f"| {' | '.join(map(code, row))} |"


def code(text: object) -> str:
    """A code span, also within a table: a backtick cannot end it, nor a bar the cell."""
    shown = clean("" if text is None else str(text), LONG).strip().replace("`", "'").replace("|", "\\|")
    return f"`{shown}`" if shown else "–"


def _value(look: Snapshot, name: str) -> float | None:
    return look.readings.get(name, Reading()).value


def _tickets(look: Snapshot) -> Iterator[Ticket]:
    for resource in look.resources:
        yield from resource.waiting
        if resource.holder is not None:
            yield resource.holder


def _process(process: Process) -> str:
    return f"pid {process.pid} ({process.name}, {process.user or process.uid}, GTT {bytes_text(process.gtt_bytes)})"
