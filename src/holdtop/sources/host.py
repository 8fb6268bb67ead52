"""The box's own readings: Tctl, memory, memory pressure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdtop.model.values import Reading
from holdtop.sources.files import listing, number, read, read_text, why
from holdtop.sources.roots import Roots

#: Drivers whose channel *labelled* Tctl is the control temperature (k10temp: temp1, zenpower: temp2).
TCTL_CHIPS = ("k10temp", "zenpower")
#: Degrees Celsius outside of which a reading is a sensor's fault.
PLAUSIBLE = (1, 125)
_LABEL = re.compile(r"temp[0-9]+_label")
_MEMINFO = re.compile(rb"^(MemTotal|MemAvailable):[ \t]+([0-9]{1,15}) kB\r?$", re.M)
_SOME = re.compile(rb"^some avg10=([0-9]{1,3}\.[0-9]{1,4})(?: |$)", re.M)
MEMORY_KEYS = {"mem_total_bytes": b"MemTotal", "mem_available_bytes": b"MemAvailable"}
MEMORY_NAMES = tuple(MEMORY_KEYS)
PRESSURE_NAME = "memory_pressure_some_avg10_percent"


def tctl(sys: str) -> Reading:
    """Tctl by the chip's name and the channel's label, found anew each time: hwmon numbers move."""
    chips = os.path.join(sys, "class/hwmon")
    found = Reading(why="no k10temp or zenpower sensor with a channel Tctl", source=chips)
    for name in listing(chips):
        chip = os.path.join(chips, name)
        if read_text(os.path.join(chip, "name")) in TCTL_CHIPS:
            for label in filter(_LABEL.fullmatch, listing(chip)):
                if read_text(os.path.join(chip, label)) == "Tctl":
                    path = os.path.join(chip, label.replace("_label", "_input"))
                    found = number(path, 1000, *PLAUSIBLE)
                    if found.value is not None:
                        return found
    return found


def memory(roots: Roots) -> Mapping[str, Reading]:
    """``MemTotal`` and ``MemAvailable`` in bytes (proc_meminfo(5): the unit is KiB, whatever it says)."""
    path = roots.proc_file("meminfo")
    try:
        said = {match[1]: int(match[2]) * 1024 for match in _MEMINFO.finditer(read(path))}
    except OSError as error:
        return {name: Reading(why=why(error, path), source=path) for name in MEMORY_KEYS}
    found = {
        name: Reading(value=said[key], source=path)
        if key in said
        else Reading(why=f"meminfo has no line {key.decode()}", source=path)
        for name, key in MEMORY_KEYS.items()
    }
    total, available = said.get(b"MemTotal"), said.get(b"MemAvailable")
    if total is not None and available is not None and (total == 0 or available > total):
        fault = "meminfo says a MemAvailable that is not within MemTotal"
        found["mem_available_bytes"] = Reading(why=fault, source=path)
    return found


def pressure(roots: Roots) -> Mapping[str, Reading]:
    """Percent of the last 10 s in which some task waited for memory (Documentation/accounting/psi.rst)."""
    path = roots.proc_file("pressure/memory")
    try:
        said = _SOME.search(read(path))
    except OSError as error:
        reason = why(error, path)
        if not os.path.exists(path):
            reason = "this kernel has no pressure information (CONFIG_PSI, psi=1)"
        return {PRESSURE_NAME: Reading(why=reason, source=path)}
    if said is None or float(said[1]) > 100:
        return {PRESSURE_NAME: Reading(why="pressure/memory holds no average", source=path)}
    return {PRESSURE_NAME: Reading(value=float(said[1]), source=path)}
