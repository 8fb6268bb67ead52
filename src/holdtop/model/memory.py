"""Who uses the device's pool."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from holdtop.model.attribution import Held, pool_bytes, shared_bytes, split
from holdtop.model.facts import Facts
from holdtop.model.values import PARTS, Device, Memory, Pool, Reading, Readings
from holdtop.render import bytes_text

#: Device memory that belongs to nobody on any box, in bytes: scan-out, the driver's own.
UNOWNED_SLACK = 512 * 1024**2
#: A scan of descriptors that is older than this many seconds is shown with its age; it rests between.
OLD_SCAN = 15.0


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
    pool: Pool,
    parts: Mapping[str, Collection[int]] | None,
    claims: Mapping[int, int | None],
) -> Memory:
    """The pool's parts. ``parts``: pids by ``payload``, ``survivor``, ``stray``; ``None``: not known who is what.

    ``claims``: what a hold says of those members that we may not look into, and ``None`` where it says nothing.
    """
    uses = facts.raw.uses
    why = _closed(facts)
    denied = None if why or uses is None else len(uses.denied)
    headroom, no_headroom = _headroom(facts, readings, device, pool)
    scanned_at = uses.at if uses else None
    why |= no_headroom
    if (blind := _blind(facts, device)) or parts is None:
        why |= dict.fromkeys((f"{part}_bytes" for part in PARTS), blind or "the state of the resource gpu was not read")
        return Memory(None, None, None, None, None, headroom, denied, unavailable=why, scanned_at=scanned_at)
    sums, shared, more = _sums(facts, device, pool, parts, claims, everybody=denied == 0)
    rest, no_rest = _rest(facts, readings, pool, sum(sums.values()) + shared, more)
    why |= _unsaid(facts, device, pool, parts, claims) | no_rest
    closed = uses.denied.difference(*parts.values()) if uses else ()
    if denied is None or closed:  # that none was found does not mean that there is none
        unseen = [f"{part}_bytes" for part in ("stray", "other") if not sums[part]]
        why = dict.fromkeys(unseen, "who may not be looked into may hold some") | why
    known = {part: None if f"{part}_bytes" in why else size for part, size in sums.items()}
    return Memory(
        known["payload"],
        known["survivor"],
        known["stray"],
        shared,
        rest,
        headroom,
        denied,
        known["other"],
        why,
        scanned_at,
        _unowned_since(facts, readings, f"{pool}_used_bytes", rest),
    )


def _sums(
    facts: Facts,
    device: Device | None,
    pool: Pool,
    parts: Mapping[str, Collection[int]],
    claims: Mapping[int, int | None],
    *,
    everybody: bool,
) -> tuple[dict[str, int], int, int]:
    """Bytes by part, what is shared among them, and how much more that may be.

    ``everybody`` was looked into: then what only one part's clients share is that part's own.
    """
    whose = {pid: part for part, pids in parts.items() for pid in pids}
    clients = [
        (whose.get(pid, "other"), client)
        for pid, held in facts.held.items()
        for client in held.clients
        if pid not in claims and (device is None or client.of(device.pci_address))
    ]
    sums = dict.fromkeys(("payload", "survivor", "stray", "other"), 0)
    for part, client in clients:
        sums[part] += pool_bytes(client, pool) - shared_bytes(client, pool)
    if not _of_all_cards(facts, claims):
        sums["payload"] += sum(size or 0 for size in claims.values())
    _, shared, more = split([client for _, client in clients], pool)
    sharing = {part for part, client in clients if shared_bytes(client, pool)}
    if len(sharing) == 1 and everybody:
        sums[sharing.pop()] += shared
        shared = 0
    return sums, shared, more


def _unsaid(
    facts: Facts,
    device: Device | None,
    pool: Pool,
    parts: Mapping[str, Collection[int]],
    claims: Mapping[int, int | None],
) -> dict[str, str]:
    """Parts of which a process may hold what nobody can tell."""
    uses, why = facts.raw.uses, {}
    one = "of one of its processes the memory is not known"
    silent = {pid for pid, held in facts.held.items() if _silent(held, device, pool)}
    if None in claims.values() or silent.intersection(parts["payload"]) - claims.keys():
        why["payload_bytes"] = one
    elif _of_all_cards(facts, claims):
        why["payload_bytes"] = "what a hold says of its processes is of all cards together"
    if (silent | (uses.denied if uses else set())).intersection(parts["survivor"]):
        why["survivor_bytes"] = one
    if silent - {*parts["payload"], *parts["survivor"]}:
        why |= dict.fromkeys(("stray_bytes", "other_bytes"), "a process that uses the device does not say how much")
    return why


def _of_all_cards(facts: Facts, claims: Mapping[int, int | None]) -> bool:
    """Whether what a hold says may be memory of another card."""
    return any(claims.values()) and len([card for card in facts.raw.devices if card.resource == "gpu"]) > 1


def _silent(held: Held, device: Device | None, pool: Pool) -> bool:
    """Whether it uses the device and does not say how much of the pool it has there."""
    there = held.on(device.pci_address) if device else held
    return "gpu" in held.resources and (there.gtt_bytes if pool == "gtt" else there.vram_bytes) is None


def _closed(facts: Facts) -> dict[str, str]:
    """Why it is not known how many processes nobody could look into."""
    uses = facts.raw.uses
    if uses is None:
        why = facts.raw.uses_why or "descriptors were not looked at"
    elif uses.hidden:
        why = "processes of other accounts do not show themselves (hidepid)"
    elif facts.raw.initial_pidns is False:
        why = "this pid namespace shows its own processes only"
    else:
        return {}
    return {"unreadable_processes": why}


def _blind(facts: Facts, device: Device | None) -> str | None:
    """Why no part of the pool is known; which of two pools it is decides whose bytes count."""
    if facts.raw.uses is None:
        return facts.raw.uses_why or "descriptors were not looked at"
    if not facts.forest.stats:
        return facts.raw.table_why or "no process was read"
    return device.pool_why if device is not None else None


def _rest(facts: Facts, readings: Readings, pool: str, held: int, more: int) -> tuple[int | None, dict[str, str]]:
    """What nobody holds. More can be held than was used when both were read; much more is no truth.

    ``more``: so much more may be held.
    """
    used = readings.get(f"{pool}_used_bytes", Reading())
    total = value(readings, f"{pool}_total_bytes")
    if used.value is None:
        why = used.why or "what is used is not known"
    elif total is not None and used.value > total:
        why = f"{pool}_used_bytes is more than {pool}_total_bytes"
    elif held - used.value > UNOWNED_SLACK:
        why = "processes hold more than the device says is used"
    elif any(client.placeless and not client.npu for one in facts.held.values() for client in one.clients):
        why = "a process does not say on which card it holds memory"
    elif facts.raw.uses_why is not None:
        why = facts.raw.uses_why  # what is used now against who used it then
    elif (unsure := min(more, int(used.value) - held)) > UNOWNED_SLACK:
        why = f"processes share buffers, and may hold up to {bytes_text(unsure)} more than is counted"
    else:
        return max(0, int(used.value) - held), {}
    return None, {"unattributed_bytes": why}


def _unowned_since(facts: Facts, readings: Readings, used: str, rest: int | None) -> float | None:
    """Since the look before, or since this reading, when more than the box's own has no owner."""
    if rest is None or rest <= UNOWNED_SLACK:
        return None
    before = facts.previous.memory.unowned_since if facts.previous else None
    return readings[used].at if before is None else before


def _headroom(facts: Facts, readings: Readings, device: Device | None, pool: str) -> tuple[int | None, dict[str, str]]:
    """What a new payload can have: of GTT no more than RAM gives without falling under the low mark."""
    if device is not None and device.pool_why is not None:
        return None, {"headroom_bytes": device.pool_why}
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
