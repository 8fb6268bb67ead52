"""Who has a device open: one scan of all processes' descriptors.

A descriptor is known by the *number* of the device it leads to (226 DRM, 261 accel: the kernel's devices.txt), since
containers rename nodes; looking at a number opens nothing. In an overlay, where the links lead nowhere, the link's
text decides.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

from holdtop.model.raw import Client, DeviceUser, Stat, Uses
from holdtop.sources import fdinfo, kfd
from holdtop.sources.files import listing, read
from holdtop.sources.processes import read_stat
from holdtop.sources.roots import Roots

_MAJORS = {226: "gpu", 261: "npu"}
#: By name: KFD has no number of its own (its major is allotted at boot), and so have an overlay's nodes.
_NODES = (("/dev/dri/renderD", "gpu"), ("/dev/dri/card", "gpu"), ("/dev/accel/accel", "npu"))
_KFD = "/dev/kfd"
#: Where device nodes lie, in containers too.
DEVICE_ROOTS = ("/dev/",)
#: A recording without links: a user of the GPU if its fdinfo says so.
_UNLINKED = "gpu?"


def scan(roots: Roots, pids: Collection[int] | None = None) -> Uses:
    """Device users and the processes that may not be looked into. Costs a readlink for each descriptor there is.

    ``pids``: look into these alone.
    """
    users: dict[int, DeviceUser] = {}
    denied: set[int] = set()
    for name in listing(roots.proc) if pids is None else map(str, sorted(pids)):
        if name.isascii() and name.isdecimal():
            stat = read_stat(roots.proc, int(name))
            if stat is None or stat.kernel or stat.dead:
                continue
            try:
                user = _look_into(roots, stat)
            except PermissionError:
                denied.add(stat.pid)
            else:
                if user is not None:
                    users[stat.pid] = user
    one_box = roots.live is (roots.sys == "/sys")  # a recording's pids mean nothing in the live table
    return Uses(users, frozenset(denied), time.monotonic(), kfd.used(roots.sys) if one_box and pids is None else {})


def _look_into(roots: Roots, stat: Stat) -> DeviceUser | None:
    """Raises ``PermissionError`` when this account may not."""
    base = os.path.join(roots.proc, str(stat.pid))
    if roots.overlay and os.path.isdir(laid_over := os.path.join(roots.overlay, str(stat.pid))):
        base = laid_over
    recorded = base != f"/proc/{stat.pid}"
    resources: set[str] = set()
    clients: dict[tuple[str, str], Client] = {}
    for number in _descriptors(base):
        kind = _kind(f"{base}/fd/{number}", recorded)
        client = _client(f"{base}/fdinfo/{number}", stat.pid) if kind else None
        if client is not None:
            clients[client.key] = merge(clients.get(client.key), client)
        if kind and (client or kind != _UNLINKED):
            resources.add(kind.removesuffix("?"))
    if not resources:
        return None
    again = read_stat(roots.proc, stat.pid)
    if again is None or again.start_ticks != stat.start_ticks:
        return None  # another process by now
    return DeviceUser(stat.pid, stat.start_ticks, frozenset(resources), tuple(clients.values()))


def _descriptors(base: str) -> Iterator[str]:
    for folder in ("fd", "fdinfo"):  # a recording may have fdinfo alone
        try:
            names = os.listdir(f"{base}/{folder}")
        except PermissionError:
            raise
        except OSError:
            continue
        yield from sorted(filter(str.isdecimal, names), key=int)
        return


def _kind(link: str, recorded: bool) -> str | None:
    """``gpu`` or ``npu`` when the descriptor leads to such a device."""
    try:
        target = os.readlink(link)
    except PermissionError:
        raise
    except OSError:
        return _UNLINKED if recorded and not os.path.lexists(link) else None
    if not target.startswith("/"):
        return None  # a socket, a pipe
    if not recorded and not target.startswith(DEVICE_ROOTS):
        return None  # a look at a foreign file could hang on its file system; containers rename within /dev
    by_name = "gpu" if target == _KFD else next((kind for node, kind in _NODES if target.startswith(node)), None)
    try:
        status = os.stat(link)
    except OSError:
        return by_name
    if by_name and (recorded or target == _KFD):
        return by_name
    return _MAJORS.get(os.major(status.st_rdev)) if modes.S_ISCHR(status.st_mode) else None


def _client(path: str, pid: int) -> Client | None:
    try:
        return fdinfo.parse(read(path), pid)
    except OSError:
        return None


def merge(one: Client | None, other: Client) -> Client:
    """Two descriptors of one client are one client. They were read at two instants: the larger figure counts."""
    if one is None:
        return other
    return replace(
        one,
        gtt_bytes=_larger(one.gtt_bytes, other.gtt_bytes),
        vram_bytes=_larger(one.vram_bytes, other.vram_bytes),
        gtt_shared_bytes=max(one.gtt_shared_bytes, other.gtt_shared_bytes),
        vram_shared_bytes=max(one.vram_shared_bytes, other.vram_shared_bytes),
        descriptors=one.descriptors + other.descriptors,
    )


def _larger(one: int | None, other: int | None) -> int | None:
    return max((size for size in (one, other) if size is not None), default=None)
