"""Device memory by process: each DRM client counted once on the whole box.

A descriptor that was duplicated, inherited or passed over a socket shows the same client again, in the same process
or in another. It is given to one process: the one with most descriptors of it, and never to a session's manager,
which keeps descriptors for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from holdtop.model.raw import Client, DeviceUser, Stat, Uses

_KEEPERS = frozenset({"systemd", "systemd-logind", "init"})


@dataclass(frozen=True, slots=True)
class Held:
    """What one process holds; ``None`` where a client's fdinfo does not say."""

    resources: frozenset[str]
    gtt_bytes: int | None
    vram_bytes: int | None
    npu_bytes: int | None
    #: Clients that are its own by the rule above.
    clients: tuple[Client, ...]
    source: Literal["fdinfo", "kfd"] = "fdinfo"

    @property
    def device_bytes(self) -> int | None:
        """What is known of both together: at least so much. ``None`` when neither is known."""
        if self.gtt_bytes is None and self.vram_bytes is None:
            return None
        return (self.gtt_bytes or 0) + (self.vram_bytes or 0)

    def on(self, pci_address: str) -> Held:
        """Its part on that device; ``None`` also where it is another device's part that is not known."""
        own = tuple(client for client in self.clients if client.of(pci_address))
        parts = _held(self.resources, own, frozenset(), self.source)
        return replace(
            parts,
            gtt_bytes=None if self.gtt_bytes is None else parts.gtt_bytes,
            vram_bytes=None if self.vram_bytes is None else parts.vram_bytes,
            npu_bytes=None if self.npu_bytes is None else parts.npu_bytes,
        )


def attribute(uses: Uses, stats: Mapping[int, Stat], pools: Mapping[str, str | None]) -> dict[int, Held]:
    """By pid. A user whose pid belongs to another process by now is left out.

    ``pools``: ``gtt`` or ``vram`` by the card's PCI address, which is where KFD's memory lies.
    """
    users = {
        pid: user
        for pid, user in uses.users.items()
        if (stat := stats.get(pid)) and stat.start_ticks == user.start_ticks
    }
    owners: dict[tuple[str, str], tuple[bool, int, int]] = {}
    best: dict[tuple[str, str], Client] = {}
    for pid, user in users.items():
        for client in user.clients:
            claim = (stats[pid].name not in _KEEPERS, client.descriptors, -pid)
            owners[client.key] = max(owners.get(client.key, claim), claim)
            known = best.get(client.key)
            best[client.key] = known.merged(client) if known else client
    held = {}
    for pid, user in users.items():
        own = tuple(best[client.key] for client in user.clients if owners[client.key][2] == -pid)
        held[pid] = _held(user.resources, own, _silent(user))
    unsaid = (pid for pid in uses.kfd if _unsaid(pid, uses, held, stats))
    by_kfd = {pid: _by_kfd(pid, uses.kfd[pid], pools, held.get(pid)) for pid in unsaid}
    return held | by_kfd


def _silent(user: DeviceUser) -> frozenset[str]:
    """Resources whose driver names no client of it: the first NPU driver, KFD, a GPU before Linux 5.14."""
    return user.resources - {"npu" if client.npu else "gpu" for client in user.clients}


def _held(
    resources: frozenset[str],
    own: tuple[Client, ...],
    silent: frozenset[str],
    source: Literal["fdinfo", "kfd"] = "fdinfo",
) -> Held:
    cards, npus = [one for one in own if not one.npu], [one for one in own if one.npu]
    return Held(
        resources,
        None if "gpu" in silent else total(client.gtt_bytes for client in cards),
        None if "gpu" in silent else total(client.vram_bytes for client in cards),
        None if "npu" in silent else total(client.npu_bytes for client in npus),
        own,
        source,
    )


def _unsaid(pid: int, uses: Uses, held: Mapping[int, Held], stats: Mapping[int, Stat]) -> bool:
    """A live process of which no client's fdinfo names memory: KFD's count may stand in, and is never added."""
    if pid in held:  # by its own descriptors, whomever a shared one's memory is given to
        cards = (client for client in uses.users[pid].clients if not client.npu)
        return all(client.gtt_bytes is None and client.vram_bytes is None for client in cards)
    return pid in uses.denied and pid in stats and not stats[pid].dead


def _by_kfd(pid: int, used: Mapping[str, int], pools: Mapping[str, str | None], other: Held | None) -> Held:
    """``other``: what its descriptors said, of which the NPU's part stays."""
    in_vram = {card: pools.get(card) == "vram" for card in used}
    clients = tuple(
        Client((card, f"kfd {pid}"), 0 if in_vram[card] else size, size if in_vram[card] else 0)
        for card, size in used.items()
    )
    npus = tuple(client for client in other.clients if client.npu) if other else ()
    resources = (other.resources if other else frozenset()) | {"gpu"}
    silent = frozenset({"npu"} if other is not None and other.npu_bytes is None else ())
    return _held(resources, (*clients, *npus), silent, "kfd")


def total(sizes: Iterable[int | None]) -> int | None:
    """The sum; ``None`` as soon as one part is not known."""
    result = 0
    for size in sizes:
        if size is None:
            return None
        result += size
    return result
