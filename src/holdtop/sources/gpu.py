"""One card's or NPU's readings. Formats: https://docs.kernel.org/gpu/amdgpu/driver-misc.html and …/thermal.html.

The ``mem_info`` counters can be read at any time. Everything else asks the device itself, and would wake one that is
suspended, for seconds and tens of watts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from holdtop.model.values import Reading
from holdtop.sources import hwmon, metrics
from holdtop.sources.cards import Card
from holdtop.sources.files import BYTES, CELSIUS, MHZ, PERCENT, WATTS, number, read, read_text, why

Readings = Mapping[str, Reading]
MICRO, MILLI = 1_000_000, 1_000
#: Of memory, in ``mem_info_*``: GTT, VRAM, the part of VRAM that the CPU sees, and what can be preempted (KFD's user
#: pointers; in no other counter).
_COUNTERS = (
    "gtt_used",
    "gtt_total",
    "vram_used",
    "vram_total",
    "vis_vram_used",
    "vis_vram_total",
    "preempt_used",
)
_STARRED = re.compile(rb"^[0-9A-Z]+: ([0-9]{1,4})Mhz \*[ \0]*$", re.M)


def sources(card: Card) -> Iterator[tuple[tuple[str, ...], Callable[[], Readings]]]:
    """The device's readers by what they give. Each is asked apart, so that one that hangs takes no other with it.

    Where two give the same reading, the first one's is the better.
    """
    if card.kind != "npu":
        yield from counters(card)
    for name, reader in (_NPU if card.kind == "npu" else _GPU).items():
        yield _single(name, partial(_awake, card, reader))
    if card.kind != "npu":
        names = tuple(name for name in metrics.NAMES if card.kind == "apu" or not name.startswith(("npu", "cpu")))
        yield names, partial(_table, card, names)


def counters(card: Card) -> Iterator[tuple[tuple[str, ...], Callable[[], Readings]]]:
    """Of memory alone: they ask no device and cost microseconds."""
    for name in _COUNTERS:
        yield _single(f"{name}_bytes", partial(number, os.path.join(card.path, f"mem_info_{name}"), BYTES))


def memory(card: Card) -> Readings:
    """The counters of memory, read now."""
    return {name: reading for _, read in counters(card) for name, reading in read().items()}


def _single(name: str, reader: Callable[[], Reading]) -> tuple[tuple[str, ...], Callable[[], Readings]]:
    return (name,), lambda: {name: reader()}


def asleep(card: Card) -> Reading | None:
    """Why the device is not asked: that would wake it (``power/runtime_status``)."""
    status = os.path.join(card.path, "power/runtime_status")
    if read_text(status) in ("suspended", "suspending"):
        return Reading(why="the device is suspended and is not woken for a reading", source=status)
    return None


def _awake(card: Card, reader: Callable[[Card], Reading]) -> Reading:
    return asleep(card) or reader(card)


def busy(card: Card) -> Reading:
    """Percent of time; no proof of work: some cards read 100 while an idle program is resident."""
    return number(os.path.join(card.path, "gpu_busy_percent"), PERCENT)


def _of_chip(chip: str, files: tuple[str, ...], plausible: tuple[float, float], scale: int, card: Card) -> Reading:
    return hwmon.channel(card.chips, (chip,), files, plausible, scale)


#: Watts, on an APU of the whole package: the average where there is one.
power = partial(_of_chip, "amdgpu", ("power1_average", "power1_input"), WATTS, MICRO)


def memory_clock(card: Card) -> Reading:
    """MHz: a card of its own has a sensor for it; of an APU the state that is marked, when one and no other is."""
    found = _of_chip("amdgpu", ("freq2_input",), MHZ, MICRO, card)
    if found.value is not None:
        return found
    path = os.path.join(card.path, "pp_dpm_mclk")
    try:
        marked = {int(form[1]) for form in _STARRED.finditer(read(path))}
    except OSError as error:
        return Reading(why=why(error, path), source=path)
    if len(marked) != 1:
        return Reading(why=f"pp_dpm_mclk marks {len(marked) or 'no'} clocks as current", source=path)
    return Reading(value=marked.pop(), source=path)


def _table(card: Card, names: tuple[str, ...]) -> Readings:
    """What the binary table gives of these, from one read of it: a second in a row may find it emptied."""
    if (sleeps := asleep(card)) is not None:
        return dict.fromkeys(names, sleeps)
    path = os.path.join(card.path, "gpu_metrics")
    try:
        found = metrics.decode(read(path))
    except OSError as error:
        return dict.fromkeys(names, Reading(why=why(error, path), source=path))
    return {name: replace(found[name], source=path) for name in names}


_GPU: Mapping[str, Callable[[Card], Reading]] = {
    "gpu_busy_percent": busy,
    "gpu_power_watts": power,
    "gpu_celsius": partial(_of_chip, "amdgpu", ("temp1_input",), CELSIUS, MILLI),
    "gpu_clock_mhz": partial(_of_chip, "amdgpu", ("freq1_input",), MHZ, MICRO),
    "memory_clock_mhz": memory_clock,
}
_NPU: Mapping[str, Callable[[Card], Reading]] = {
    "npu_power_watts": partial(_of_chip, "amdxdna", ("power1_input", "power1_average"), WATTS, MICRO),
    "npu_celsius": partial(_of_chip, "amdxdna", ("temp1_input",), CELSIUS, MILLI),
}
