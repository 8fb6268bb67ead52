"""The console on the demo, on a terminal of its own: whatever becomes of it, nothing of the demo is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdtop.payload.process import Stat


@dataclass
class Screen:
    """``holdtop demo`` on a pseudo-terminal of 120 by 40 cells."""

    master: int
    process: subprocess.Popen[bytes]
    shown: bytearray = field(default_factory=bytearray)

    def until(self, ask: Callable[[], bool], seconds: float = 25.0) -> None:
        """Take what is drawn until ``ask`` is true; a terminal that nobody reads would block the console."""
        deadline = time.monotonic() + seconds
        while not ask():
            assert time.monotonic() < deadline, self.shown[-2000:].decode(errors="replace")
            if select.select([self.master], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    self.shown += os.read(self.master, 65536)

    def shows(self, text: str) -> bool:
        return text.encode() in self.shown


@pytest.fixture
def screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm-256color")
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-c", _TAKE_TERMINAL, sys.executable, "-m", "holdtop", "demo"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)
    with process:
        yield Screen(master, process)
        if process.poll() is None:
            process.kill()
    with contextlib.suppress(OSError):
        os.close(master)


#: Makes the pseudo-terminal the controlling one, so that Ctrl-C and a hang-up reach the program.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def _quit(screen: Screen) -> None:
    os.write(screen.master, b"q")


def _kill(screen: Screen) -> None:
    screen.process.kill()


def _terminate(screen: Screen) -> None:
    screen.process.send_signal(signal.SIGTERM)


def _close(screen: Screen) -> None:
    os.close(screen.master)
    screen.master = os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize("leave", [_quit, _kill, _terminate, _close])
def test_leaving_the_console_leaves_nothing(
    screen: Screen, tmp_path: Path, no_leftovers: Callable[[], list[Stat]], leave: Callable[[Screen], None]
) -> None:
    screen.until(lambda: screen.shows("ml-team") and screen.shows("GHOST"))
    assert len(no_leftovers()) > 10
    leave(screen)
    screen.until(lambda: screen.process.poll() is not None)
    screen.until(lambda: not no_leftovers() and not list(tmp_path.iterdir()))


def test_ctrl_c_while_it_is_set_up_leaves_nothing(
    screen: Screen, tmp_path: Path, no_leftovers: Callable[[], list[Stat]]
) -> None:
    screen.until(lambda: screen.shows("setting up") and len(no_leftovers()) > 4)
    os.write(screen.master, b"\x03")
    screen.until(lambda: screen.process.poll() is not None)
    assert screen.process.returncode in (130, -signal.SIGINT)
    assert not screen.shows("Traceback")
    screen.until(lambda: not no_leftovers() and not list(tmp_path.iterdir()))


def test_two_marked_leftovers_end_in_one_dialog(
    screen: Screen, tmp_path: Path, no_leftovers: Callable[[], list[Stat]]
) -> None:
    """The demo's stray, whose pid has to be typed, and its survivor: by the keys alone, and by nobody else's hand."""

    def pid_of(name: bytes) -> int:
        found = re.search(rb"pid (\d+) \(" + name, screen.shown)
        return int(found[1]) if found else 0

    def after(keys: str, text: str) -> None:
        os.write(screen.master, keys.encode())
        screen.until(lambda: screen.shows(text))

    screen.until(lambda: bool(pid_of(b"notebook")))
    after("\x1b[B ", "1 process marked")  # the ghost's flag is the first
    screen.until(lambda: bool(pid_of(b"evaluate")))
    after(" ", "2 processes marked")
    after("k", "End 2 processes ]")
    after("1\x1b[C\r", f" type {pid_of(b'notebook')} to confirm")
    after(f"{pid_of(b'notebook')}\t\t\r", "Close")
    living = {stat.pid for stat in no_leftovers()}
    assert not {pid_of(b"notebook"), pid_of(b"evaluate")} & living
    assert len(living) > 10
    _terminate(screen)
    screen.until(lambda: screen.process.poll() is not None)
    screen.until(lambda: not no_leftovers() and not list(tmp_path.iterdir()))
