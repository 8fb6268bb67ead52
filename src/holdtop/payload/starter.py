"""The process that started the hold, watched by a pidfd taken first of all.

Killed by INT, TERM or KILL: its job was cancelled, and the hold ends with it (a CI runner signals only the outer
shell). A normal exit (``cmd & exit``) ends nothing. HUP follows the ``nohup`` rule.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from holdtop.payload.custody import End
from holdtop.payload.linux import exit_wait_status

#: How long to wait for the kernel to know how the starter died, in seconds: it knows once somebody reaped it.
REAP_WAIT = 2.0


class Starter:
    """The parent at the time of the call. ``fd`` becomes readable when it ends; ``None`` when it has no pidfd."""

    def __init__(self, *, die_with_parent: bool, hup_ignored: bool) -> None:
        self.pid = os.getppid()
        self.fd: int | None = None
        self._die_with_parent = die_with_parent
        self._fatal = {signal.SIGINT, signal.SIGTERM, signal.SIGKILL}
        if not hup_ignored:
            self._fatal.add(signal.SIGHUP)
        self._ended_at: float | None = None
        if self.pid > 1:
            with contextlib.suppress(OSError):
                self.fd = os.pidfd_open(self.pid)
            if os.getppid() != self.pid:
                # It died before it could be watched; nobody can tell how any more.
                self.close()

    def check(self) -> End | None:
        """Whether the starter's end ends the hold. Call when ``fd`` is readable, and again until it is ``None``."""
        if self.fd is None:
            return None
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        status = self._wait_status()
        if status is None and time.monotonic() - self._ended_at < REAP_WAIT:
            return None
        self.close()
        if status is None:
            if self._die_with_parent:
                return End("starter-gone", 143, f"the process that started this hold (pid {self.pid}) is gone")
            return None
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in self._fatal:
            signum = signal.Signals(os.WTERMSIG(status))
            text = f"the process that started this hold (pid {self.pid}) was killed by {signum.name}"
            return End("starter-killed", 128 + (signum if signum != signal.SIGKILL else signal.SIGTERM), text)
        return None

    @property
    def ended(self) -> bool:
        """It has ended and the verdict is still out: ask ``check`` again soon."""
        return self.fd is not None and self._ended_at is not None

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def _wait_status(self) -> int | None:
        assert self.fd is not None
        told = exit_wait_status(self.fd)
        if told is not None:
            return told
        # A zombie shows its exit status as the last field of stat (proc_pid_stat(5), field 52).
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read(4096).rpartition(b")")[2].split()
            if fields[0] == b"Z":
                return int(fields[49])
        return None
