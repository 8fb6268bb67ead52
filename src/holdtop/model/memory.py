"""Who uses the device's pool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdtop.model.facts import Facts
from holdtop.model.raw import Client
from holdtop.model.values import Device, Memory, Reading, Readings

#: Device memory that belongs to nobody on any box, in bytes: scan-out, the driver's own.
UNOWNED_SLACK = 512 * 1024**2


def pool_card(devices: Iterable[Device]) -> Device | None:
    """The card whose pool counts: an APU before a card of its own."""
    cards = [device for device in devices if device.resource == "gpu"]
    return min(cards, key=lambda card: (card.kind != "apu", card.pci_address), default=None)


def available_ram(readings: Readings) -> int | None:
    """Bytes that can be had: MemAvailable, and what the GPU's page pool gives back when it is asked."""
    available = value(readings, "mem_available_bytes")
    return None if available is None else available + (value(readings, "gpu_reclaimable_bytes") or 0)


def value(readings: Readings, name: str) -> int | None:
    found = readings.get(name, Reading()).value
    return None if found is None else int(found)


def ledger(
    facts: Facts,
    readings: Readings,
    device: Device | None,
    pool: str,
    parts: Mapping[str, Collection[int]] | None,
    unknown_payload: bool,
    claimed_bytes: int,
) -> Memory:
    """The pool's parts. ``parts``: pids by ``payload``, ``survivor``, ``stray``; ``None``: not known who is what.

    ``unknown_payload``: a member's memory is not known, and no hold says it. ``claimed_bytes``: what holds say of
    members that we may not look into.
    """
    uses = facts.raw.uses
    denied = None if uses is None or uses.hidden else len(uses.denied)
    used, total = value(readings, f"{pool}_used_bytes"), value(readings, f"{pool}_total_bytes")
    headroom = _headroom(facts, readings, pool, used, total)
    poolless = device is not None and device.pool is None  # which of two it is decides whose bytes count
    if uses is None or parts is None or not facts.forest.stats or poolless:
        return Memory(None, None, None, None, None, headroom, denied)
    whose = {pid: part for part, pids in parts.items() for pid in pids}
    sums = dict.fromkeys(("payload", "survivor", "stray", "other"), 0)
    clients = [(whose.get(pid, "other"), client) for pid, held in facts.held.items() for client in held.clients]
    if device is not None:
        clients = [(part, client) for part, client in clients if client.of(device.pci_address)]
    for part, client in clients:
        size, shared = _sizes(client, pool)
        sums[part] += size - shared
    sums["payload"] += claimed_bytes
    shared = _shared_once((client for _, client in clients), pool)
    rest = None if used is None else max(0, used - sum(sums.values()) - shared)
    return Memory(
        None if unknown_payload else sums["payload"],
        None if any(_unsaid(pid, facts, pool) for pid in parts["survivor"]) else sums["survivor"],
        sums["stray"],
        shared,
        rest,
        headroom,
        denied,
        sums["other"],
        _unowned_since(facts, readings, f"{pool}_used_bytes", rest),
    )


def _unsaid(pid: int, facts: Facts, pool: str) -> bool:
    """Whether it may hold what nobody can tell."""
    held, uses = facts.held.get(pid), facts.raw.uses
    if held is None:
        return uses is None or pid in uses.denied
    return (held.gtt_bytes if pool == "gtt" else held.vram_bytes) is None


def _unowned_since(facts: Facts, readings: Readings, used: str, rest: int | None) -> float | None:
    """Since the look before, or since this reading, when more than the box's own has no owner."""
    if rest is None or rest <= UNOWNED_SLACK:
        return None
    before = facts.previous.memory.unowned_since if facts.previous else None
    return readings[used].at if before is None else before


def held_together(clients: Collection[Client], pool: str) -> int:
    """Bytes of the pool that all these clients hold, buffers that they share once."""
    return sum(whole - shared for whole, shared in (_sizes(one, pool) for one in clients)) + _shared_once(clients, pool)


def _shared_once(clients: Iterable[Client], pool: str) -> int:
    """What they share, as near as sums allow: each such buffer is in two at least."""
    sizes = [_sizes(client, pool)[1] for client in clients]
    return max((sum(sizes) + 1) // 2, max(sizes, default=0))


def _sizes(client: Client, pool: str) -> tuple[int, int]:
    """Resident bytes in the pool, and the part of them that others may hold too."""
    whole = (client.gtt_bytes if pool == "gtt" else client.vram_bytes) or 0
    shared = client.gtt_shared_bytes if pool == "gtt" else client.vram_shared_bytes
    return whole, min(shared, whole)


def _headroom(facts: Facts, readings: Readings, pool: str, used: int | None, total: int | None) -> int | None:
    """What a new payload can have: of GTT no more than RAM gives without falling under the low mark."""
    if used is None or total is None:
        return None
    free = max(0, total - used)
    if pool == "vram":
        return free
    available, ram = available_ram(readings), value(readings, "mem_total_bytes")
    if available is None or ram is None:
        return None
    return min(free, max(0, available - int(ram * facts.raw.limits.low_memory_part)))
