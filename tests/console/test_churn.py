"""Ten minutes in which nothing stays as it is: memory and use of a processor show no slope."""

from __future__ import annotations

import gc
import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from textual._styles_cache import StylesCache
from textual.pilot import Pilot

from tests.console.boxes import BUSY
from tests.console.conftest import OnScreen
from tests.console.fakes import console
from tests.console.terminals import ENTER_SCREEN, Terminal, terminal

MIB = 1024**2
#: Looks that the scene gives in a minute: as many as a console at one a second sees in ten.
LOOKS = 600
#: All pages, the help, a filter that nobody matches, a step back; nothing of it acts.
KEYS = (b"2", b"3", b"4", b"5", b"1", b"\t", b"\x1b[B", b"/zz\r", b"\x1b", b"?", b"\x1b", b"s", b"t")


@contextmanager
def written(log: Path) -> Iterator[None]:
    """Five hundred lines a second, and a rotation every ten."""
    over = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if over.wait(0.1):
                return
            if number % 100 == 99:
                log.rename(log.with_suffix(".1"))
            with log.open("a") as file:
                file.writelines(f"step {number}-{line}, loss {1 / (1 + number)}\n" for line in range(50))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def used(opened: Terminal) -> tuple[float, float]:
    """Seconds of a processor so far, and MiB that are resident now."""
    process = Path(f"/proc/{opened.process.pid}")
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    pages = int((process / "statm").read_text().split()[1])
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / MIB


def slope(values: Sequence[float]) -> float:
    """By how much they grow from one to the next: the straight line of the least squares."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    above = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return above / sum((place - middle) ** 2 for place in range(len(values)))


def pressed_for(opened: Terminal, seconds: float) -> None:
    for step in range(int(seconds * 2)):
        opened.type(KEYS[step % len(KEYS)])
        opened.read(0.5)
        opened.written = opened.written[-4096:]


def test_a_page_that_was_closed_leaves_nothing_behind(on_screen: OnScreen) -> None:
    """Textual's cache kept every widget with what it had drawn: 350 KiB for each look at the help."""
    app, alive = console(BUSY), list[int]()

    async def script(pilot: Pilot[None]) -> None:
        for _ in range(3):
            for _ in range(2):
                await pilot.press("question_mark", "escape")
            await pilot.pause(0.1)
            gc.collect()
            alive.append(sum(isinstance(one, StylesCache) for one in gc.get_objects()))

    on_screen(app, (120, 40), script)
    assert alive[2] <= alive[0] + 3, alive


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_ten_minutes_of_churn_show_no_slope(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("the first line\n")
    with written(log), terminal("-m", "tests.console.live", "churn", "dark", str(log)) as opened:
        opened.until(ENTER_SCREEN, b"Runners")
        pressed_for(opened, 60)  # until what is bounded is full
        busy, resident = [], []
        for minute in range(1, 11):
            before, _ = used(opened)
            pressed_for(opened, 60)
            after, mib = used(opened)
            busy.append(after - before)
            resident.append(mib)
            print(f"minute {minute:2}: {busy[-1]:5.1f} s of a processor, {mib:5.1f} MiB, {LOOKS} looks")
        opened.type(b"\x1b")
        opened.read(1.0)
        opened.type(b"q")
        assert opened.ended_within(10.0) == 0
    print(f"slope: {slope(busy):+.2f} s and {slope(resident):+.3f} MiB a minute")
    assert slope(resident) < 0.5, "an hour of this would be 30 MiB"
    assert slope(busy) < 0.05 * sum(busy) / len(busy), "each minute costs more than the one before"
