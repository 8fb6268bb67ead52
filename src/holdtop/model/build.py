"""From what was read to what is shown: pure, so that a live box and a recording are drawn by the same code."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from holdtop.model.facts import Facts
from holdtop.model.flags import judge
from holdtop.model.history import foretell
from holdtop.model.memory import ledger, pool_card
from holdtop.model.raw import Raw
from holdtop.model.resources import Seen, pids_of, see
from holdtop.model.scene import Scene, Stray, Survivors
from holdtop.model.values import READING_NAMES, Device, Pool, Reading, Readings, Snapshot


def build(raw: Raw, previous: Snapshot | None) -> Snapshot:
    """One snapshot. ``previous``: the look before, for rates and for since when a flag stands."""
    facts = Facts.of(raw, previous)
    seen = tuple(see(look, facts) for look in raw.looks)
    survivors = tuple(_survivors(facts, seen))
    device = pool_card(raw.devices)
    readings = _readings(raw, device)
    outlived = frozenset(process.pid for left in survivors for process in left.processes)
    strays = tuple(_strays(facts, seen, outlived))
    leftovers = [process for left in survivors for process in left.processes] + [stray.process for stray in strays]
    pool: Pool = (device.pool if device else None) or "gtt"
    memory = ledger(facts, readings, device, pool, *_parts(facts, seen, outlived, strays, pool))
    scene = Scene(facts, seen, readings, memory, survivors, strays)
    return Snapshot(
        host=raw.host,
        boot_id=raw.boot_id,
        taken_at=raw.taken_at,
        at=raw.at,
        readings=readings,
        device=device.pci_address if device else None,
        devices=raw.devices,
        memory=memory,
        containment=raw.containment,
        resources=tuple(foretell(one.resource, memory, raw.taken_at) for one in seen),
        flags=judge(scene),
        leftovers=tuple(leftovers),
        users={device.pci_address: tuple(facts.users(device)) for device in raw.devices},
        runners=raw.runners.units,
        runners_why=raw.runners.why,
        state_why=raw.state.why,
        roots=raw.roots,
    )


def wanted(raw: Raw) -> frozenset[tuple[int, int]]:
    """The (pid, start ticks) of all processes that a snapshot of this would show."""
    facts = Facts.of(raw, None)
    pids = set(facts.held).union(*(pids_of(look, facts) for look in raw.looks))
    return frozenset(facts.forest.stats[pid].identity for pid in pids)


def _readings(raw: Raw, device: Device | None) -> Readings:
    """Every name of the schema: the pool's card, the NPU, the box's own, and a reason for what none has."""
    npu = next((one.readings for one in raw.devices if one.resource == "npu"), {})
    merged = {**raw.host_readings, **(device.readings if device else {}), **npu}
    missing = Reading(why="this card has no such reading") if device else raw.no_card
    return {name: merged.get(name, missing) for name in READING_NAMES}


def _survivors(facts: Facts, seen: Collection[Seen]) -> Iterator[Survivors]:
    for one in seen:
        for record in one.view.survivors if one.view else ():
            alive = [p for p in record.processes if facts.forest.alive(p.pid, p.start_ticks)]
            if alive:
                yield Survivors(one, record, tuple(facts.process(p.pid, "record", p) for p in alive))


def _strays(facts: Facts, seen: Collection[Seen], outlived: Collection[int]) -> Iterator[Stray]:
    """Users above the limit of a device whose token is not theirs. Nobody, while that cannot be known."""
    under = {one.resource.name: one.payload for one in seen if one.view is not None and not facts.raw.looks_why}
    limits = facts.raw.limits
    for pid, held in sorted(facts.held.items()):
        if pid in outlived or facts.forest.stats[pid].name in limits.stray_allow:
            continue
        for resource, size in (("gpu", held.least_bytes), ("npu", held.npu_bytes or 0)):
            if size >= limits.stray_bytes and pid not in under.get(resource, (pid,)):
                yield Stray(resource, facts.process(pid, "device"), size, held.whole or resource == "npu")
                break


def _parts(
    facts: Facts, seen: Collection[Seen], outlived: Collection[int], strays: Collection[Stray], pool: Pool
) -> tuple[Mapping[str, Collection[int]] | None, Mapping[int, int | None]]:
    """Who is what in the GPU's pool, and what their hold says of members that are closed to us."""
    gpu = next((one for one in seen if one.resource.name == "gpu"), None)
    if gpu is None or gpu.view is None:
        return None, {}
    holder = gpu.resource.holder
    members = holder.payload.processes if holder and holder.payload else ()
    parts = {"stray": [stray.process.pid for stray in strays], "payload": gpu.payload, "survivor": outlived}
    said = [one for one in members if one.memory_source == "record"]
    unseen = [one for one in members if one.held(pool) is None and one.pid not in facts.held]
    return parts, {one.pid: one.held(pool) for one in (*said, *unseen)}
