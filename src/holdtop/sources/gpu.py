"""One card's readings. Formats: https://docs.kernel.org/gpu/amdgpu/driver-misc.html and …/thermal.html.

The ``mem_info`` counters can be read at any time; busy, power and the metrics table ask the card itself, and would
wake one that is suspended.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from holdtop.model.values import Reading
from holdtop.sources import metrics
from holdtop.sources.cards import Card
from holdtop.sources.files import listing, number, read, read_text, why

Read = Callable[[], Mapping[str, Reading]]
#: More than any such card draws, in watts.
MAX_WATTS = 2000
MICRO = 1_000_000
_COUNTERS = ("gtt_used", "gtt_total", "vram_used", "vram_total")


def sources(card: Card) -> Iterator[tuple[str, Read]]:
    """The card's readers by name, each of one kernel file, so that one that hangs takes no other with it."""
    if card.kind != "npu":
        for name in _COUNTERS:
            yield f"{name}_bytes", _counter(card, name)
        yield "gpu_busy_percent", lambda: {"gpu_busy_percent": _awake(card, busy)}
        yield "gpu_power_watts", lambda: {"gpu_power_watts": _awake(card, power)}
    if card.kind == "apu":
        yield "npu_busy_percent", lambda: {"npu_busy_percent": _awake(card, npu_busy)}


def _counter(card: Card, name: str) -> Read:
    path = os.path.join(card.path, f"mem_info_{name}")
    return lambda: {f"{name}_bytes": number(path)}


def _awake(card: Card, reader: Callable[[Card], Reading]) -> Reading:
    """The reading, unless it would wake a suspended card (``power/runtime_status``)."""
    if read_text(os.path.join(card.path, "power/runtime_status")) == "suspended":
        return Reading(why="the card is suspended and is not woken for a reading")
    return reader(card)


def busy(card: Card) -> Reading:
    """Percent of time; no proof of work: some cards read 100 while an idle program is resident."""
    return number(os.path.join(card.path, "gpu_busy_percent"), high=100)


def power(card: Card) -> Reading:
    """Watts, on an APU of the whole package: ``power1_average``, else ``power1_input`` (microwatts)."""
    chips = os.path.join(card.path, "hwmon")
    found = Reading(why="the card has no hwmon named amdgpu", source=chips)
    for name in listing(chips):
        chip = os.path.join(chips, name)
        if read_text(os.path.join(chip, "name")) == "amdgpu":
            for file in ("power1_average", "power1_input"):
                found = number(os.path.join(chip, file), MICRO, high=MAX_WATTS)
                if found.value is not None:
                    return found
    return found


def npu_busy(card: Card) -> Reading:
    """Percent, the mean over the NPU's columns, from the card's ``gpu_metrics``."""
    path = os.path.join(card.path, "gpu_metrics")
    try:
        data = read(path)
    except OSError as error:
        return Reading(why=why(error, path), source=path)
    return replace(metrics.npu_busy(data), source=path)
