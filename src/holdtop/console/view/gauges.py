"""What the device is doing: each figure with its limit, its history and, when missing, the reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Role, Span, line, width_of
from holdtop.model.values import Reading, Readings, Snapshot
from holdtop.render import GIB, cells, duration_text

#: A reading older than this many seconds is shown as stale.
STALE_AFTER = 10.0
#: Snapshots of history that are kept: ten minutes at one a second.
KEPT = 600


@dataclass(frozen=True, slots=True)
class Gauge:
    """How one reading is shown; ``warn`` and ``alarm`` are levels, 0 to 1 of the scale."""

    label: str
    short: str
    name: str
    unit: str
    #: The reading that is its limit.
    limit: str | None = None
    low: float = 0.0
    high: float | None = None
    warn: float | None = None
    alarm: float | None = None
    #: Less is worse.
    falling: bool = False


GAUGES = (
    Gauge("GTT used", "GTT", "gtt_used_bytes", "bytes", "gtt_total_bytes", warn=0.85, alarm=0.95),
    Gauge(
        "MemAvailable",
        "Avail",
        "mem_available_bytes",
        "bytes",
        "mem_total_bytes",
        warn=0.1,
        alarm=0.04,
        falling=True,
    ),
    Gauge("Tctl", "Tctl", "tctl_celsius", "°C", low=20, high=110, warn=0.83, alarm=0.92),
    Gauge("GPU busy", "GPU", "gpu_busy_percent", "%", high=100),
    Gauge("GPU power", "Power", "gpu_power_watts", "W"),
    Gauge("NPU busy", "NPU", "npu_busy_percent", "%", high=100),
    Gauge("Mem pressure", "PSI", "memory_pressure_some_avg10_percent", "%", high=100, warn=0.1, alarm=0.4),
)


class History:
    """The last values of each gauge; ``None`` where a value was not known."""

    def __init__(self) -> None:
        self._rings: dict[str, deque[float | None]] = {gauge.name: deque(maxlen=KEPT) for gauge in GAUGES}

    def add(self, snapshot: Snapshot) -> None:
        for name, ring in self._rings.items():
            ring.append(snapshot.readings.get(name, Reading()).value)

    def last(self, name: str, count: int) -> list[float | None]:
        ring = self._rings[name]
        return [ring[index] for index in range(max(0, len(ring) - count), len(ring))]


@dataclass(frozen=True, slots=True)
class Figure:
    """One gauge at one instant, in words."""

    value: str
    limit: str
    note: str
    role: Role
    level: float | None


def figure(gauge: Gauge, readings: Readings, at: float, glyphs: Glyphs) -> Figure:
    reading = readings.get(gauge.name, Reading(why="not read"))
    if reading.value is None:
        return Figure("unknown", "", glyphs.clean(reading.why or "not read", 200), "muted", None)
    limit = readings.get(gauge.limit, Reading()).value if gauge.limit else gauge.high
    level = (reading.value - gauge.low) / (limit - gauge.low) if limit is not None and limit > gauge.low else None
    role = _judge(gauge, level)
    age = None if reading.at is None else at - reading.at
    note = f"{duration_text(age)} old" if age is not None and age >= STALE_AFTER else ""
    limit_text = _amount(limit, gauge.unit, glyphs) if gauge.limit and limit is not None else ""
    return Figure(_amount(reading.value, gauge.unit, glyphs), limit_text, note, role, level)


def _judge(gauge: Gauge, level: float | None) -> Role:
    if level is None or gauge.warn is None or gauge.alarm is None:
        return "text"
    sign = -1 if gauge.falling else 1
    if sign * level >= sign * gauge.alarm:
        return "critical"
    return "warning" if sign * level >= sign * gauge.warn else "text"


def _amount(value: float, unit: str, glyphs: Glyphs) -> str:
    if unit == "bytes":
        return f"{value / GIB:.1f} GiB"
    if unit == "°C":
        return f"{value:.0f} C" if glyphs.ascii else f"{value:.0f} °C"
    return f"{value:.0f} %" if unit == "%" else f"{value:.1f} {unit}"


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
    for gauge in GAUGES:
        shown = figure(gauge, snapshot.readings, snapshot.at, glyphs)
        head = _head(gauge, shown, rows == 1 and width < 60, rows == 1, glyphs)
        role: Role = "accent" if shown.role in ("text", "muted") else shown.role
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


def _head(gauge: Gauge, shown: Figure, compact: bool, inline: bool, glyphs: Glyphs) -> list[Span]:
    """Sign, name, value and limit; then how old it is, or (``inline``) why it is not known."""
    value = _compact(gauge, shown) if compact else f"{shown.value:>9}"
    spans = [
        Span(f" {_sign(shown.role, glyphs)} ", shown.role),
        Span(f"{gauge.short if compact else gauge.label:<{6 if compact else 13}}", "muted"),
        Span(f"{value:<9} " if compact else value, shown.role, shown.role != "muted"),
    ]
    if shown.limit and not compact:
        spans.append(Span(f" of {shown.limit}", "muted"))
    if shown.note and (inline or shown.value != "unknown"):
        spans.append(Span(f"  {shown.note}", "muted" if shown.value == "unknown" else "warning"))
    return spans if compact else [*spans, Span("  ")]


def _compact(gauge: Gauge, shown: Figure) -> str:
    if gauge.unit == "bytes" and shown.limit:
        return f"{shown.value.removesuffix(' GiB')}/{shown.limit.split('.')[0]}G"
    return shown.value


def gauge_strip(snapshot: Snapshot, history: History, width: int, height: int, glyphs: Glyphs) -> list[Line]:
    """The gauges side by side, for a narrow screen: four in a row."""
    per_row = 4 if width >= 76 else 2
    cell = width // per_row
    blocks = [_block(gauge, snapshot, history, cell, glyphs) for gauge in GAUGES]
    chunks = [blocks[start : start + per_row] for start in range(0, len(blocks), per_row)]
    return [line(*(span for block in chunk for span in block)) for chunk in chunks[:height]]


def _block(gauge: Gauge, snapshot: Snapshot, history: History, width: int, glyphs: Glyphs) -> list[Span]:
    shown = figure(gauge, snapshot.readings, snapshot.at, glyphs)
    value = _compact(gauge, shown)
    head = f"{_sign(shown.role, glyphs)}{gauge.short:<5} "
    text = glyphs.fit(value, max(0, width - len(head) - 1))
    values = history.last(gauge.name, max(0, width - len(head) - cells(text) - 2))
    low, high = _scale(gauge, values, snapshot.readings)
    drawn = graph(values, low, high, 1, glyphs)[0]
    rest = width - len(head) - cells(text) - 1 - len(drawn)
    role: Role = "accent" if shown.role in ("text", "muted") else shown.role
    return [
        Span(head, "muted" if shown.role in ("text", "muted") else shown.role),
        Span(text + " ", shown.role, shown.role not in ("muted",)),
        Span(drawn + " " * max(0, rest), role),
    ]
