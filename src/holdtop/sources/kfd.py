"""What KFD says of the processes that opened ``/dev/kfd``: readable for everybody, also where fdinfo is closed.

``/sys/class/kfd/kfd/proc/PID/vram_GPU`` (kfd_process.c) counts the bytes allocated with the VRAM flag, wherever an
APU places them; memory that was asked for as GTT or pinned by the user is not in it. A pid is listed from its first
opening to its exit, so a row of zeros is no user. Pids are those of the initial namespace.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from holdtop.sources.files import BYTES, listing, number, read_text
from holdtop.sources.roots import Roots

_ROOT = "class/kfd/kfd"
WHOLE = re.compile(r"[0-9]{1,19}")
Nodes = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Kfd:
    """All that is asked of it, at once."""

    #: Properties of each card by its PCI address.
    nodes: Nodes = field(default_factory=dict)
    #: Bytes by pid and by the card's PCI address.
    used: Mapping[int, Mapping[str, int]] = field(default_factory=dict)


def ask(roots: Roots) -> Kfd:
    """A recording's pids mean nothing in the live table: then nobody uses anything."""
    found = nodes(roots.sys)
    return Kfd(found, used(roots.sys, found) if roots.live is (roots.sys == "/sys") else {})


def nodes(sys: str) -> Nodes:
    """The properties of each card by its PCI address, with its ``gpu_id``; nodes without one are processors."""
    found = {}
    topology = os.path.join(sys, _ROOT, "topology/nodes")
    for node in listing(topology):
        lines = read_text(os.path.join(topology, node, "properties")).splitlines()
        said = dict(line.partition(" ")[::2] for line in lines)
        address = _address(said)
        if address and said.get("simd_count", "0") != "0":
            found[address] = {**said, "gpu_id": read_text(os.path.join(topology, node, "gpu_id"))}
    return found


def _address(said: Mapping[str, str]) -> str | None:
    """``location_id`` is bus << 8 | device << 3 | function (kfd_topology.c)."""
    domain, place = said.get("domain", "0"), said.get("location_id", "")
    if not WHOLE.fullmatch(domain) or not WHOLE.fullmatch(place):
        return None
    where = int(place)
    return f"{int(domain):04x}:{where >> 8:02x}:{where >> 3 & 31:02x}.{where & 7}"


def used(sys: str, known: Nodes) -> dict[int, dict[str, int]]:
    """Bytes by pid and by the card's PCI address; zeros are left out."""
    cards = {said["gpu_id"]: address for address, said in known.items() if said["gpu_id"]}
    found: dict[int, dict[str, int]] = {}
    processes = os.path.join(sys, _ROOT, "proc")
    for name in filter(WHOLE.fullmatch, listing(processes)):
        for gpu_id, address in cards.items():
            size = number(os.path.join(processes, name, f"vram_{gpu_id}"), BYTES).value
            if size:
                found.setdefault(int(name), {})[address] = int(size)
    return found
