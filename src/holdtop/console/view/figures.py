"""What is measured, and each figure at one instant: its limit, how bad it is and, when missing, the reason."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Role
from holdtop.model.values import Reading, Readings, Snapshot
from holdtop.render import GIB, duration_text

#: A reading older than this many seconds is shown as stale.
STALE_AFTER = 10.0
#: Snapshots of history that are kept: ten minutes at one a second.
KEPT = 600


@dataclass(frozen=True, slots=True)
class Gauge:
    """How one reading is shown; ``warn`` is a level, 0 to 1 of the scale. A figure alone is never critical."""

    label: str
    short: str
    name: str
    unit: str
    #: The reading that is its limit.
    limit: str | None = None
    low: float = 0.0
    high: float | None = None
    warn: float | None = None
    #: Less is worse.
    falling: bool = False


GAUGES = (
    Gauge("GTT used", "GTT", "gtt_used_bytes", "bytes", "gtt_total_bytes", warn=0.85),
    Gauge(
        "MemAvailable",
        "Avail",
        "mem_available_bytes",
        "bytes",
        "mem_total_bytes",
        warn=0.1,
        falling=True,
    ),
    Gauge("Tctl", "Tctl", "tctl_celsius", "°C", low=20, high=110, warn=0.83),
    Gauge("GPU busy", "GPU", "gpu_busy_percent", "%", high=100),
    Gauge("GPU power", "Power", "gpu_power_watts", "W"),
    Gauge("NPU busy", "NPU", "npu_busy_percent", "%", high=100),
    Gauge("Mem pressure", "PSI", "memory_pressure_some_avg10_percent", "%", high=100, warn=0.1),
)


#: What stands in a gauge's place on a box where another figure counts, or where there is none of that name.
_VRAM = Gauge("VRAM used", "VRAM", "vram_used_bytes", "bytes", "vram_total_bytes", warn=0.85)
_NO_TCTL = Gauge("GPU (no Tctl)", "GPUc", "gpu_celsius", "°C", low=20, high=110, warn=0.83)


def gauges(snapshot: Snapshot) -> tuple[Gauge, ...]:
    """As many as ``GAUGES``: of the pool that counts, and of the GPU's temperature where Tctl is not known."""
    in_place: dict[str, Gauge] = {}
    if snapshot.pool == "vram":
        in_place["gtt_used_bytes"] = _VRAM
    tctl, gpu = (snapshot.readings.get(name, Reading()).value for name in ("tctl_celsius", "gpu_celsius"))
    if tctl is None and gpu is not None:
        in_place["tctl_celsius"] = _NO_TCTL
    return tuple(in_place.get(gauge.name, gauge) for gauge in GAUGES)


class History:
    """The last values of each gauge; ``None`` where a value was not known."""

    def __init__(self) -> None:
        every = (*GAUGES, _VRAM, _NO_TCTL)
        self._rings: dict[str, deque[float | None]] = {gauge.name: deque(maxlen=KEPT) for gauge in every}

    def add(self, snapshot: Snapshot) -> None:
        self.note(snapshot.readings)

    def note(self, readings: Readings) -> None:
        for name, ring in self._rings.items():
            ring.append(readings.get(name, Reading()).value)

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
    #: Where the running hold ends itself.
    stop: str = ""


def figure(
    gauge: Gauge, readings: Readings, at: float, glyphs: Glyphs, stops: Mapping[str, float] | None = None
) -> Figure:
    """``stops``: levels at which a running hold ends itself, by reading."""
    reading = readings.get(gauge.name, Reading(why="not read"))
    if reading.value is None:
        return Figure("unknown", "", glyphs.clean(reading.why or "not read", 200), "muted", None)
    limit = readings.get(gauge.limit, Reading()).value if gauge.limit else gauge.high
    level = (reading.value - gauge.low) / (limit - gauge.low) if limit is not None and limit > gauge.low else None
    stop = (stops or {}).get(gauge.name)
    role: Role = "warning" if _bad(gauge, level) or _close(gauge, reading.value, stop) else "text"
    age = None if reading.at is None else at - reading.at
    note = f"{duration_text(age)} old" if age is not None and age >= STALE_AFTER else ""
    limit_text = _amount(limit, gauge.unit, glyphs) if gauge.limit and limit is not None else ""
    return Figure(
        _amount(reading.value, gauge.unit, glyphs), limit_text, note, role, level, _stop_text(gauge, stop, glyphs)
    )


def _stop_text(gauge: Gauge, stop: float | None, glyphs: Glyphs) -> str:
    if stop is None:
        return ""
    return f"floor {stop / GIB:g} GiB" if gauge.falling else f"ends at {_amount(stop, gauge.unit, glyphs)}"


def _close(gauge: Gauge, value: float, stop: float | None) -> bool:
    """Whether the hold ends itself soon: within 5 degrees of its ceiling, or a quarter above its floor."""
    if stop is None:
        return False
    return value <= stop * 1.25 if gauge.falling else value >= stop - 5.0


def _bad(gauge: Gauge, level: float | None) -> bool:
    if level is None or gauge.warn is None:
        return False
    return level <= gauge.warn if gauge.falling else level >= gauge.warn


def _amount(value: float, unit: str, glyphs: Glyphs) -> str:
    if unit == "bytes":
        return f"{value / GIB:.1f} GiB"
    if unit == "°C":
        return f"{value:.0f} C" if glyphs.ascii else f"{value:.0f} °C"
    return f"{value:.0f} %" if unit == "%" else f"{value:.1f} {unit}"


def other_pool(snapshot: Snapshot) -> str:
    """The pool that programs do not get, and that is never added to theirs; empty where it is not known."""
    pool = "gtt" if snapshot.pool == "vram" else "vram"
    used, total = (snapshot.readings.get(f"{pool}_{of}_bytes", Reading()).value for of in ("used", "total"))
    if used is None or total is None:
        return ""
    return f"{pool.upper()} {used / GIB:.1f}/{total / GIB:.1f}G"
