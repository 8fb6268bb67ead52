"""What the device is doing, drawn: a block of gauges with graphs, or a strip for a narrow screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdtop.console.view.armed import armed
from holdtop.console.view.figures import GAUGES, Figure, Gauge, History, figure, gauges, other_pool
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Role, Span, line, width_of
from holdtop.model.values import Reading, Readings, Snapshot
from holdtop.render import cells


def graph(values: Sequence[float | None], low: float, high: float, rows: int, glyphs: Glyphs) -> list[str]:
    """``values`` as columns of ``rows`` lines, topmost first; a blank column where a value is not known."""
    steps = len(glyphs.levels)
    span = high - low
    heights = [
        None if value is None else round(min(1.0, max(0.0, (value - low) / span if span > 0 else 0.0)) * rows * steps)
        for value in values
    ]
    lines = []
    for row in reversed(range(rows)):
        floor = row * steps
        cells_of_row = []
        for height in heights:
            if height is None or (row and height <= floor):
                cells_of_row.append(" ")
            else:
                cells_of_row.append(glyphs.levels[min(steps, max(1, height - floor)) - 1])
        lines.append("".join(cells_of_row))
    return lines


def _scale(gauge: Gauge, values: Sequence[float | None], readings: Readings) -> tuple[float, float]:
    if gauge.limit and (limit := readings.get(gauge.limit, Reading()).value):
        return 0.0, limit
    known = [value for value in values if value is not None]
    return gauge.low, gauge.high if gauge.high is not None else max(known, default=1.0) or 1.0


def _sign(role: Role, glyphs: Glyphs) -> str:
    return glyphs.severity[role] if role in ("warning", "critical") else " "


def gauge_lines(snapshot: Snapshot, history: History, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The gauges in a block: a line each, or a graph below each where there is room."""
    rows = min(3, max(1, height // len(GAUGES)))
    lines: list[Line] = []
    stops = armed(snapshot)
    for gauge in gauges(snapshot):
        shown = figure(gauge, snapshot.readings, snapshot.at, glyphs, stops)
        head = _head(gauge, shown, width, rows == 1, glyphs)
        role: Role = "muted" if shown.role == "text" else shown.role  # calm, while nothing is wrong
        room = max(0, width - width_of(head) - 1) if rows == 1 else width - 4
        values = history.last(gauge.name, room)
        low, high = _scale(gauge, values, snapshot.readings)
        drawn = graph(values, low, high, max(1, rows - 1), glyphs)
        if rows == 1:
            lines.append(line(*head, Span(" " * (room - len(values)) + drawn[0], role)))
        elif shown.value == "unknown":
            why = line(Span(glyphs.fit("   " + shown.note, width - 1), "muted"))
            lines += [line(*head), why, *([line()] * (rows - 2))]
        else:
            lines.append(line(*head))
            pad = " " * (width - 1 - len(values))
            lines += [line(Span(pad + part, role)) for part in drawn]
    return lines[:height]


def _head(gauge: Gauge, shown: Figure, width: int, inline: bool, glyphs: Glyphs) -> list[Span]:
    """Sign, name, value and limit; then how old it is, or (``inline``) why it is not known."""
    compact = inline and width < 60
    value = _compact(gauge, shown) if compact else f"{shown.value:>9}"
    spans = [
        Span(f" {_sign(shown.role, glyphs)} ", shown.role),
        Span(f"{gauge.short if compact else gauge.label:<{6 if compact else 13}}", "muted"),
        Span(f"{value:<9} " if compact else value, shown.role, shown.role != "muted"),
    ]
    if shown.limit and not compact and (width >= 50 or not shown.stop):
        spans.append(Span(f" of {shown.limit}", "muted"))
    if shown.stop and not compact:
        spans.append(Span(f" {shown.stop}", "muted" if shown.role == "text" else shown.role))
    if shown.note and (inline or shown.value != "unknown"):
        spans.append(Span(f"  {shown.note}", "muted" if shown.value == "unknown" else "warning"))
    return [*spans, Span("  ")] if inline and not compact else spans


def _compact(gauge: Gauge, shown: Figure) -> str:
    if gauge.unit == "bytes" and shown.limit:
        return f"{shown.value.removesuffix(' GiB')}/{shown.limit.split('.')[0]}G"
    if gauge.unit == "°C" and shown.stop:
        return f"{shown.value.split(' ')[0]}/{shown.stop.removeprefix('ends at ')}"
    return shown.value


def gauge_strip(snapshot: Snapshot, history: History, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The gauges side by side, for a narrow screen: four in a row."""
    per_row = 4 if width >= 76 else 2
    cell = width // per_row
    stops = armed(snapshot)
    blocks = [_block(gauge, snapshot, history, cell, stops, glyphs) for gauge in gauges(snapshot)]
    if other := other_pool(snapshot):
        name, value = other.split(" ")
        blocks.append([Span(f" {name:<5} ", "muted"), Span(glyphs.fit(value, max(0, cell - 8)), "text", True)])
    chunks = [blocks[start : start + per_row] for start in range(0, len(blocks), per_row)]
    return [line(*(span for block in chunk for span in block)) for chunk in chunks[:height]]


def _block(
    gauge: Gauge, snapshot: Snapshot, history: History, width: int, stops: Mapping[str, float], glyphs: Glyphs
) -> list[Span]:
    shown = figure(gauge, snapshot.readings, snapshot.at, glyphs, stops)
    value = _compact(gauge, shown)
    head = f"{_sign(shown.role, glyphs)}{gauge.short:<5} "
    text = glyphs.fit(value, max(0, width - len(head) - 1))
    values = history.last(gauge.name, max(0, width - len(head) - cells(text) - 2))
    low, high = _scale(gauge, values, snapshot.readings)
    drawn = graph(values, low, high, 1, glyphs)[0]
    rest = width - len(head) - cells(text) - 1 - len(drawn)
    role: Role = "muted" if shown.role == "text" else shown.role  # calm, while nothing is wrong
    return [
        Span(head, "muted" if shown.role in ("text", "muted") else shown.role),
        Span(text + " ", shown.role, shown.role not in ("muted",)),
        Span(drawn + " " * max(0, rest), role),
    ]
