"""Device memory by process: each DRM client counted once on the whole box.

A descriptor that was duplicated, inherited or passed over a socket shows the same client again, in the same process
or in another. It is given to one process: the one with most descriptors of it, and never to a session's manager,
which keeps descriptors for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdtop.model.raw import Client, Stat, Uses

_KEEPERS = frozenset({"systemd", "systemd-logind", "init"})


@dataclass(frozen=True, slots=True)
class Held:
    """What one process holds; ``None`` where a client's fdinfo does not say."""

    resources: frozenset[str]
    gtt_bytes: int | None
    vram_bytes: int | None
    #: Clients that are its own by the rule above.
    clients: tuple[Client, ...]

    @property
    def device_bytes(self) -> int | None:
        """What is known of both together: at least so much. ``None`` when neither is known."""
        if self.gtt_bytes is None and self.vram_bytes is None:
            return None
        return (self.gtt_bytes or 0) + (self.vram_bytes or 0)


def attribute(uses: Uses, stats: Mapping[int, Stat]) -> dict[int, Held]:
    """By pid. A user whose pid belongs to another process by now is left out."""
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
            best[client.key] = _larger(best.get(client.key, client), client)
    held = {}
    for pid, user in users.items():
        own = tuple(best[client.key] for client in user.clients if owners[client.key][2] == -pid)
        held[pid] = Held(
            user.resources, total(client.gtt_bytes for client in own), total(client.vram_bytes for client in own), own
        )
    return held


def _larger(one: Client, other: Client) -> Client:
    return max(one, other, key=lambda client: (client.gtt_bytes or 0) + (client.vram_bytes or 0))


def total(sizes: Iterable[int | None]) -> int | None:
    """The sum; ``None`` as soon as one part is not known."""
    result = 0
    for size in sizes:
        if size is None:
            return None
        result += size
    return result
