"""Somebody typing at a terminal of its own, for the tests."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import shutil
import signal
import time
from collections.abc import Sequence

from tests.hold.lanes import HOLDTOP, Box


class Typist:
    """A program on a terminal of its own, and somebody typing."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "ready> "
            os.execvp(argv[0], list(argv))
        self.seen = ""
        self.wait_status: int | None = None

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def read_until(self, text: str, seconds: float = 15) -> str:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} was never shown; seen: {self.seen!r}"
            if select.select((self.fd,), (), (), 0.1)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
        return self.seen

    def forget(self) -> None:
        self.seen = ""

    def ended(self, seconds: float = 15) -> int:
        """The wait status; the terminal is drained meanwhile, so that nobody blocks on it."""
        deadline = time.monotonic() + seconds
        while self.wait_status is None:
            assert time.monotonic() < deadline, f"it never ended; seen: {self.seen!r}"
            if select.select((self.fd,), (), (), 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.seen += os.read(self.fd, 65536).decode(errors="replace")
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.wait_status = status
        return self.wait_status

    def close(self) -> None:
        if self.wait_status is None:
            os.kill(self.pid, signal.SIGHUP)
            with contextlib.suppress(AssertionError):
                self.ended(5)
        os.close(self.fd)


def hold(state: Box, *command: str) -> list[str]:
    return [*HOLDTOP, "run", "--state-dir", str(state.state), "--grace", "1", "--", *command]


#: Interactive, without anybody's start-up files.
SHELLS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "dash": ["dash", "-i"],
    "zsh": ["zsh", "-f", "-i", "+Z"],
}
INSTALLED = [name for name in SHELLS if shutil.which(name)]


def shell(typists: list[Typist], name: str = "bash") -> Typist:
    typist = Typist(SHELLS[name])
    typists.append(typist)
    typist.read_until("ready> ")
    typist.forget()
    return typist
