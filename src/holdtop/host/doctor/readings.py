"""Readings: what no sensor gives, why, and what would make it give it. Boxes without an AMD card have none to miss."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked, hangs
from holdtop.model.values import Device
from holdtop.sources import machine
from holdtop.sources.files import read_text
from holdtop.sources.host import PRESSURE_NAME, TCTL_CHIPS

#: The first kernel whose k10temp knows Strix Halo (upstream commit e5d1e313d7b6).
_STRIX_HALO_SINCE = (6, 18)
_LOST_TCTL = "--tctl-abort and --tctl-pause refuse to start without it, and no screen can show the CPU's heat"
_LOST_COUNTER = "without it there is no headroom, no will-it-fit and no sight of stranded memory"
_LOST_CHIP = "the card's power, temperature and clock are unknown"
_LOST_PRESSURE = "that memory is short shows only when something has been killed for it"
_NO_CHIP = "sudo journalctl -k -b -g 'amdgpu|hwmon'; grep CONFIG_HWMON= /boot/config-$(uname -r)  # must be y"
#: Of the card's own chip.
_CHIP = ("gpu_power_watts", "gpu_celsius", "gpu_clock_mhz")
_LABELS = {
    "gpu_power_watts": "GPU power",
    "gpu_celsius": "GPU temperature",
    "gpu_clock_mhz": "GPU clock",
    "memory_clock_mhz": "memory clock",
    "gpu_busy_percent": "GPU busy",
    "cpu_celsius": "hottest core",
    "npu_busy_percent": "NPU busy",
    "npu_power_watts": "NPU power",
    "npu_celsius": "NPU temperature",
}


def readings(case: Case) -> Iterator[Said]:
    for name, reading in case.snapshot.readings.items():
        if hangs(reading):
            yield Unlooked("hangs", name, reading.why or "")
    card = case.snapshot.card
    if card is None and hangs(case.snapshot.readings["gtt_used_bytes"]):
        return  # said above
    if card is None:
        yield Fact("no-card", "no AMD card whose sensors could be missed")
        return
    if not hangs(case.snapshot.readings["tctl_celsius"]):
        yield _tctl(case, card)
    for device in case.snapshot.devices:
        if device.resource == "gpu":
            yield from _counters(device)
        yield from _own(device)
    yield from _box(case)


def _tctl(case: Case, card: Device) -> Said:
    """The cause is looked for from the most particular to the most general."""
    reading, sys = case.snapshot.readings["tctl_celsius"], case.roots.sys
    if reading.value is not None:
        return Fact("tctl", f"Tctl: {reading.value:g} C from {reading.source}")
    release, chips = machine.release(case.roots.proc), machine.chips(sys)
    what = f"no Tctl: {reading.why}"
    if card.kind != "apu" and not _amd_processor(case):
        return Fact("no-tctl", f"{what}; the processor is not AMD's")
    if set(chips) & set(TCTL_CHIPS):
        remedy = "grep . /sys/class/hwmon/*/name /sys/class/hwmon/*/temp*  # says what the chip has instead"
    elif machine.is_strix_halo(sys) and (machine.version(release) or _STRIX_HALO_SINCE) < _STRIX_HALO_SINCE:
        what = f"no Tctl: k10temp knows Strix Halo from Linux 6.18 on (late 6.17 releases too), this is {release}"
        remedy = "boot Linux 6.18 or newer; till then: holdtop run --sensor-missing warn"
    elif not machine.loaded(sys, "k10temp"):
        what += "; the module k10temp is not loaded" if chips else "; no sensor chip at all (/sys/class/hwmon is empty)"
        remedy = "sudo modprobe k10temp && echo k10temp | sudo tee /etc/modules-load.d/k10temp.conf"
    else:
        what += "; k10temp is loaded and does not know this processor"
        remedy = f"boot a kernel newer than {release or 'this one'}; till then: holdtop run --sensor-missing warn"
    return Finding("no-tctl", what, _LOST_TCTL, remedy)


def _amd_processor(case: Case) -> bool:
    return "AuthenticAMD" in read_text(os.path.join(case.roots.proc, "cpuinfo"))


def _counters(card: Device) -> Iterator[Said]:
    """The counters by which the pool is known, and what is used of it."""
    pools = ("gtt", "vram") if card.kind == "apu" else ("vram",)
    names = [f"{pool}_{kind}_bytes" for pool in pools for kind in ("used", "total")]
    lost = [card.readings[name] for name in names if card.readings[name].value is None]
    lost = [reading for reading in lost if not hangs(reading)]
    if lost:
        what = f"{card.pci_address}: {', '.join(reading.why or '' for reading in lost)}"
        where = shlex.quote(os.path.dirname(lost[0].source or ""))
        yield Finding("no-counter", what, _LOST_COUNTER, f"ls -l {where}; sudo journalctl -k -b -g amdgpu")


def _own(card: Device) -> Iterator[Said]:
    """What the card's chip or its firmware does not give cannot be mended; that there is no chip at all, can."""
    lost = {name: card.readings[name] for name in _LABELS if name in card.readings}
    lost = {name: reading for name, reading in lost.items() if reading.value is None and not hangs(reading)}
    if all(name in lost and lost[name].cause == "no-chip" for name in _CHIP):
        yield Finding("no-hwmon", f"{card.pci_address}: no sensor chip amdgpu", _LOST_CHIP, _NO_CHIP)
        lost = {name: reading for name, reading in lost.items() if name not in _CHIP}
    for name, reading in lost.items():
        yield Fact("no-reading", f"{card.pci_address}: no {_LABELS[name]}: {reading.why}")


def _box(case: Case) -> Iterator[Said]:
    for name in (PRESSURE_NAME, "mem_available_bytes"):
        reading = case.snapshot.readings[name]
        if reading.cause == "no-psi":
            yield Finding(
                "no-pressure", reading.why or "", _LOST_PRESSURE, "boot with psi=1 on the kernel's command line"
            )
        elif reading.value is None and not hangs(reading):
            yield Unlooked("no-reading", name, reading.why or "")
