"""The devices of a snapshot in words: what is read of each, who uses it, and whose the pool's memory is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdtop.model.memory import OLD_SCAN
from holdtop.model.values import PARTS, Device, Process, Reading, Snapshot
from holdtop.render import bytes_text, duration_text

_LABELS = {
    "gtt_used_bytes": "GTT used",
    "gtt_total_bytes": "GTT total",
    "vram_used_bytes": "VRAM used",
    "vram_total_bytes": "VRAM total",
    "gpu_busy_percent": "GPU busy",
    "gpu_power_watts": "GPU power",
    "tctl_celsius": "Tctl",
    "mem_available_bytes": "MemAvailable",
    "mem_total_bytes": "MemTotal",
    "memory_pressure_some_avg10_percent": "memory pressure",
    "npu_busy_percent": "NPU busy",
}
#: Shown where there is one: most boxes lack some of these.
_FURTHER = {
    "vis_vram_used_bytes": "visible VRAM used",
    "vis_vram_total_bytes": "visible VRAM total",
    "preempt_used_bytes": "preemptible",
    "gpu_clock_mhz": "GPU clock",
    "memory_clock_mhz": "memory clock",
    "gpu_celsius": "GPU temperature",
    "cpu_celsius": "hottest core",
    "npu_power_watts": "NPU power",
    "npu_celsius": "NPU temperature",
    "gpu_reclaimable_bytes": "GPU page pool",
    "ttm_limit_bytes": "TTM limit",
    "ttm_pool_limit_bytes": "TTM pool limit",
}
_EVERY = {**_LABELS, **_FURTHER}
_UNITS = {"percent": " %", "watts": " W", "celsius": " C", "mhz": " MHz"}
#: A value older than this many seconds is shown with its age.
OLD = 3.0
#: Users of a device that are named.
MOST_USERS = 8


def device_rows(snapshot: Snapshot) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """Labels and values of the pool's card with the box's own readings, then of what else there is. Foreign text."""
    others = sorted(snapshot.devices, key=lambda device: device.pci_address != snapshot.device)
    if snapshot.card is None:
        yield "none", _of_pool(snapshot, None, ())
    for device in others:
        users = snapshot.users.get(device.pci_address, ())
        pool = f", programs get {device.pool.upper()}" if device.pool else ""
        name = f"{device.pci_address} ({device.kind}){pool}"
        first = device.pci_address == snapshot.device
        yield name, _of_pool(snapshot, device, users) if first else _of_other(device, snapshot.at, users)


def _of_pool(snapshot: Snapshot, card: Device | None, users: Sequence[Process]) -> Iterator[tuple[str, str]]:
    for name, reading in snapshot.readings.items():
        if name in _LABELS or reading.value:
            yield _EVERY[name], _reading(name, reading, snapshot.at)
    yield "memory", ", ".join(_memory(snapshot))
    if card is not None:
        yield from _users(card, users)


def _of_other(device: Device, at: float, users: Sequence[Process]) -> Iterator[tuple[str, str]]:
    for name, reading in device.readings.items():
        if reading.value is not None and device.resource == "gpu":  # an NPU's stand with the box's own
            yield _EVERY[name], _reading(name, reading, at)
    yield from _users(device, users)


def _users(device: Device, users: Sequence[Process]) -> Iterator[tuple[str, str]]:
    """Largest first; who holds the device is among them."""
    by_size = sorted(users, key=lambda one: sum(size or 0 for size in _sizes(device, one)), reverse=True)
    said = [f"{one.name} {one.pid} ({account(one)}) {_size(device, one)}" for one in by_size[:MOST_USERS]]
    if len(users) > MOST_USERS:
        said.append(f"{len(users) - MOST_USERS} more")
    if said:
        yield "users", ", ".join(said)


def _reading(name: str, reading: Reading, at: float) -> str:
    if reading.value is None:
        return f"unknown: {reading.why or 'no reason known'}"
    age = 0.0 if reading.at is None else at - reading.at
    return amount(name, reading.value) + (f" ({duration_text(age)} old)" if age > OLD else "")


def _memory(snapshot: Snapshot) -> Iterator[str]:
    memory = snapshot.memory
    for part in PARTS:
        size = getattr(memory, f"{part}_bytes")
        if size or part in ("payload", "unattributed"):
            yield f"{part} {bytes_text(size)}"
    yield f"headroom {bytes_text(memory.headroom_bytes)}"
    reasons: dict[str, list[str]] = {}
    for name, why in memory.unavailable.items():
        reasons.setdefault(why, []).append(name.removesuffix("_bytes").replace("_", " "))
    for why, names in sorted(reasons.items()):
        yield f"{' and '.join(names)} unknown: {why}"
    if memory.scanned_at is not None and (age := snapshot.at - memory.scanned_at) > OLD_SCAN:
        yield f"descriptors last looked at {duration_text(age)} ago"
    if memory.unreadable_processes != 0:
        number = memory.unreadable_processes
        yield f"closed to this account: {'not known how many' if number is None else number}"


def amount(name: str, value: float) -> str:
    """A value in the unit that its name ends with."""
    unit = name.rpartition("_")[2]
    return bytes_text(value) if unit == "bytes" else f"{value:.4g}{_UNITS[unit]}"


def account(process: Process) -> str:
    return process.user or (f"uid {process.uid}" if process.uid is not None else "unknown user")


def _sizes(device: Device, process: Process) -> tuple[int | None, ...]:
    return (process.npu_bytes,) if device.kind == "npu" else (process.gtt_bytes, process.vram_bytes)


def _size(device: Device, process: Process) -> str:
    sizes = _sizes(device, process)
    names = ("",) if device.kind == "npu" else ("GTT ", "VRAM ")
    known = " and ".join(f"{name}{bytes_text(size)}" for name, size in zip(names, sizes, strict=True) if size)
    if None not in sizes and (device.kind == "npu" or process.memory_source != "kfd"):  # which does not count all
        return known or bytes_text(0)
    return f"at least {known}" if known else "unknown"
