"""A snapshot as the mapping that ``status --json`` prints: schema 1, in which no key is ever renamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from holdtop.model.values import Device, Memory, Readings, Snapshot

SCHEMA = 1
#: Fields that are for the next look or for the console, not for readers.
_INTERNAL = frozenset({"cpu_seconds", "sampled_at", "unowned_since", "scanned_at", "receipts", "findings"})
_known: dict[type, tuple[str, ...]] = {}


def to_mapping(snapshot: Snapshot) -> dict[str, Any]:
    """Plain values only: what is not known is ``None``, and its reason stands in ``unavailable``."""
    return {
        "schema": SCHEMA,
        "host": snapshot.host,
        "boot_id": snapshot.boot_id,
        "taken_at": snapshot.taken_at,
        "readings": _readings(snapshot.readings, snapshot.card, snapshot.at),
        "devices": [_device(device, snapshot) for device in snapshot.devices],
        "memory": _memory(snapshot.memory, snapshot.at),
        "containment": list(snapshot.containment),
        "resources": _plain(snapshot.resources),
        "flags": _plain(snapshot.flags),
        "leftovers": _plain(snapshot.leftovers),
        "runners": _plain(snapshot.runners),
        "runners_why": snapshot.runners_why,
        "roots": list(snapshot.roots),
    }


def _readings(readings: Readings, device: Device | None, at: float) -> dict[str, Any]:
    pool = device.pool if device else None
    lacking = {name: reading.why or "unknown" for name, reading in readings.items() if reading.value is None}
    if pool is None:
        lacking["pool"] = (device.pool_why if device else None) or "there is no card"
    return {
        **{name: reading.value for name, reading in readings.items()},
        "device": device.pci_address if device else None,
        "pool": pool,
        "age_seconds": {
            name: round(max(0.0, at - reading.at), 3)
            for name, reading in readings.items()
            if reading.value is not None and reading.at is not None
        },
        "unavailable": lacking,
        "sources": {name: reading.source for name, reading in readings.items() if reading.source},
    }


def _memory(memory: Memory, at: float) -> dict[str, Any]:
    age = None if memory.scanned_at is None else round(max(0.0, at - memory.scanned_at), 3)
    return {**_plain(memory), "age_seconds": age}


def _device(device: Device, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "pci_address": device.pci_address,
        "kind": device.kind,
        "resource": device.resource,
        "readings": _readings(device.readings, device, snapshot.at),
        "users": _plain(snapshot.users.get(device.pci_address, ())),
    }


def _fields(kind: type) -> tuple[str, ...]:
    """Of a data class; none of anything else. Each kind is looked into once."""
    if kind not in _known:
        fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
        _known[kind] = tuple(field.name for field in fields if field.name not in _INTERNAL)
    return _known[kind]


def _plain(value: Any) -> Any:
    """Data classes, mappings and tuples as dictionaries and lists."""
    if value is None or isinstance(value, str | int | float):  # most are, and thousands of tickets may wait
        return value
    if names := _fields(type(value)):
        return {name: _plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
