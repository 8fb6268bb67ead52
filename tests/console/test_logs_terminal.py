"""A log that is rotated, truncated, replaced, endless, giant or binary, followed on a real terminal."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.console.terminals import ENTER_SCREEN, Terminal, terminal

GIB = 1024**3
#: Seconds that a key may take, which is far more than it does: others use this machine too.
SOON = 5.0


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text("the first line\n")
    return path


@contextlib.contextmanager
def shown(log: Path) -> Iterator[Terminal]:
    """The page of logs, opened on ``log``."""
    with terminal("-m", "tests.console.live", "quiet", "dark", str(log)) as opened:
        opened.until(ENTER_SCREEN, b"Nobody holds")
        opened.type(b"3\t\x1b[B\t")
        opened.until(b"job.log")
        yield opened
        opened.type(b"q")
        assert opened.ended_within(2.0) == 0


def append(log: Path, text: str) -> None:
    with log.open("a") as file:
        file.write(text)


def answers(opened: Terminal) -> None:
    """A key is heard: the next page is drawn, and this one again."""
    opened.written = b""
    opened.type(b"5")
    opened.until(b"CI runner of holdtop", seconds=SOON)
    opened.type(b"3")


def resident_bytes(opened: Terminal) -> int:
    with open(f"/proc/{opened.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def rotate(log: Path) -> None:
    log.rename(log.with_suffix(".1"))
    log.write_text("what is new\n")


def truncate(log: Path) -> None:
    log.write_text("")
    append(log, "what is new\n")


def rewrite(log: Path) -> None:
    log.write_text("a longer first line than there was before\nwhat is new\n")


def recreate(log: Path) -> None:
    log.unlink()
    time.sleep(2)
    log.write_text("what is new\n")


@pytest.mark.parametrize(
    ("fate", "said"),
    [(rotate, b"rotated"), (truncate, b"truncated"), (rewrite, b"truncated"), (recreate, b"not there (yet)")],
)
def test_the_new_line_is_shown_with_what_befell_the_file(log: Path, fate: Callable[[Path], None], said: bytes) -> None:
    with shown(log) as opened:
        opened.until(b"the first line")
        fate(log)
        opened.until(said, b"what is new")


@pytest.mark.parametrize("odd", ["directory", "fifo"])
def test_what_is_no_file_is_said_and_blocks_nothing(log: Path, odd: str) -> None:
    with shown(log) as opened:
        log.unlink()
        log.mkdir() if odd == "directory" else os.mkfifo(log)
        opened.until(b"is no regular file")
        answers(opened)
        log.rmdir() if odd == "directory" else log.unlink()
        log.write_text("what is new\n")
        opened.until(b"what is new")


def test_a_progress_bar_moves(log: Path) -> None:
    with shown(log) as opened:
        for count in (10, 55, 99):
            append(log, f"\r {count}% of the epochs")
            opened.until(f"{count}%".encode())
        append(log, "\rthe epochs are done\n")
        opened.until(b"the epochs are done")


def test_five_sparse_gigabytes_open_at_once(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(5 * GIB)
        file.seek(0, os.SEEK_END)
        file.write(b"\nthe last line\n")
    with shown(log) as opened:
        opened.until(b"the last line", b"what it had said before is not shown", b"5.0 GiB left out", seconds=SOON)


def test_a_giant_line_is_cut_with_its_length(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(0)
        for _ in range(200):
            file.write(b"x" * 1_000_000)
    with shown(log) as opened:
        opened.until(b"(200000000 bytes) xxxxxxxx")
        answers(opened)
        assert resident_bytes(opened) < GIB // 4
        append(log, "\nthe next line\n")
        opened.until(b"the next line")


def test_binary_reaches_the_terminal_as_text_only(log: Path) -> None:
    log.write_bytes(b"".join(bytes(range(256)) * 3 + b"\n" for _ in range(200)) + b"\x1b]0;title\x07 end of it\n")
    with shown(log) as opened:
        opened.until("␛]0;title␇ end of it".encode())
        assert b"\x1b]0;" not in opened.written
        answers(opened)


def test_a_flood_delays_no_key_and_fills_no_memory(log: Path) -> None:
    stop = threading.Event()

    def flood() -> None:
        with log.open("ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"y\n" * 500_000)
                stop.wait(0.1)

    thread = threading.Thread(target=flood)
    with shown(log) as opened:
        thread.start()
        try:
            opened.until(b"left out")
            opened.read(3.0)
            before = resident_bytes(opened)
            answers(opened)
            opened.read(3.0)
            assert resident_bytes(opened) < before + 32 * 1024**2
        finally:
            stop.set()
            thread.join()
        append(log, "\nthe flood is over\n")
        opened.until(b"the flood is over")
