"""Who has a device open: one scan of all processes' descriptors.

A descriptor is known by the *number* of the device it leads to (226 DRM, 261 accel: the kernel's devices.txt), since
containers rename nodes; looking at a number opens nothing. In an overlay, where the links lead nowhere, the link's
text decides.
"""

from __future__ import annotations

import os
import stat as modes
import time
from collections.abc import Collection
from typing import TypeGuard

from holdtop.model.raw import Client, DeviceUser, Stat, Uses
from holdtop.sources import fdinfo
from holdtop.sources.files import listing, read
from holdtop.sources.processes import hides_others, read_stat
from holdtop.sources.roots import Roots

_MAJORS = {226: "gpu", 261: "npu"}
#: By name: KFD has no number of its own (its major is allotted at boot), and so have an overlay's nodes.
_NODES = (("/dev/dri/renderD", "gpu"), ("/dev/dri/card", "gpu"), ("/dev/accel/accel", "npu"))
_KFD = "/dev/kfd"
#: Where device nodes lie; containers rename them within.
DEVICE_ROOTS = ("/dev/",)
#: A recording without links: a user of what its fdinfo names.
_UNLINKED = "?"


def scan(roots: Roots, pids: Collection[int] | None = None) -> Uses:
    """Device users and the processes that may not be looked into. Costs a readlink for each descriptor there is.

    What KFD counts is not in it: that is asked apart, as it may hang.

    ``pids``: look into these alone.
    """
    users: dict[int, DeviceUser] = {}
    denied: set[int] = set()
    for name in listing(roots.proc) if pids is None else map(str, sorted(pids)):
        if name.isascii() and name.isdecimal():
            pid = int(name)
            try:
                user = _look_into(roots, pid)
            except PermissionError:
                stat = read_stat(roots.proc, pid)
                if _may_have_devices(stat) or (stat is None and os.path.isdir(f"{roots.proc}/{pid}")):
                    denied.add(pid)  # with hidepid=1 not even its line of stat can be read
            else:
                if user is not None:
                    users[pid] = user
    return Uses(users, frozenset(denied), time.monotonic(), hidden=roots.live and hides_others())


def _may_have_devices(stat: Stat | None) -> TypeGuard[Stat]:
    return stat is not None and not stat.kernel and not stat.dead


def _look_into(roots: Roots, pid: int) -> DeviceUser | None:
    """Its links first: of most processes that is all. Raises ``PermissionError`` when this account may not."""
    base = _shown(roots, pid)
    before = read_stat(roots.proc, pid) if base else None
    if base is None or not _may_have_devices(before):
        return None
    user = _user(base, before)
    after = read_stat(roots.proc, pid)
    return user if after and after.start_ticks == before.start_ticks else None  # another process by now


def _shown(roots: Roots, pid: int) -> str | None:
    """The directory in which a device of the process shows; ``None``: it has none.

    A process whose first thread has ended shows no descriptor but in the directories of its other threads.
    """
    base = f"{roots.proc}/{pid}"
    if roots.overlay and os.path.isdir(laid_over := os.path.join(roots.overlay, str(pid))):
        base = laid_over
    devices = _devices(base)
    if devices is None:
        threads = (f"{base}/task/{thread}" for thread in listing(f"{base}/task"))
        return next(filter(_devices, threads), None)
    return base if devices else None


def _user(base: str, stat: Stat) -> DeviceUser | None:
    resources: set[str] = set()
    clients: dict[tuple[str, str], Client] = {}
    for number, kind in sorted((_devices(base) or {}).items()):
        client = _client(f"{base}/fdinfo/{number}", stat.pid)
        if client is not None and client.foreign:
            continue
        if client is not None:
            known = clients.get(client.key)
            clients[client.key] = known.merged(client) if known else client
        if kind != _UNLINKED:
            resources.add(kind)
        elif client:
            resources.add("npu" if client.npu else "gpu")
    return DeviceUser(stat.pid, stat.start_ticks, frozenset(resources), tuple(clients.values())) if resources else None


def _devices(base: str) -> dict[str, str] | None:
    """Descriptors that lead to a device, with its kind; ``None`` when there is no descriptor at all."""
    recorded = not base.startswith("/proc/")
    for folder in ("fd", "fdinfo") if recorded else ("fd",):  # a recording may have fdinfo alone
        try:
            links = os.open(f"{base}/{folder}", os.O_RDONLY | os.O_DIRECTORY)
        except PermissionError:
            raise
        except OSError:
            continue
        try:
            kinds = {number: _kind(number, recorded, links) for number in os.listdir(links)}
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ends
        finally:
            os.close(links)
        return {number: kind for number, kind in kinds.items() if kind} if kinds else None
    return None


def _kind(link: str, recorded: bool, folder: int | None = None) -> str | None:
    """``gpu`` or ``npu`` when the descriptor leads to such a device. ``folder``: what ``link`` is relative to."""
    try:
        target = os.readlink(link, dir_fd=folder)
    except PermissionError:
        raise
    except OSError:
        return _UNLINKED if recorded else None
    if not target.startswith("/" if recorded else DEVICE_ROOTS):
        return None  # a socket, a pipe; or a file, at which a look could hang on its file system
    by_name = "gpu" if target == _KFD else next((kind for node, kind in _NODES if target.startswith(node)), None)
    try:
        status = os.stat(link, dir_fd=folder)
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
