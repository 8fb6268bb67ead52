"""The one pool of an APU's memory as a bar: who has it, readable by its fillings alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.severity import LEFTOVERS, flagged
from holdtop.console.view.text import Line, Role, Span, line, width_of
from holdtop.model.memory import OLD_SCAN
from holdtop.model.values import Reading, Snapshot
from holdtop.render import bytes_text, counted, duration_text, short_bytes


class Part(NamedTuple):
    name: str
    role: Role
    #: In bytes; ``None`` when it cannot be known.
    size: int | None


def parts(snapshot: Snapshot) -> tuple[Part, ...]:
    """The pool's parts in bytes, in the order in which they are drawn: RAM, or VRAM where programs get that."""
    memory = snapshot.memory
    leftovers = _sum(memory.survivor_bytes, memory.stray_bytes)
    device = [memory.payload_bytes, leftovers, memory.shared_bytes, memory.unattributed_bytes]
    in_vram = snapshot.pool == "vram"
    total = _value(snapshot, "vram_total_bytes" if in_vram else "mem_total_bytes")
    available = memory.headroom_bytes if in_vram else _value(snapshot, "mem_available_bytes")
    other = None
    if total is not None and available is not None:
        other = max(0, total - available - sum(count or 0 for count in device))
    return (
        Part("held", "held", memory.payload_bytes),
        Part("strays & survivors", flagged(snapshot, LEFTOVERS), leftovers),
        Part("shared", "info", memory.shared_bytes),
        Part("unattributed", "unattributed", memory.unattributed_bytes),
        Part("other VRAM" if in_vram else "other RAM", "other", other),
        Part("available", "available", available),
    )


def memory_lines(snapshot: Snapshot, width: int, height: int, glyphs: Glyphs, *, named: bool = False) -> list[Line]:
    """The bar, and below it what its fillings mean."""
    shown = [
        (fill, sample, part)
        for fill, sample, part in zip(glyphs.fills, glyphs.samples, parts(snapshot), strict=True)
        if part.name != "shared" or part.size
    ]
    bar = _bar([(fill, part) for fill, _, part in shown], width - 2)
    legend = _legend([(sample, part) for _, sample, part in shown], snapshot, width, named)
    return [bar, legend][:height] if height > 1 else [legend]


def _bar(shown: Sequence[tuple[str, Part]], width: int) -> Line:
    total = sum(part.size or 0 for _, part in shown)
    if total <= 0 or shown[-1][1].size is None:
        return line(Span(" memory: unknown, as its total or what is available could not be read", "muted"))
    lengths = _shares([part.size or 0 for _, part in shown], max(1, width))
    spans = [Span(fill * length, part.role) for (fill, part), length in zip(shown, lengths, strict=True)]
    return line(Span(" "), *spans)


def _shares(counts: Sequence[int], width: int) -> list[int]:
    """Cells for each part: at least one for what is there at all, and ``width`` in sum."""
    total = sum(counts)
    lengths = [max(1, round(count * width / total)) if count else 0 for count in counts]
    while (over := sum(lengths) - width) != 0:
        widest = max(range(len(lengths)), key=lengths.__getitem__)
        lengths[widest] = max(0, lengths[widest] - over)
    return lengths


def headroom(snapshot: Snapshot) -> str:
    """What a payload may still take, and what makes the parts uncertain."""
    unreadable = snapshot.memory.unreadable_processes
    closed = f", {counted(unreadable, 'process', 'processes')} could not be looked into" if unreadable else ""
    scanned = snapshot.memory.scanned_at
    age = 0.0 if scanned is None else snapshot.at - scanned
    old = f", users last seen {duration_text(age)} ago" if age > OLD_SCAN else ""
    return f"one pool, headroom {bytes_text(snapshot.memory.headroom_bytes)}{old}{closed}"


_SHORT = {
    "strays & survivors": "strays",
    "unattributed": "nobody",
    "other RAM": "other",
    "other VRAM": "other",
    "available": "avail",
}


def _legend(shown: Sequence[tuple[str, Part]], snapshot: Snapshot, width: int, named: bool) -> Line:
    """``named``: the title says the headroom already. Long words where they fit, else short ones."""
    tries: tuple[tuple[Mapping[str, str], Callable[[int | None], str], str, str], ...] = (
        ({}, bytes_text, " ", " "),
        (_SHORT, short_bytes, " ", " "),
        (_SHORT, short_bytes, "", " "),
        (_SHORT, short_bytes, "", ""),
    )
    for words, size, before, after in tries:
        spans: list[Span] = []
        for sample, part in shown:
            name = words.get(part.name, part.name)
            spans += [Span(f"{before}{sample}{after}", part.role), Span(f"{name} ", "muted")]
            spans.append(Span(f"{size(part.size)} "))
        if not named:
            spans += [Span(f"{before}room ", "muted"), Span(size(snapshot.memory.headroom_bytes), "text", True)]
        if width_of(spans) <= width:
            break
    return line(*spans)


def _value(snapshot: Snapshot, name: str) -> int | None:
    value = snapshot.readings.get(name, Reading()).value
    return None if value is None else int(value)


def _sum(*counts: int | None) -> int | None:
    return sum(count or 0 for count in counts) if None not in counts else None
