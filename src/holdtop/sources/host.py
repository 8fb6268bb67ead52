"""The box's own readings: Tctl, memory, what of it the GPU may have, memory pressure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace

from holdtop.model.values import Reading
from holdtop.sources import hwmon
from holdtop.sources.files import BYTES, CELSIUS, number, read, why
from holdtop.sources.roots import Roots

#: Drivers whose channel *labelled* Tctl is the control temperature (k10temp: temp1, zenpower: temp2).
TCTL_CHIPS = ("k10temp", "zenpower")
_MEMINFO = re.compile(rb"^(MemTotal|MemAvailable|GPUReclaim):[ \t]+([0-9]{1,15}) kB\r?$", re.M)
_SOME = re.compile(rb"^some avg10=([0-9]{1,3}\.[0-9]{1,4})(?: [^\n]*)?\n", re.M)
MEMORY_KEYS = {
    "mem_total_bytes": b"MemTotal",
    "mem_available_bytes": b"MemAvailable",
    "gpu_reclaimable_bytes": b"GPUReclaim",
}
TTM_FILES = {"ttm_limit_bytes": "pages_limit", "ttm_pool_limit_bytes": "page_pool_size"}
_TTM_PAGE = 4096
PRESSURE_NAME = "memory_pressure_some_avg10_percent"


def tctl(sys: str) -> Reading:
    """The control temperature, and nothing else under this name: limits act on it."""
    return hwmon.labelled(os.path.join(sys, "class/hwmon"), TCTL_CHIPS, "Tctl", CELSIUS, 1000)


def memory(roots: Roots) -> Mapping[str, Reading]:
    """Bytes of meminfo's lines (proc_meminfo(5): the unit is KiB, whatever it says).

    ``GPUReclaim`` (Linux 7) is what the GPU's page pool gives back when asked. MemAvailable does not count it; it
    can be no more than what MemAvailable leaves of MemTotal.
    """
    path = roots.proc_file("meminfo")
    try:
        said = {match[1]: int(match[2]) * 1024 for match in _MEMINFO.finditer(read(path))}
    except OSError as error:
        return dict.fromkeys(MEMORY_KEYS, Reading(why=why(error, path), source=path))
    found = {
        name: Reading(value=said[key], source=path)
        if key in said
        else Reading(why=f"meminfo has no line {key.decode()}", source=path)
        for name, key in MEMORY_KEYS.items()
    }
    total, available = said.get(b"MemTotal"), said.get(b"MemAvailable")
    if total is not None and available is not None and (total == 0 or available > total):
        fault = Reading(why="meminfo says a MemAvailable that is not within MemTotal", source=path)
        return found | dict.fromkeys(("mem_available_bytes", "gpu_reclaimable_bytes"), fault)
    if (pool := said.get(b"GPUReclaim")) is not None:
        bounded = Reading(why="meminfo has nothing to hold GPUReclaim against", source=path)
        if total is not None and available is not None:
            bounded = Reading(value=min(pool, total - available), source=path)
        found["gpu_reclaimable_bytes"] = bounded
    return found


def ttm(sys: str) -> Mapping[str, Reading]:
    """Bytes that the kernel lets the GPU have of RAM, and keep pooled after use (parameters in pages of 4 KiB)."""
    modules = [os.path.join(sys, "module", name, "parameters") for name in ("ttm", "amdttm")]
    parameters = next(filter(os.path.isdir, modules), modules[0])
    return {name: _pages(os.path.join(parameters, file)) for name, file in TTM_FILES.items()}


def _pages(path: str) -> Reading:
    found = number(path, (1, BYTES[1] / _TTM_PAGE))
    return found if found.value is None else replace(found, value=found.value * _TTM_PAGE)


def pressure(roots: Roots) -> Mapping[str, Reading]:
    """Percent of the last 10 s in which some task waited for memory (Documentation/accounting/psi.rst)."""
    path = roots.proc_file("pressure/memory")
    try:
        said = _SOME.search(read(path))
    except OSError as error:
        lacking = Reading(why=why(error, path), source=path)
        if not os.path.exists(path):
            reason = "this kernel has no pressure information (CONFIG_PSI, psi=1)"
            lacking = Reading(why=reason, source=path, cause="no-psi")
        return {PRESSURE_NAME: lacking}
    if said is None or float(said[1]) > 100:
        return {PRESSURE_NAME: Reading(why="pressure/memory holds no average", source=path)}
    return {PRESSURE_NAME: Reading(value=float(said[1]), source=path)}
