"""A payload in a pid namespace of its own: when its first process ends, the kernel ends every other.

The only means that needs nobody alive: the first process watches supervisor and keeper, and when both have been
killed it ends the payload by itself (pid_namespaces(7), user_namespaces(7)). Between keeper and payload stand two
processes: a *face* outside, which is the payload's root to everybody (it stops and ends as the command does), and
the *first process* inside, which reaps.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Collection
from typing import NoReturn

from holdtop.lean import dataclass
from holdtop.payload import linux
from holdtop.payload.ending import Reaper
from holdtop.payload.signals import SignalInbox, ready

#: A wait status is told in this many bytes.
_STATUS = 4


@dataclass(frozen=True, slots=True)
class Namespace:
    """The namespace of one payload, made by its root before it execs."""

    #: Pidfds of supervisor and keeper.
    guardians: Collection[int]
    #: Seconds from TERM until the first process ends with all others, once both guardians are dead.
    grace: float

    def enter(self) -> None:
        """Returns in the process that is to exec, inside. Raises ``OSError`` where the kernel allows none.

        Two processes of the hold stay behind and never return; all signals are blocked in both.
        """
        _unshare()
        told, tell = os.pipe2(os.O_CLOEXEC)
        first = os.fork()
        if first:
            _alone(keep=(told,))
            _face(first, told)
        linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
        root = os.fork()
        if root:
            _alone(keep=(tell, *self.guardians))
            self._watch(root, tell)

    def _watch(self, root: int, tell: int) -> NoReturn:
        """The first process: reap, tell the face of its command, and outlive no guardian."""
        inbox = SignalInbox((signal.SIGCHLD,), hup_ignored=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD,))
        reaper = Reaper(root)
        told = False
        alive = set(self.guardians)
        end_at: float | None = None
        while not reaper.childless and (end_at is None or time.monotonic() < end_at):
            ended = ready((inbox.fd, *alive), 3600.0 if end_at is None else end_at - time.monotonic())
            inbox.drain()
            reaper.reap()
            if reaper.root_stopped_by is not None:
                _tell(tell, reaper.root_stopped_by << 8 | 0x7F)
                reaper.root_stopped_by = None
            if reaper.root_wait_status is not None and not told:
                told = True
                _tell(tell, reaper.root_wait_status)
            alive.difference_update(ended)
            if not alive and end_at is None:
                end_at = time.monotonic() + self.grace
                with contextlib.suppress(OSError):
                    os.kill(-1, signal.SIGTERM)  # all inside but ourselves
                    os.kill(-1, signal.SIGCONT)
        os._exit(0)


def _unshare() -> None:
    """A pid and a mount namespace; for anybody but root in a user namespace with the same ids."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        linux.unshare(linux.CLONE_NEWPID | linux.CLONE_NEWNS)
    else:
        linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWPID | linux.CLONE_NEWNS)
        for name, text in (("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    # Mounts that the host makes later are still seen.
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_SLAVE)


def _alone(keep: Collection[int]) -> None:
    """Close what was inherited: the life sign and the payload's output above all."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    low = 3
    for fd in sorted(keep):
        os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _tell(fd: int, wait_status: int) -> None:
    with contextlib.suppress(OSError):  # the face was killed: the keeper knows
        os.write(fd, wait_status.to_bytes(_STATUS, "little"))


def _face(first: int, told: int) -> NoReturn:
    """Stop as the command stops, and end as it ends."""
    while len(data := os.read(told, _STATUS)) == _STATUS:
        status = int.from_bytes(data, "little")
        if not os.WIFSTOPPED(status):
            _end_like(status)
        _do(os.WSTOPSIG(status))
    _end_like(os.waitpid(first, 0)[1])


def _end_like(wait_status: int) -> NoReturn:
    if os.WIFSIGNALED(wait_status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the command's own core is the one that tells something
        _do(os.WTERMSIG(wait_status))
    os._exit(os.waitstatus_to_exitcode(wait_status) & 0xFF)


def _do(signum: int) -> None:
    """Stop or die of a signal, as its default is."""
    with contextlib.suppress(OSError):  # KILL and STOP have no other
        signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signum,))
    signal.pthread_sigmask(signal.SIG_BLOCK, (signum,))
