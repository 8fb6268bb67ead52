"""The binary table ``gpu_metrics``: the fields that are shown, of each revision that is known.

Layout: ``struct gpu_metrics_vX_Y`` of the kernel's kgd_pp_interface.h, little endian with natural alignment; only the
prefix differs between families, so the revisions 2.1 to 2.4 share their fields. A field of ones only is "not
reported", and so is a zero where a running machine has none. A table of another revision gives no value, never a
guess: the same offset means something else there, and the same field another unit (2.x tells activity in hundredths
of a percent, 1.3 and 3.0 in percent).
"""

from __future__ import annotations

import math
import statistics
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdtop.model.values import Reading
from holdtop.sources.files import CELSIUS, MHZ, PERCENT, WATTS, Range

_HEADER = struct.Struct("<HBB")


@dataclass(frozen=True, slots=True)
class _Field:
    offset: int
    #: As in ``struct``, with a count for an array.
    form: str
    plausible: Range
    #: So many of the table's units make one of ours.
    per_unit: int = 1
    #: A zero is a value: nothing was done, nothing drawn.
    zero: bool = False
    #: One figure out of an array's reported ones.
    fold: Callable[[Sequence[int]], float] = max


_V1_3 = {
    "gpu_celsius": _Field(4, "H", CELSIUS),
    "gpu_busy_percent": _Field(16, "H", PERCENT, zero=True),
    "gpu_power_watts": _Field(22, "H", WATTS),
    "gpu_clock_mhz": _Field(54, "H", MHZ),
    "memory_clock_mhz": _Field(58, "H", MHZ),
}
_V2 = {
    "gpu_celsius": _Field(4, "H", CELSIUS, 100),
    "cpu_celsius": _Field(8, "8H", CELSIUS, 100),
    "gpu_busy_percent": _Field(28, "H", PERCENT, 100, zero=True),
    "gpu_power_watts": _Field(40, "H", WATTS, 1000),
    "gpu_clock_mhz": _Field(76, "H", MHZ),
    "memory_clock_mhz": _Field(80, "H", MHZ),
}
_V3_0 = {
    "gpu_celsius": _Field(4, "H", CELSIUS, 100),
    "cpu_celsius": _Field(8, "16H", CELSIUS, 100),
    "gpu_busy_percent": _Field(42, "H", PERCENT, zero=True),
    "npu_busy_percent": _Field(46, "8H", PERCENT, zero=True, fold=statistics.fmean),
    "gpu_power_watts": _Field(112, "I", WATTS, 1000),
    "npu_power_watts": _Field(116, "H", WATTS, 1000, zero=True),
    "gpu_clock_mhz": _Field(174, "H", MHZ),
    "memory_clock_mhz": _Field(186, "H", MHZ),
}
#: By format and content revision: the table's size in bytes, and where in it what stands.
_LAYOUTS: Mapping[tuple[int, int], tuple[int, Mapping[str, _Field]]] = {
    (1, 3): (120, _V1_3),
    (2, 1): (120, _V2),
    (2, 2): (128, _V2),
    (2, 3): (152, _V2),
    (2, 4): (168, _V2),
    (3, 0): (264, _V3_0),
}
#: Every reading that some revision gives.
NAMES = tuple(_V3_0)


def decode(data: bytes) -> dict[str, Reading]:
    """A reading for each of ``NAMES``: a value, or why there is none. Bytes after the table are ignored."""
    if (problem := _problem(data)) is not None:
        return {name: Reading(why=problem) for name in NAMES}
    _, major, minor = _HEADER.unpack_from(data)
    fields = _LAYOUTS[major, minor][1]
    lacking = Reading(why=f"gpu_metrics revision {major}.{minor} has no such field")
    return {name: _reading(data, fields[name]) if name in fields else lacking for name in NAMES}


def _problem(data: bytes) -> str | None:
    """Why the table cannot be used; ``None`` when it is a whole one of a known revision."""
    if len(data) < _HEADER.size:
        return "gpu_metrics is empty" if not data else "gpu_metrics is cut short"
    if not any(data[_HEADER.size :]):
        return "gpu_metrics is a table of zeroes"
    size, *revision = _HEADER.unpack_from(data)
    right, _ = _LAYOUTS.get(tuple(revision), (None, None))
    if right is None:
        return f"gpu_metrics revision {revision[0]}.{revision[1]} is not decoded"
    if size != right:
        return f"gpu_metrics says it has {size} bytes, not the {right} of its revision"
    return f"gpu_metrics is cut short: {len(data)} of {size} bytes" if len(data) < size else None


def _reading(data: bytes, field: _Field) -> Reading:
    every = struct.unpack_from(f"<{field.form}", data, field.offset)
    ones = (1 << 8 * struct.calcsize(f"<{field.form[-1]}")) - 1
    reported = [said for said in every if said != ones and (said or field.zero)]
    if not reported:
        return Reading(why="gpu_metrics does not report it")
    low, high = (bound * field.per_unit for bound in field.plausible)
    for said in reported:
        if not low <= said <= high:
            return Reading(why=f"gpu_metrics says {said / field.per_unit:g}, which is not plausible")
    value = field.fold(reported) / field.per_unit
    return Reading(value=int(value) if math.floor(value) == value else value)
