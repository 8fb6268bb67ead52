"""Device memory by process: each DRM client counted once on the whole box.

A descriptor that was duplicated, inherited or passed over a socket shows the same client again, in the same process
or in another. It is given to one process: the one with most descriptors of it, and never to a session's manager,
which keeps descriptors for others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from holdtop.model.raw import NAMELESS, Client, DeviceUser, Stat, Uses
from holdtop.model.values import Device, Pool

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
    #: Resources whose driver names no client of it.
    silent: frozenset[str] = frozenset()

    @property
    def least_bytes(self) -> int:
        """Of GPUs' memory it has so much for certain: what is known of all pools together."""
        cards = (client for client in self.clients if not client.npu)
        return sum((client.gtt_bytes or 0) + (client.vram_bytes or 0) for client in cards)

    @property
    def whole(self) -> bool:
        """Whether it has no more of GPUs' memory than that."""
        return self.says("gtt") and self.says("vram")

    def says(self, pool: Pool) -> bool:
        """Whether all of that pool is known; KFD does not count all."""
        size = self.gtt_bytes if pool == "gtt" else self.vram_bytes
        return self.source == "fdinfo" and size is not None

    def on(self, pci_address: str) -> Held:
        """Its part on that device."""
        own = tuple(client for client in self.clients if client.of(pci_address))
        return _held(self.resources, own, self.silent, self.source)


def placed(uses: Uses, devices: Collection[Device]) -> Uses:
    """With each client on its device: where there is one of its kind, it is that one's, whatever fdinfo names."""
    users = {pid: _placed(user, devices) for pid, user in uses.users.items()}
    return replace(uses, users=users)


def _placed(user: DeviceUser, devices: Collection[Device]) -> DeviceUser:
    clients = []
    for client in user.clients:
        there = [one.pci_address for one in devices if (one.resource == "npu") == client.npu]
        if len(there) == 1 and (client.placeless or there[0].startswith(NAMELESS)):
            client = replace(client, key=(there[0], " ".join(client.key)))
        clients.append(client)
    return replace(user, clients=tuple(clients))


def attribute(uses: Uses, stats: Mapping[int, Stat], devices: Collection[Device]) -> dict[int, Held]:
    """By pid. A user whose pid belongs to another process by now is left out.

    ``devices``: of a card the pool is where KFD's memory lies.
    """
    pools = {device.pci_address: device.pool for device in devices}
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
        silent,
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


def together(clients: Iterable[Client], pool: str) -> tuple[int, int]:
    """Bytes of the pool that all these clients hold, buffers that they share once; and how much more it may be."""
    by_card: dict[str, list[Client]] = {}
    for client in clients:
        by_card.setdefault(client.key[0], []).append(client)
    parts = [split(of, pool) for of in by_card.values()]
    return sum(alone + shared for alone, shared, _ in parts), sum(more for *_, more in parts)


def split(clients: Collection[Client], pool: str) -> tuple[int, int, int]:
    """What one card's clients hold alone, what they share at least, and how much more that may be.

    Sums do not say who shares what with whom: it may be one buffer of all, as much as one client says. It is half of
    the sum at most, as a buffer is shared by two at least.
    """
    shares = [shared_bytes(client, pool) for client in clients]
    alone, once = sum(pool_bytes(client, pool) for client in clients) - sum(shares), max(shares, default=0)
    return alone, once, max(0, (sum(shares) + 1) // 2 - once)


def pool_bytes(client: Client, pool: str) -> int:
    """Resident bytes in the pool, as far as they are known."""
    return (client.gtt_bytes if pool == "gtt" else client.vram_bytes) or 0


def shared_bytes(client: Client, pool: str) -> int:
    """The part of them that other clients may hold too."""
    return min(client.gtt_shared_bytes if pool == "gtt" else client.vram_shared_bytes, pool_bytes(client, pool))
