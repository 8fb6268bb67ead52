"""Devices: which are found, and which are on the bus without a driver."""

from __future__ import annotations

from collections.abc import Iterator

from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked, hangs
from holdtop.model.values import Device, Reading, Resource
from holdtop.render import bytes_text
from holdtop.sources import machine
from holdtop.sources.machine import Function

_DRIVERS = {"gpu": "amdgpu", "npu": "amdxdna"}


def devices(case: Case) -> Iterator[Said]:
    """A box without any AMD device is well: nothing says that it should have one. So is an NPU that nobody uses."""
    found = case.snapshot.devices
    yield from (Fact("device", _named(device)) for device in found)
    known = {device.pci_address for device in found}
    lost = [function for function in machine.functions(case.roots.sys) if function.address not in known]
    used = {one.name for one in case.snapshot.resources if one.name == "gpu" or _in_use(one)}
    for function in lost:
        yield _undriven(function, machine.loaded(case.roots.sys, _DRIVERS[function.kind]), function.kind in used)
    if not found and not lost:
        yield _none(case.snapshot.readings["gtt_used_bytes"])
    for flag in case.snapshot.flags:
        if flag.kind == "gpu-reset":
            yield Finding(flag.kind, flag.text, "whatever used the card has lost its work, and may hang", flag.remedy)


def _in_use(resource: Resource) -> bool:
    """A queue alone says nothing: ``holdtop state init`` makes one for the NPU in any case."""
    return bool(resource.holder or resource.waiting or resource.last_receipt)


def _none(reading: Reading) -> Said:
    if hangs(reading):
        return Unlooked("no-device", "which AMD devices there are", reading.why or "")
    return Fact("no-device", "no AMD device, and nothing that asks for one")


def _named(device: Device) -> str:
    total = device.readings.get(f"{device.pool}_total_bytes") if device.pool else None
    pool = f", programs get {(device.pool or '').upper()} of {bytes_text(total.value)}" if total else ""
    return f"{device.kind} {device.pci_address}{pool}"


def _undriven(function: Function, loaded: bool, used: bool) -> Said:
    """On the bus, and no card or accelerator of it."""
    driver = _DRIVERS[function.kind]
    without = {"npu": "has no accelerator" if function.driver else f"has no driver ({driver}, Linux 6.14)"}
    bound = without.get(function.kind, "has no card")
    if function.driver not in (None, driver):
        bound = f"is driven by {function.driver}, not {driver}"
    what = f"AMD's {function.kind} {function.address} ({function.vendor[2:]}:{function.device[2:]}) {bound}"
    remedy = f"sudo modprobe {driver}"
    if loaded or function.driver is not None:
        remedy = f"sudo journalctl -k -b -g '{driver}|{function.address}'  # says why the driver gave up"
    if not used:
        return Fact("unused-device", f"{what}, and nothing here uses one ({remedy})")
    return Finding("no-driver", what, "it cannot be used, and nothing about it can be read", remedy)
