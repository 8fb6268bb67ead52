"""Starting the payload's root: its own group, plain dispositions, none of our descriptors.

The caller has all signals in an inbox, so there is no instant at which the root exists and nobody would end it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from holdtop.payload.process import Identity, read_stat
from holdtop.payload.signals import reset_for_payload


@dataclass(frozen=True, slots=True)
class Command:
    """What is started, and how."""

    argv: Sequence[str]
    #: Added to the environment: the marks by which the payload is found again.
    marks: Mapping[str, str] = field(default_factory=dict)
    #: Niceness added, as nice(1); 0 for none.
    nice: int = 0
    #: CPUs it may run on; empty for all that we may.
    cpus: frozenset[int] = frozenset()
    #: An open file that becomes stdout and stderr, or ``None``.
    log_fd: int | None = None


class LaunchError(Exception):
    """The command could not be executed; ``status`` is 127 (not found) or 126, 125 when it was our preparation."""

    def __init__(self, command: Command, error: OSError, step: str = "") -> None:
        self.status = 127 if error.errno == errno.ENOENT or not command.argv[0] else 126
        if step:
            self.status = 125
        super().__init__(f"{step or command.argv[0]}: {error.strerror}")


def start(command: Command, *, terminal_fd: int | None, hup_ignored: bool) -> Identity:
    """Fork and exec the root. Raises ``LaunchError``; the child has then been reaped."""
    said, say = os.pipe2(os.O_CLOEXEC)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become(command, say, terminal_fd, hup_ignored)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(say)
    with contextlib.suppress(OSError):  # the child does the same; whoever comes first
        os.setpgid(pid, pid)
    stat = read_stat(pid)
    with os.fdopen(said, "rb") as answer:
        number = answer.read()
    if number:
        os.waitpid(pid, 0)
        code, _, step = number.decode().partition(" ")
        raise LaunchError(command, OSError(int(code), os.strerror(int(code))), step)
    return stat.identity if stat else Identity(pid, 0)


def _become(command: Command, say: int, terminal_fd: int | None, hup_ignored: bool) -> NoReturn:
    """The child, up to exec. It can only leave by exec or ``_exit``."""
    step = ""
    try:
        os.setpgid(0, 0)
        if terminal_fd is not None:
            # TTOU is still ignored here: a background process may otherwise not hand the terminal over.
            with contextlib.suppress(OSError):
                os.tcsetpgrp(terminal_fd, os.getpid())
        if command.log_fd is not None:
            os.dup2(command.log_fd, 1)
            os.dup2(command.log_fd, 2)
        step = "--nice"
        os.nice(command.nice)
        step = "--cpus"
        if command.cpus:
            os.sched_setaffinity(0, command.cpus)
        step = ""
        signal.set_wakeup_fd(-1)
        reset_for_payload(hup_ignored)
        os.execvpe(command.argv[0], list(command.argv), {**os.environ, **command.marks})
    except OSError as error:
        os.write(say, f"{error.errno} {step}".encode())
    except BaseException:  # noqa: BLE001  the child may leave by exec or _exit only
        os.write(say, str(errno.EINVAL).encode())
    os._exit(127)
