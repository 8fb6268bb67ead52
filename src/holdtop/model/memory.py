"""Who uses the device's pool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdtop.model.facts import Facts
from holdtop.model.raw import Client
from holdtop.model.values import Device, Memory, Reading, Readings

#: Device memory that belongs to nobody on any box, in bytes: scan-out, the driver's own.
UNOWNED_SLACK = 512 * 1024**2
#: The parts of the pool, none of which is known while nobody could look who is what.
_PARTS = ("payload_bytes", "survivor_bytes", "stray_bytes", "shared_bytes", "unattributed_bytes", "other_bytes")


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
    headroom, no_headroom = _headroom(facts, readings, pool)
    scanned_at = uses.at if uses else None
    why = _closed(facts) | no_headroom
    if (blind := _blind(facts, device)) or parts is None:
        why |= dict.fromkeys(_PARTS, blind or "the state of the resource gpu was not read")
        return Memory(None, None, None, None, None, headroom, denied, unavailable=why, scanned_at=scanned_at)
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
    rest, no_rest = _rest(readings, pool, sum(sums.values()) + shared)
    unknown_survivor = any(_unsaid(pid, facts, pool) for pid in parts["survivor"])
    for part, unknown in (("payload", unknown_payload), ("survivor", unknown_survivor)):
        why |= {f"{part}_bytes": "of one of its processes the memory is not known"} if unknown else {}
    return Memory(
        None if unknown_payload else sums["payload"],
        None if unknown_survivor else sums["survivor"],
        sums["stray"],
        shared,
        rest,
        headroom,
        denied,
        sums["other"],
        why | no_rest,
        scanned_at,
        _unowned_since(facts, readings, f"{pool}_used_bytes", rest),
    )


def _closed(facts: Facts) -> dict[str, str]:
    uses = facts.raw.uses
    if uses is not None and not uses.hidden:
        return {}
    why = facts.raw.uses_why if uses is None else "processes of other accounts do not show themselves (hidepid)"
    return {"unreadable_processes": why or "descriptors were not looked at"}


def _blind(facts: Facts, device: Device | None) -> str | None:
    """Why no part of the pool is known; which of two pools it is decides whose bytes count."""
    if facts.raw.uses is None:
        return facts.raw.uses_why or "descriptors were not looked at"
    if not facts.forest.stats:
        return "no process was read"
    return "no total of memory of its own is known" if device is not None and device.pool is None else None


def _rest(readings: Readings, pool: str, held: int) -> tuple[int | None, dict[str, str]]:
    """What nobody holds. More can be held than was used when both were read; much more is no truth."""
    used = readings.get(f"{pool}_used_bytes", Reading())
    if used.value is None:
        return None, {"unattributed_bytes": used.why or "what is used is not known"}
    if held - used.value > UNOWNED_SLACK:
        return None, {"unattributed_bytes": "processes hold more than the device says is used"}
    return max(0, int(used.value) - held), {}


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


def _headroom(facts: Facts, readings: Readings, pool: str) -> tuple[int | None, dict[str, str]]:
    """What a new payload can have: of GTT no more than RAM gives without falling under the low mark."""
    needed = [f"{pool}_used_bytes", f"{pool}_total_bytes"]
    needed += ["mem_available_bytes", "mem_total_bytes"] if pool == "gtt" else []
    if missing := next((name for name in needed if value(readings, name) is None), None):
        return None, {"headroom_bytes": readings.get(missing, Reading()).why or f"{missing} is not known"}
    used, total, *_ = (value(readings, name) or 0 for name in needed)
    if used > total:
        return None, {"headroom_bytes": f"{pool}_used_bytes is more than {pool}_total_bytes"}
    if pool == "vram":
        return total - used, {}
    ram = value(readings, "mem_total_bytes") or 0
    spare = (available_ram(readings) or 0) - int(ram * facts.raw.limits.low_memory_part)
    return min(total - used, max(0, spare)), {}
