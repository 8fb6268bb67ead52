"""What changed between two looks, however far apart. All of it is foreign text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar

from holdtop.model.standing import flag_key
from holdtop.model.values import PARTS, Process, Reading, Resource, Severity, Snapshot, Ticket
from holdtop.render import MIB, bytes_text, short_bytes

#: Less than so many bytes, or than so much of another unit, is no change to look at.
LEAST_BYTES, LEAST = 64 * MIB, 5.0
_READINGS = {
    "gtt_used_bytes": "GTT used",
    "vram_used_bytes": "VRAM used",
    "mem_available_bytes": "MemAvailable",
    "tctl_celsius": "Tctl",
    "gpu_busy_percent": "GPU busy",
    "gpu_power_watts": "GPU power",
    "npu_busy_percent": "NPU busy",
}
_UNITS = {"celsius": "C", "percent": "%", "watts": "W"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change:
    """``+``: it is there now. ``-``: it is there no more. ``~``: it is another."""

    sign: Literal["+", "-", "~"]
    text: str
    #: How bad it is: of a flag that is there now, and of a release that was not clean.
    severity: Severity | None = None


def changes(before: Snapshot, after: Snapshot) -> tuple[Change, ...]:
    """Worst first: the box, flags, resources with their queues, processes, memory and readings."""
    return tuple(
        change for part in (_box, _flags, _resources, _processes, _memory, _readings) for change in part(before, after)
    )


def _box(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    if before.host != after.host:
        yield Change("~", f"another box: {before.host}, then {after.host}")
    if before.boot_id != after.boot_id:
        yield Change("~", "the box was started anew in between")
    yield from _sets(
        before.devices, after.devices, lambda one: one.pci_address, lambda one: f"device {one.pci_address}"
    )
    for unit, old, new in _both(before.runners, after.runners, lambda one: one.unit):
        if (old.active_state, old.restarts) != (new.active_state, new.restarts):
            yield Change("~", f"runner {unit}: {old.active_state}, then {new.active_state}; {new.restarts} restarts")


def _flags(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    yield from _sets(
        before.flags,
        after.flags,
        flag_key,
        lambda flag: f"flag {flag.severity} {flag.kind}: {flag.text}",
        lambda flag: flag.severity,
    )
    for _, old, new in _both(before.flags, after.flags, flag_key):
        if old.severity != new.severity:
            yield Change("~", f"flag {new.kind}: {old.severity}, then {new.severity}", new.severity)


def _resources(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    yield from _sets(before.resources, after.resources, lambda one: one.name, lambda one: f"resource {one.name}")
    for name, old, new in _both(before.resources, after.resources, lambda one: one.name):
        if old.token_path != new.token_path:
            yield Change("~", f"{name}: its state was {old.token_path}, then {new.token_path}")
        if _held(old) != _held(new):
            yield Change("~", f"{name}: {_held(old)}, then {_held(new)}")
        for change in _sets(old.waiting, new.waiting, lambda one: one.id, _who):
            yield Change(change.sign, f"{name} waiting: {change.text}")
        earlier = {str(receipt.get("ticket")): receipt for receipt in old.receipts}
        for receipt in new.receipts:
            lane, reason, verdict = (receipt.get(key) for key in ("lane", "reason", "verdict"))
            known = earlier.get(str(receipt.get("ticket")))
            if known is None:
                yield Change("+", f"{name} released: {lane}, {reason}, {verdict}", _of(verdict))
            elif known != receipt:
                yield Change("~", f"{name} settled: {lane}, {known.get('verdict')}, then {verdict}", _of(verdict))


def _of(verdict: object) -> Severity | None:
    return None if verdict == "clean" else "warning"


def _processes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    old, new = _shown(before), _shown(after)
    yield from _sets(old, new, _identity, _process)
    for _, was, now in _both(old, new, _identity):
        more = _difference(was.gtt_bytes, now.gtt_bytes, LEAST_BYTES)
        if more is not None:
            yield Change("~", f"{_process(now)}; its GTT {_more(more)}")


def _memory(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    for part in (*PARTS, "headroom"):
        old, new = (getattr(one.memory, f"{part}_bytes") for one in (before, after))
        if _difference(old, new, LEAST_BYTES) is not None or (old is None) != (new is None):
            yield Change("~", f"device memory, {part}: {bytes_text(old)}, then {bytes_text(new)}")


def _readings(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    for name, label in _READINGS.items():
        old, new = (one.readings.get(name, Reading()).value for one in (before, after))
        size = name.endswith("_bytes")
        if _difference(old, new, LEAST_BYTES if size else LEAST) is not None or (old is None) != (new is None):
            unit = _UNITS.get(name.rpartition("_")[2], "")
            texts = (
                bytes_text(one) if size else "unknown" if one is None else f"{one:.0f} {unit}" for one in (old, new)
            )
            yield Change("~", f"{label}: {', then '.join(texts)}")


def _sets(
    before: Iterable[T],
    after: Iterable[T],
    key: Callable[[T], Hashable],
    text: Callable[[T], str],
    severity: Callable[[T], Severity | None] = lambda _: None,
) -> Iterator[Change]:
    old, new = ({key(one): one for one in of} for of in (before, after))
    yield from (Change("+", text(one), severity(one)) for at, one in new.items() if at not in old)
    yield from (Change("-", text(one)) for at, one in old.items() if at not in new)


def _both(before: Iterable[T], after: Iterable[T], key: Callable[[T], Hashable]) -> Iterator[tuple[Hashable, T, T]]:
    old = {key(one): one for one in before}
    for one in after:
        if (at := key(one)) in old:
            yield at, old[at], one


def _shown(snapshot: Snapshot) -> list[Process]:
    holders = (resource.holder for resource in snapshot.resources)
    trees = (holder.payload.processes for holder in holders if holder and holder.payload)
    return [*snapshot.leftovers, *(process for tree in trees for process in tree)]


def _identity(process: Process) -> Hashable:
    return process.pid, process.start_ticks


def _process(process: Process) -> str:
    size = f", GTT {short_bytes(process.gtt_bytes)}" if process.gtt_bytes else ""
    return f"pid {process.pid} ({process.name}, {process.user or process.uid}){size}"


def _held(resource: Resource) -> str:
    return f"{resource.state} by {_who(resource.holder)}" if resource.holder else resource.state


def _who(ticket: Ticket) -> str:
    return f"{ticket.lane or 'no lane'} ({ticket.id})"


def _difference(old: float | None, new: float | None, least: float) -> float | None:
    """``None``: none that counts, or not known."""
    return new - old if old is not None and new is not None and abs(new - old) >= least else None


def _more(by: float) -> str:
    return f"grew by {bytes_text(by)}" if by > 0 else f"shrank by {bytes_text(-by)}"
