"""Starting the payload's root: its own group, plain dispositions, none of our descriptors.

The caller has all signals in an inbox, so there is no instant at which the root exists and nobody would end it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

from holdtop.lean import dataclass, field
from holdtop.payload.namespace import Namespace
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

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)

    @classmethod
    def of(cls, command: Command, number: int, step: str) -> LaunchError:
        """From the errno that the child told, and the step of our own that failed, if it was one."""
        if step:
            return cls(125, f"{step}: {os.strerror(number)}")
        status = 127 if number == errno.ENOENT or not command.argv[0] else 126
        return cls(status, f"{command.argv[0]}: {os.strerror(number)}")


def start(
    command: Command,
    *,
    terminal_fd: int | None,
    hup_ignored: bool,
    fork: Callable[[], int] = os.fork,
    place: Callable[[Identity], None] = lambda _root: None,
    namespace: Namespace | None = None,
) -> Identity:
    """``fork``, let ``place`` put the child where it belongs, and exec the root, in ``namespace`` if there is one.

    Raises ``LaunchError``, and whatever ``place`` raises; the child has then been reaped and nothing was executed.
    """
    said, say = os.pipe2(os.O_CLOEXEC)
    placed, tell = os.pipe2(os.O_CLOEXEC)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = fork()
        if pid == 0:
            os.close(tell)
            _become(command, placed, say, terminal_fd, hup_ignored, namespace)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(say)
        os.close(placed)
    with os.fdopen(said, "rb") as answer, os.fdopen(tell, "wb", buffering=0) as go:
        with contextlib.suppress(OSError):  # the child does the same; whoever comes first
            os.setpgid(pid, pid)
        stat = read_stat(pid)
        root = stat.identity if stat else Identity(pid, 0)
        try:
            place(root)
            with contextlib.suppress(BrokenPipeError):  # it has been killed already
                go.write(b"1")
        except BaseException:
            go.close()
            os.waitpid(pid, 0)
            raise
        number = answer.read()
    if number:
        os.waitpid(pid, 0)
        code, _, step = number.decode().partition(" ")
        raise LaunchError.of(command, int(code), step)
    return root


def unprotect(pid: int, proc: str = "/proc") -> str | None:
    """Never protect a payload from the OOM killer: a score below 0 becomes 0, any other stays.

    Gives a sentence when that could not be done (proc_pid_oom_score_adj(5)).
    """
    path = f"{proc}/{pid}/oom_score_adj"
    try:
        with open(path, "rb") as file:
            score = int(file.read())
        if score < 0:
            with open(path, "wb", buffering=0) as file:
                file.write(b"0")
    except (OSError, ValueError) as error:
        return f"the payload may be protected from the OOM killer as this hold is: {path}: {error}"
    return None


def _become(
    command: Command, placed: int, say: int, terminal_fd: int | None, hup_ignored: bool, namespace: Namespace | None
) -> NoReturn:
    """The child, up to exec. It can only leave by exec or ``_exit``."""
    step = ""
    try:
        os.setpgid(0, 0)
        if not os.read(placed, 1):
            os._exit(127)  # whoever started us is gone, or could not place us: nothing is executed
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
        step = "--contain pidns"
        if namespace:
            namespace.enter()
        step = ""
        signal.set_wakeup_fd(-1)
        reset_for_payload(hup_ignored)
        os.execvpe(command.argv[0], list(command.argv), {**os.environ, **command.marks})
    except OSError as error:
        os.write(say, f"{error.errno} {step}".encode())
    except BaseException:  # noqa: BLE001  the child may leave by exec or _exit only
        os.write(say, str(errno.EINVAL).encode())
    os._exit(127)
