"""The box as far as every hold needs it: kernel, cgroups, inotify, clock, the disk of the state directory."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterator
from datetime import datetime

from holdtop.hold import places
from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Unlooked
from holdtop.payload import linux
from holdtop.payload.cgroup import Cgroup
from holdtop.render import bytes_text
from holdtop.sources import machine
from holdtop.sources.files import read_text
from holdtop.systemd import UserScopes

#: What came with which kernel: (version, what is lost before it).
_KERNELS = (
    ((5, 4), "nothing can be held: signals need pidfds"),
    ((5, 14), "which process has what of the device's memory is not shown (fdinfo)"),
)
#: A queue's files are small: it stops when there is no room for one, and a log needs a little.
ENOUGH_BYTES = 64 * 1024**2
ENOUGH_INODES = 1000
#: The kernel's default; each waiting hold takes one.
INSTANCES = 128
#: This program is not older: a clock that says so was never set.
_YEAR = 2025


def box(case: Case) -> Iterator[Said]:
    yield from kernel(case)
    yield cgroups(Cgroup.of(os.getpid()), UserScopes().why_not())
    yield inotify(case.roots.proc)
    yield clock(datetime.now().astimezone())
    if case.snapshot.boot_id is None:
        yield Unlooked("boot", "the boot's id", "/proc/sys/kernel/random/boot_id cannot be read")
    yield disk(case.state_dir)


def kernel(case: Case) -> Iterator[Said]:
    release = machine.release(case.roots.proc)
    if release is None:
        yield Unlooked("kernel", "the kernel's release", "sys/kernel/osrelease cannot be read")
        return
    driver = machine.module_version(case.roots.sys, "amdgpu")
    own = f"amdgpu {driver}, built beside the kernel" if driver else "amdgpu of the kernel's own"
    yield Fact("kernel", f"Linux {release}" + (f", {own}" if machine.loaded(case.roots.sys, "amdgpu") else ""))
    found = machine.version(release)
    for needed, lost in _KERNELS:
        if found is not None and found < needed:
            major, minor = needed
            yield Finding("old-kernel", f"Linux {release} is older than {major}.{minor}", lost, "boot a newer kernel")


def cgroups(home: Cgroup | None, no_scope: str | None) -> Said:
    """Whether a hold that starts from here can have a cgroup (``payload.containment``); it works without one, too."""
    if home is not None and home.writable:
        return Fact("cgroup", f"a hold from here has a cgroup of its own, below {home.path}")
    if home is not None and no_scope is None:
        return Fact("cgroup", "a hold from here has a cgroup of its own, a scope of the user's service manager")
    why = "a payload is kept together by descent and mark alone: no freeze, no end in one step, no --contain cgroup"
    if home is None:
        what = "no version 2 cgroup hierarchy is mounted here that shows this process's own cgroup"
        remedy = "boot with systemd.unified_cgroup_hierarchy=1; a container needs a cgroup namespace that is writable"
    else:
        what = f"the cgroup {home.path} is not delegated to this account, and {no_scope}"
        remedy = "Delegate=yes in the unit that starts holds (systemctl edit UNIT); or log in, so that there is a bus"
    return Finding("no-cgroup", what, why, remedy)


def inotify(proc: str) -> Said:
    """A waiting hold sleeps on its predecessors by inotify; without an instance it looks every few seconds."""
    path = os.path.join(proc, "sys/fs/inotify/max_user_instances")
    limit = read_text(path)
    why = "waiting holds look now and then instead of waking at once"
    remedy = "echo fs.inotify.max_user_instances=1024 | sudo tee /etc/sysctl.d/50-inotify.conf && sudo sysctl --system"
    try:
        os.close(linux.inotify_open())
    except OSError as error:
        if error.errno != errno.EMFILE:
            return Unlooked("inotify", "whether a file can be watched", f"inotify_init1: {error.strerror}")
        return Finding(
            "no-inotify", f"this account has no inotify instance left (of {limit or 'unknown'})", why, remedy
        )
    if not limit.isdecimal():
        return Unlooked("inotify", "how many inotify instances an account has", f"{path} cannot be read")
    if int(limit) < INSTANCES:
        return Finding("few-inotify", f"an account has {limit} inotify instances, less than {INSTANCES}", why, remedy)
    return Fact("inotify", f"an account has {limit} inotify instances, and there is one left")


def clock(now: datetime) -> Said:
    """Deadlines and boots are told by the kernel's own clocks; the wall's is in every record."""
    if now.year >= _YEAR:
        return Fact("clock", f"the clock says {now.isoformat(timespec='seconds')}")
    what = f"the clock says {now.date().isoformat()}, before this program was written"
    return Finding("clock", what, "records, receipts and the audit carry that date", "sudo timedatectl set-ntp true")


def disk(state_dir: str | None) -> Said:
    """Room where the queue lies. Raises ``HoldtopError`` when that cannot be resolved."""
    directory = places.resolve("gpu", state_dir).queue_parent
    room = os.statvfs(directory)
    free = room.f_bavail * room.f_frsize
    left = f"{directory}: {bytes_text(free)} free"
    few = room.f_files and room.f_favail < ENOUGH_INODES  # some file systems do not count them
    if free >= ENOUGH_BYTES and not few:
        return Fact("disk", left)
    what = f"{left}, {room.f_favail} files more" if few else left
    why = "no ticket and no record can be written: holds refuse to start, and an end is not recorded"
    return Finding(
        "disk", what, why, f"df -h {shlex.quote(directory)}; df -i {shlex.quote(directory)}  # and free some of it"
    )
