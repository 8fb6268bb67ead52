"""The raw samples of one look with what is derived from them once: tree, attribution, the look before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from holdtop.hold.view import RecordedProcess
from holdtop.model.attribution import Held, attribute, placed
from holdtop.model.clock import age_of
from holdtop.model.raw import Details, Raw, Stat
from holdtop.model.trees import Forest
from holdtop.model.values import Device, FoundBy, Process, Snapshot

_NOTHING = Held(frozenset(), 0, 0, 0, ())
_UNKNOWN = Held(frozenset(), None, None, None, ())


@dataclass(frozen=True, slots=True)
class Facts:
    raw: Raw
    previous: Snapshot | None
    forest: Forest
    held: Mapping[int, Held]
    #: The processes shown by the look before, by (pid, start ticks).
    before: Mapping[tuple[int, int], Process]

    @classmethod
    def of(cls, raw: Raw, previous: Snapshot | None) -> Facts:
        stats = raw.table.stats if raw.table else {}
        uses = raw.uses if raw.uses is None or raw.initial_pidns is not False else replace(raw.uses, kfd={})
        uses = placed(uses, raw.devices) if uses else None
        held = attribute(uses, stats, raw.devices) if uses else {}
        return cls(replace(raw, uses=uses), previous, Forest.of(stats), held, _shown(previous))

    def denied(self, pid: int) -> bool:
        return self.raw.uses is not None and pid in self.raw.uses.denied

    def memory_of(self, stat: Stat) -> Held:
        """What the process holds; of one that could not be looked into, or is younger than the scan, unknown."""
        uses = self.raw.uses
        if stat.dead:
            return _NOTHING  # its descriptors were closed before it became a zombie
        if uses is None or stat.pid in uses.denied:
            return self.held.get(stat.pid, _UNKNOWN)
        younger = bool(self.raw.since_boot) and age_of(stat.start_ticks, self.raw) < self.raw.at - uses.at
        return self.held.get(stat.pid, _UNKNOWN if younger else _NOTHING)

    def users(self, device: Device) -> Iterator[Process]:
        """Who has the device open, by pid, with what each holds there."""
        for pid, held in sorted(self.held.items()):
            user = self.raw.uses.users.get(pid) if self.raw.uses else None
            clients = [client for client in (user or held).clients if client.npu == (device.resource == "npu")]
            if device.resource in held.resources and (
                not clients or any(client.of(device.pci_address) for client in clients)
            ):
                on = held.on(device.pci_address)
                yield replace(
                    self.process(pid, "device"),
                    gtt_bytes=on.gtt_bytes,
                    vram_bytes=on.vram_bytes,
                    npu_bytes=on.npu_bytes,
                )

    def process(self, pid: int, found_by: FoundBy, recorded: RecordedProcess | None = None) -> Process:
        """One process as it is shown. ``recorded``: what its hold says about it, heard where we may not look."""
        stat = self.forest.stats[pid]
        details = self.raw.details.get(stat.identity, Details())
        memory = self.memory_of(stat)
        gtt, vram = memory.gtt_bytes, memory.vram_bytes
        known = gtt is not None or vram is not None
        claimed = recorded is not None and (recorded.gtt_bytes is not None or recorded.vram_bytes is not None)
        if recorded is not None and claimed and (not known or memory.source == "kfd"):  # which does not count all
            gtt, vram, known = recorded.gtt_bytes, recorded.vram_bytes, False
        seconds = None if stat.cpu_ticks is None else stat.cpu_ticks / self.raw.ticks_per_second
        return Process(
            pid=pid,
            ppid=stat.ppid,
            start_ticks=stat.start_ticks,
            name=stat.name,
            command=details.command,
            state=stat.state,
            uid=details.uid,
            user=details.user,
            cpu_percent=self._cpu(stat, seconds),
            rss_bytes=stat.rss_bytes,
            gtt_bytes=gtt,
            vram_bytes=vram,
            npu_bytes=memory.npu_bytes,
            memory_source=memory.source if known else "record" if claimed else None,
            found_by=found_by,
            readable=not self.denied(pid),
            cpu_seconds=seconds,
            sampled_at=self.raw.table.at if self.raw.table else None,
        )

    def _cpu(self, stat: Stat, seconds: float | None) -> float | None:
        """Percent of one CPU since the look before; ``None`` on the first."""
        before = self.before.get(stat.identity)
        if before is None or before.cpu_seconds is None or seconds is None:
            return None
        if before.sampled_at is None or self.raw.table is None:
            return None
        span = self.raw.table.at - before.sampled_at
        return max(0.0, 100 * (seconds - before.cpu_seconds) / span) if span > 0 else before.cpu_percent


def _shown(snapshot: Snapshot | None) -> dict[tuple[int, int], Process]:
    if snapshot is None:
        return {}
    trees = [r.holder.payload.processes for r in snapshot.resources if r.holder and r.holder.payload]
    return {(process.pid, process.start_ticks): process for tree in (snapshot.leftovers, *trees) for process in tree}
