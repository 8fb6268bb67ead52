"""What a process *is*: (pid, start time), held by a pidfd. A pid alone is only a name.

Source of all facts: ``/proc/PID/stat`` (proc_pid_stat(5)), read as if an enemy had written the name in it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import time
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from holdtop.lean import dataclass
from holdtop.payload import linux

#: No pid is larger (PID_MAX_LIMIT, include/linux/threads.h).
PID_LIMIT = 1 << 22


@dataclass(frozen=True, slots=True)
class Identity:
    """A process for as long as the machine is up: its pid and start time in clock ticks since boot."""

    pid: int
    start_ticks: int


#: What this process or the box lacks for now; it says nothing about what was to be looked at.
WANTS = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

PF_FORKNOEXEC = 0x40  # include/linux/sched.h; the flags of proc_pid_stat(5)


class Stat(NamedTuple):
    """The fields of ``/proc/PID/stat`` that a hold needs."""

    pid: int
    name: str
    state: str
    ppid: int
    pgrp: int
    session: int
    threads: int
    start_ticks: int
    #: Forked, and has executed nothing since: it has its parent's handlers, and what they write to.
    unexecuted: bool

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_ticks)

    @property
    def dead(self) -> bool:
        """A zombie with no other thread. A zombie *leader* whose threads run is alive."""
        return self.state in "ZXx" and self.threads <= 1


class UnreadableProcess(Exception):
    """The process exists, but nothing may be learned about it from here (hidepid, a container)."""


class NoMeansToLook(UnreadableProcess, OSError):
    """For want of a descriptor or of memory, which may pass: it says nothing about the process."""


def parse_stat(raw: bytes) -> Stat:
    """Parse one stat line. The name may hold anything, ``)`` and newlines too: the last ``)`` ends it.

    Raises ``ValueError`` when it is no stat line.
    """
    opening, closing = raw.index(b"("), raw.rindex(b")")
    rest = raw[closing + 2 :].split()
    if len(rest) < 20:
        raise ValueError("stat line is cut short")
    return Stat(
        pid=int(raw[:opening]),
        name=os.fsdecode(raw[opening + 1 : closing]),
        state=os.fsdecode(rest[0]),
        ppid=int(rest[1]),
        pgrp=int(rest[2]),
        session=int(rest[3]),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
        unexecuted=bool(int(rest[6]) & PF_FORKNOEXEC),
    )


def read_at_once(path: str) -> bytes:
    """A small file of ``/proc``, without the objects that ``open`` makes. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096)
    finally:
        os.close(fd)


def read_stat(pid: int) -> Stat | None:
    """The process's stat, or ``None`` when it is gone. Raises ``UnreadableProcess`` when it may not be read."""
    try:
        return parse_stat(read_at_once(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        path = f"/proc/{pid}/stat"
        if error.errno in WANTS:
            raise NoMeansToLook(error.errno, error.strerror, path) from error
        raise UnreadableProcess(f"{path}: {error.strerror}") from error
    except ValueError:
        return None


def scan() -> dict[int, Stat]:
    """Every process that ``/proc`` shows now. A process that ends meanwhile is simply missing. Raises ``OSError``."""
    table: dict[int, Stat] = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = read_stat(int(entry))
        except NoMeansToLook:
            raise
        except UnreadableProcess:
            continue
        if stat:
            table[stat.pid] = stat
    return table


def born(until: float) -> Iterator[Stat]:
    """Each process that starts before ``until`` (CLOCK_MONOTONIC), a millisecond or two after its start.

    One pass over all of ``/proc`` can take longer than a link of a fork chain lives.
    """
    known = {*os.listdir("/proc")}
    while time.monotonic() < until:
        now = {*os.listdir("/proc")}
        for entry in filter(str.isdigit, now - known):
            with contextlib.suppress(UnreadableProcess):
                if stat := read_stat(int(entry)):
                    yield stat
        known = now
        time.sleep(0.001)


def ancestry(stat: Stat) -> Iterator[Stat]:
    """The processes above one, nearest first, as far as they can be read now."""
    with contextlib.suppress(UnreadableProcess):
        while stat.ppid > 0 and (parent := read_stat(stat.ppid)):
            yield parent
            stat = parent


def own_stat() -> Stat:
    """Of this very process. Raises ``UnreadableProcess``."""
    stat = read_stat(os.getpid())
    if stat is None:
        raise UnreadableProcess("/proc does not show this very process")
    return stat


def own_identity() -> Identity:
    return own_stat().identity


def is_alive(identity: Identity) -> bool | None:
    """True: this very process runs. False: proven gone, recycled or dead and unreaped. None: cannot be known.

    An empty ``/proc`` entry proves nothing where ``hidepid`` is set; ``pidfd_open`` tells then.
    """
    try:
        stat = read_stat(identity.pid)
    except UnreadableProcess:
        return None
    if stat is not None:
        return stat.start_ticks == identity.start_ticks and not stat.dead
    try:
        os.close(os.pidfd_open(identity.pid))
    except ProcessLookupError:
        return False
    except OSError:
        # EINVAL is a thread's id: there is no process of that pid.
        return None
    return None


class Pinned:
    """A process held by a pidfd whose start time was checked: signals reach it, or nobody."""

    def __init__(self, identity: Identity) -> None:
        """Raises ``ProcessLookupError`` when that process is gone, whoever has its pid now; ``UnreadableProcess``."""
        if identity.pid <= 1:
            raise PermissionError(errno.EPERM, f"pid {identity.pid} is never signalled")
        self.identity = identity
        try:
            self.fd = os.pidfd_open(identity.pid)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ProcessLookupError(errno.ESRCH, f"{identity.pid} is no process") from error
            raise
        try:
            stat = read_stat(identity.pid)
        except UnreadableProcess:
            self.close()
            raise
        if stat is None or stat.start_ticks != identity.start_ticks:
            self.close()
            raise ProcessLookupError(errno.ESRCH, f"pid {identity.pid} is another process now")

    def send(self, signum: signal.Signals) -> None:
        """Raises ``ProcessLookupError`` or ``PermissionError``."""
        signal.pidfd_send_signal(self.fd, signum)

    def send_group(self, signum: signal.Signals) -> None:
        """Signal the process's whole group in one step; ``OSError`` before Linux 6.9."""
        signal.pidfd_send_signal(self.fd, signum, None, linux.PIDFD_SIGNAL_PROCESS_GROUP)

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> Pinned:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcessTable:
    """One pass over ``/proc``, with the questions a hold asks of it."""

    def __init__(self, stats: dict[int, Stat] | None = None) -> None:
        self.stats = scan() if stats is None else stats

    @cached_property
    def children(self) -> dict[int, list[int]]:
        below: dict[int, list[int]] = {}
        for stat in self.stats.values():
            below.setdefault(stat.ppid, []).append(stat.pid)
        return below

    def descendants(self, pid: int) -> Iterator[int]:
        """Every pid below ``pid``, parents first, ``pid`` itself not included."""
        waiting = list(self.children.get(pid, ()))
        seen = {pid}
        while waiting:
            current = waiting.pop(0)
            if current not in seen:
                seen.add(current)
                yield current
                waiting.extend(self.children.get(current, ()))

    def ancestors(self, pid: int) -> Iterator[int]:
        """The pids above ``pid``, nearest first."""
        seen = {pid}
        while (stat := self.stats.get(pid)) and stat.ppid not in seen and stat.ppid > 0:
            pid = stat.ppid
            seen.add(pid)
            yield pid
