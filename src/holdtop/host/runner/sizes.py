"""Sizes of memory as systemd reads them (systemd.resource-control(5), MemoryMax=), never as something else.

A strict part of what systemd takes: it would read ``1G 512M`` as a sum, and ``0`` or ``48`` as so many bytes, which
nobody means. What is accepted here is written into the unit as it was typed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

from holdtop.errors import UsageError

ACCEPTED = "write 48G, 512M, 1.5T, 900000K, plain bytes, 85% (of the box's memory) or infinity"
#: Below it a service cannot even start: whoever writes 48 means 48G.
LEAST_BYTES = 1 << 20
#: systemd's ``infinity``, as its properties show it.
INFINITY = 2**64 - 1
#: Of a runner that nobody has named one for.
DEFAULT_MAX = "48G"
#: The part of MemoryMax from which on a runner is slowed down and reclaimed from, before anything is killed.
HIGH_PART = Decimal("0.9")
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_FORM = re.compile(r"([0-9]{1,20})(\.[0-9]{1,6})?([KMGTPE]|%|)")


@dataclass(frozen=True, slots=True)
class Size:
    """``text`` as systemd is given it. Of an absolute size ``bytes`` is set, of a relative one ``percent``; of
    ``infinity`` neither."""

    text: str
    bytes: int | None = None
    percent: Decimal | None = None

    @property
    def bytes_here(self) -> int:
        """What it comes to on this box; ``INFINITY`` without a limit."""
        if self.percent is not None:
            return int(_memory_bytes() * self.percent / 100)
        return INFINITY if self.bytes is None else self.bytes


def parse(text: str) -> Size:
    """Raises ``UsageError`` with the accepted forms."""
    if text == "infinity":
        return Size(text)
    form = _FORM.fullmatch(text)
    if form is None:
        raise UsageError(f"{text!r} is no size: {ACCEPTED}")
    number, unit = Decimal(form[1] + (form[2] or "")), form[3]
    if unit == "%":
        return _percent(text, number)
    if unit == "" and form[2]:
        raise UsageError(f"{text!r} is no size, there are no parts of a byte: {ACCEPTED}")
    size = int(number * 1024 ** _UNITS[unit])
    if not LEAST_BYTES <= size < INFINITY:
        wrong = "too many" if size >= INFINITY else f"and 1 MiB ({LEAST_BYTES}) is the least"
        raise UsageError(f"{text!r} is {size} bytes, {wrong}: {ACCEPTED}")
    return Size(text, size)


def of(size: int) -> Size:
    """A size in force, written as the shortest form that is exact. Raises ``UsageError`` for what ``parse`` refuses."""
    unit = max((unit for unit, power in _UNITS.items() if size % 1024**power == 0), key=_UNITS.__getitem__)
    return parse(f"{size // 1024 ** _UNITS[unit]}{unit}")


def limit(size: int | None) -> int | None:
    """Bytes; ``None`` without a limit, or when it is not known."""
    return None if size == INFINITY else size


def high_for(maximum: Size) -> Size | None:
    """MemoryHigh where nobody named one: 90 % of an absolute size, in its unit. ``None``: it is left out."""
    if maximum.bytes is None:
        return None
    unit = maximum.text[-1] if maximum.text[-1] in _UNITS else ""
    number = Decimal(maximum.text.removesuffix(unit)) * HIGH_PART
    digits = Decimal(1) if unit == "" else Decimal("0.000001")
    high = format(number.quantize(digits, ROUND_DOWN), "f")
    text = high.rstrip("0").rstrip(".") if "." in high else high
    return Size(text + unit, int(Decimal(text) * 1024 ** _UNITS[unit]))  # of the least size it may be less than that


def check_order(high: Size | None, maximum: Size) -> None:
    """Raise ``UsageError`` unless MemoryHigh is below MemoryMax: else nothing is slowed before it is killed."""
    if high is not None and high.bytes_here >= maximum.bytes_here:
        here = " on this box" if "%" in high.text + maximum.text else ""
        raise UsageError(
            f"MemoryHigh {high.text} is not below MemoryMax {maximum.text}{here}: name less, such as 90 % of it"
        )


def said(size: int | None) -> str:
    """A size in both forms, ``51539607552 = 48G``; ``unlimited`` and ``unknown`` in words."""
    if size is None:
        return "unknown"
    if size == INFINITY:
        return "infinity"
    unit = max((unit for unit, power in _UNITS.items() if size >= 1024**power), key=_UNITS.__getitem__, default="")
    number = Decimal(size) / 1024 ** _UNITS[unit]
    exact = format(number, "f") if number == number.to_integral_value() else f"{number:.3f}".rstrip("0").rstrip(".")
    return f"{size} = {exact}{unit}" if unit else f"{size} bytes"


def _percent(text: str, number: Decimal) -> Size:
    if not 0 < number <= 100 or number != number.quantize(Decimal("0.01")):
        raise UsageError(f"{text!r}: a part of the memory is 0.01% to 100%, in hundredths: {ACCEPTED}")
    return Size(text, percent=number)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
