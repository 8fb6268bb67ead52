"""Logs of any size cost what is shown of them: the bytes that the kernel gave are counted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdtop.hold import events, receipt
from tests.console.terminals import terminal
from tests.hold.lanes import Box

GB = 1000**3
#: Sparse, with as many real lines in its end as anybody shows.
HUGE = 8 * GB
#: Python itself, its modules, and ``/proc`` of a box with some hundred processes; of the log a hundredth.
FEW = HUGE // 100
RECEIPTS = 100 * 1000**2


def given_bytes(pid: int) -> int:
    """By all reads so far, of the process and of those that it has waited for (``rchar``, proc_pid_io(5))."""
    return int(Path(f"/proc/{pid}/io").read_text().split()[1])


@contextmanager
def at_most(most: int) -> Iterator[None]:
    before = given_bytes(os.getpid())
    yield
    assert given_bytes(os.getpid()) - before < most


@pytest.fixture
def lane(tmp_path: Path) -> Box:
    """Somebody has held here; the events of that are the end of a huge log."""
    here = Box(tmp_path / "state")
    here.state.mkdir()
    assert here.verb("run", "--", "true").returncode == 0
    log = here.queue / events.LOG / events.EVENTS
    lines = log.read_bytes()
    with log.open("r+b") as file:
        file.truncate(HUGE)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + lines * (events.TAIL // len(lines) + 1))
    return here


VERBS = (("status", "--json"), ("watch", "--once"), ("history",), ("run", "-w", "0", "--", "true"))


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_a_huge_event_log_is_not_read(lane: Box, words: tuple[str, ...]) -> None:
    with at_most(FEW):
        done = lane.verb(*words)
    assert done.returncode in (0, 3), done.stderr


def test_the_consoles_first_picture_has_the_end_of_a_huge_log(lane: Box) -> None:
    with terminal("-m", "holdtop", "--state-dir", str(lane.state)) as opened:
        opened.until(b"headroom", b"released", seconds=60)
        assert given_bytes(opened.process.pid) < FEW


def test_of_100_mb_of_receipts_history_reads_the_newest(lane: Box) -> None:
    log, begin = lane.queue / receipt.RECEIPTS, given_bytes(os.getpid())
    (only,) = lanes(lane)
    few = given_bytes(os.getpid()) - begin
    line = log.read_bytes()
    with log.open("wb") as file:
        file.write(line * (RECEIPTS // len(line)))
        file.write(line.replace(only.encode(), b"newest"))
    with at_most(few + receipt.ALL + 1000**2):
        assert lanes(lane) == {only, "newest"}


def lanes(lane: Box) -> set[str]:
    return {one["lane"] for one in json.loads(lane.verb("history", "--json").stdout)["resources"][0]["lanes"]}
