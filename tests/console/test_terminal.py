"""Manners on a real terminal: how the program leaves, what it never writes, what it costs when nothing happens."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from tests.console.boxes import EVIL
from tests.console.terminals import ENTER_SCREEN, LEAVE_SCREEN, MOUSE_OFF, ROOT, Terminal, terminal

LIVE = ("-m", "tests.console.live")


@pytest.fixture
def busy() -> Iterator[Terminal]:
    with terminal(*LIVE, "busy") as opened:
        opened.until(ENTER_SCREEN, b"nightly-build")
        yield opened


def assert_restored(opened: Terminal) -> None:
    after = opened.written.rsplit(LEAVE_SCREEN, 1)
    assert len(after) == 2, "the alternate screen was left on"
    for off in MOUSE_OFF:
        assert off in opened.written
    assert b"\x1b[?25h" in opened.written
    assert termios.tcgetattr(opened.slave) == opened.before


def test_q_leaves(busy: Terminal) -> None:
    busy.type(b"q")
    assert busy.ended_within(2.0) == 0
    assert_restored(busy)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_the_terminal_restored(busy: Terminal, number: signal.Signals) -> None:
    busy.process.send_signal(number)
    assert busy.ended_within(2.0) == 128 + number
    assert_restored(busy)


def test_a_signal_ends_it_although_nobody_reads_the_terminal(busy: Terminal) -> None:
    termios.tcflow(busy.slave, termios.TCOOFF)  # as Ctrl-S does
    busy.type(b"tttttttttttttttttttt")
    time.sleep(0.5)
    busy.process.send_signal(signal.SIGTERM)
    assert busy.process.wait(2.0) == 128 + signal.SIGTERM
    termios.tcflow(busy.slave, termios.TCOON)


def test_the_closed_terminal_ends_it(busy: Terminal) -> None:
    busy.hang_up()
    assert busy.process.wait(2.0) in (129, -signal.SIGHUP)


def test_the_closed_terminal_ends_it_although_hup_is_ignored() -> None:
    with terminal(*LIVE, "busy", prefix=("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")) as opened:
        opened.until(ENTER_SCREEN, b"nightly-build")
        opened.hang_up()
        assert opened.process.wait(2.0) == 129


def test_a_feed_that_hangs_delays_nobody() -> None:
    with terminal(*LIVE, "hang") as opened:
        opened.until(b"nightly-build")
        opened.type(b"q")
        assert opened.ended_within(2.0) == 0


def test_two_hundred_resizes_in_five_seconds(busy: Terminal) -> None:
    sizes = [(1, 1), (300, 100), (10, 3), (80, 24), (20, 5), (120, 40), (40, 10)]
    for count in range(200):
        busy.resize(*sizes[count % len(sizes)])
        busy.process.send_signal(signal.SIGWINCH)
        busy.read(0.025)
    busy.resize(100, 30)
    busy.process.send_signal(signal.SIGWINCH)
    busy.read(1.0)
    busy.written = b""
    busy.type(b"?")
    busy.until(b"Acting")
    busy.type(b"qq")
    assert busy.ended_within(2.0) == 0
    assert_restored(busy)


def test_it_starts_on_a_terminal_of_any_size_and_grows_with_it() -> None:
    """Of no size at all is one that nobody has told its size: 80x24 is taken for it."""
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(terminal(*LIVE, "busy", size=size)) for size in ((0, 0), (1, 1), (20, 5))]
        for opened in started:
            opened.until(ENTER_SCREEN)
            opened.type(b"k1\r")  # whom it would hit cannot be seen: refused, and Enter means Cancel in any case
        started[0].read(1.0)
        for opened in started:
            opened.resize(80, 24)
            opened.until(b"nightly-build", b"Queue")
            opened.type(b"\x1b[Iqq")
        for opened in started:
            assert opened.ended_within(5.0) == 0
            assert b"outcome" not in opened.written, "nothing was carried out"


def test_an_unchanged_box_writes_no_byte() -> None:
    with terminal(*LIVE, "quiet") as opened:
        opened.until(b"Nobody holds")
        # Until the graphs, as wide as they are here, have scrolled full of the same value.
        end = time.monotonic() + 30
        while opened.read(1.0):
            assert time.monotonic() < end, "it never comes to rest"
        assert opened.read(3.0) == b""


#: What Textual itself writes: CSI sequences, queries of modes, the mouse pointer's shape.
OWN = re.compile(rb"\x1b\[[0-9;:?<>=]*[A-Za-z]|\x1b\[\?[0-9]+\$p|\x1b\]22;[a-z]+\x07")


def test_no_foreign_byte_reaches_the_terminal() -> None:
    with terminal(*LIVE, "hostile") as opened:
        opened.until(b"strays")
        for keys in (b"j", b"\t", b"\t", b"2", b"l", b"4", b"5", b"\x1b", b"k", b"1", b"\x1b", b"?", b"\x1b"):
            opened.type(keys)
            opened.read(0.35)
        opened.read(2.0)
        written = opened.written
        rest = OWN.sub(b"", written)
        assert b"\x1b" not in rest, rest[max(0, rest.find(b"\x1b") - 40) :][:120]
        text = rest.decode()  # all of it is UTF-8
        assert {char for char in text if not char.isprintable()} <= {"\r", "\n"}
        for shown in ("[/red]", "[@click=app.exit]x[/]", "a) R 1 1 (b", "<U+202E>gpj.exe<U+2069>"):
            assert shown in text
        assert "52;c;" in text  # as text, behind a visible stand-in
        assert len(EVIL) == 8
        opened.type(b"q")
        assert opened.ended_within(2.0) == 0


def test_no_colour_is_written_where_none_is_wanted() -> None:
    with terminal(*LIVE, "busy", NO_COLOR="1") as opened:
        opened.until(b"nightly-build")
        opened.type(b"k")
        opened.read(0.5)
        colours = re.findall(rb"\x1b\[[0-9;]*m", opened.written)
        assert colours
        for sequence in colours:
            codes = {int(code or b"0") for code in sequence[2:-1].split(b";")}
            assert not any(30 <= code <= 38 or 40 <= code <= 48 or 90 <= code <= 107 for code in codes), sequence


def test_ascii_in_the_c_locale() -> None:
    with terminal(*LIVE, "busy", LC_ALL="C") as opened:
        opened.until(b"nightly-build")
        opened.type(b"k")
        opened.read(0.5)
        assert opened.written.isascii()


@pytest.mark.parametrize("arguments", [(), ("--read-only",)])
def test_without_a_terminal_it_says_so(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "holdtop", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 4
    assert "needs a terminal" in done.stderr
    assert "textual" not in done.stderr
    assert done.stdout == ""


def test_a_terminal_without_a_cursor_is_told() -> None:
    with terminal("-m", "holdtop", TERM="dumb") as opened:
        assert opened.ended_within(5.0) == 4
        assert b"TERM says otherwise" in opened.written
        assert ENTER_SCREEN not in opened.written


def test_neither_card_nor_npu_is_opened(busy: Terminal) -> None:
    links = [os.readlink(f"/proc/{busy.process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{busy.process.pid}/fd")]
    assert not [link for link in links if link.startswith(("/dev/dri", "/dev/kfd", "/dev/accel"))]
