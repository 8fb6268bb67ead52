"""The real program on a real pseudo-terminal; what it writes is kept byte for byte."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENTER_SCREEN, LEAVE_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
MOUSE_OFF = (b"\x1b[?1000l", b"\x1b[?1003l", b"\x1b[?1006l")


def _environ() -> dict[str, str]:
    """Without the size of the runner's own terminal: the pty has one."""
    return {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """A program below a pty of its own session, and everything it has written so far."""

    def __init__(
        self, *arguments: str, size: tuple[int, int] = (120, 40), prefix: tuple[str, ...] = (), **environ: str
    ) -> None:
        self.master, slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *arguments],
            stdin=slave, stdout=slave, stderr=slave, cwd=ROOT, start_new_session=True,
            env=_environ() | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"} | environ,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        self.slave = slave
        self.written = b""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, seconds: float) -> bytes:
        """What comes within so many seconds; it is kept too."""
        fresh = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.master], [], [], left)
            if ready:
                with contextlib.suppress(OSError):
                    fresh += os.read(self.master, 65536)
        self.written += fresh
        return fresh

    def until(self, *wanted: bytes, seconds: float = 15.0) -> None:
        """Read until all of these have been written."""
        end = time.monotonic() + seconds
        while not all(part in self.written for part in wanted):
            assert time.monotonic() < end, f"{wanted!r} never came: {self.written[-2000:]!r}"
            assert self.process.poll() is None, f"ended too early: {self.written[-2000:]!r}"
            self.read(0.05)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def ended_within(self, seconds: float) -> int:
        """The exit status, which must come in time; what is written meanwhile is kept."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, f"still there after {seconds} s"
            self.read(0.02)
        self.read(0.1)
        return self.process.returncode

    def hang_up(self) -> None:
        """The terminal is gone: its window closed, the connection lost."""
        os.close(self.slave)
        os.close(self.master)
        self.master = self.slave = -1

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd >= 0:
                os.close(fd)


@contextlib.contextmanager
def terminal(*arguments: str, **given: object) -> Iterator[Terminal]:
    opened = Terminal(*arguments, **given)  # type: ignore[arg-type]
    try:
        yield opened
    finally:
        opened.close()
