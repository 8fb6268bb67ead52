"""Clocks that jump, stamps that cannot be, and a queue directory to which everything happens."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdtop.hold import queue as queues
from holdtop.hold.files import Dir
from tests.hold.lanes import NAP, Box, ended, sleepers, until

CLOCK = str(Path(__file__).with_name("clock.c"))
HOUR = 3600
YEAR = 365 * 24 * HOUR


@pytest.fixture
def wall_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the wall clock of every process that the test starts, by seconds ahead."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler: moves the wall clock of processes")
    library, offset = tmp_path / "clock.so", tmp_path / "offset"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, CLOCK], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("WALL_CLOCK_OFFSET", str(offset))

    def ahead(seconds: int) -> None:
        offset.with_suffix(".new").write_text(str(seconds))
        offset.with_suffix(".new").rename(offset)

    ahead(0)
    return ahead


@pytest.mark.parametrize("step", [HOUR, -HOUR, 12 * YEAR, -50 * YEAR])
def test_a_deadline_is_measured_by_no_wall_clock(state: Box, wall_clock: Callable[[int], None], step: int) -> None:
    lane = state.run("sleep", NAP, options=["--max-hold", "2.5", "--grace", "1"])
    state.until_running()
    wall_clock(step)
    assert ended(lane)[0] == 124
    (receipt,) = state.receipts()
    assert receipt["held_seconds"] >= 2.5
    stamps = [event["at"][:4] for event in state.events()]
    assert stamps[0] != stamps[-1] or abs(step) == HOUR, "the step has been seen"


def test_order_and_patience_survive_a_clock_that_is_set(state: Box, wall_clock: Callable[[int], None]) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    lanes = []
    for step in (0, -YEAR, YEAR, -30 * YEAR):
        wall_clock(step)
        lanes.append(state.run("true"))
        until(lambda: len(state.tickets()) == 1 + len(lanes))
    impatient = state.run("true", options=["-w", "0.5"])
    wall_clock(HOUR)
    assert ended(impatient)[0] == 121
    holder.terminate()
    ended(holder)
    assert [ended(lane)[0] for lane in lanes] == [0] * 4
    started = [event["ticket"][:10] for event in state.events() if event["event"] == "started"]
    assert started == sorted(started)


@pytest.mark.parametrize(
    "stamp", ["1970-01-01T00:00:00+00:00", "2038-01-19T03:14:08+00:00", "9999-12-31T23:59:59+00:00"]
)
def test_no_age_is_negative_or_of_decades(state: Box, stamp: str) -> None:
    """The ticket, the token, the record and the files themselves carry the stamp; all are judged alive."""
    lane = state.run("sleep", NAP)
    started = state.until_running()
    record = state.queue / ".record" / f"{started['ticket']}.json"
    until(record.exists)
    for path in (state.token, state.queue / started["ticket"], record):
        text = path.read_text()
        for old in {line.partition("=")[2] for line in text.splitlines() if line.startswith("queued=")}:
            text = text.replace(old, stamp)
        if path == state.token:
            first, _, rest = text.partition("\n")
            text = f"{first.rpartition(' ')[0]} {stamp}\n{rest}"
        if path == record:
            text = json.dumps({**json.loads(text), "taken_at": stamp, "at": stamp})
        with path.open("r+") as file:  # the life lock is on this very file
            file.truncate()
            file.write(text)
        os.utime(path, (2**31, 0))
    done = state.verb("status", "-r", "gpu", "--json")
    snapshot = json.loads(done.stdout)
    holder = snapshot["resources"][0]["holder"]
    assert snapshot["resources"][0]["state"] == "held"
    for age in (holder["held_seconds"], holder["waited_seconds"]):
        assert age is None or 0 <= age < HOUR, age
    assert "clock-skew" in {flag["kind"] for flag in snapshot["flags"]}
    assert ended(state.run("true", options=["-w", "0"]))[0] == 121, "a stamp makes nobody dead"
    lane.terminate()
    assert ended(lane)[0] == 143


@pytest.mark.parametrize("stamp", ["1970-01-01T00:00:00+00:00", "2038-01-19T03:14:08+00:00", "yesterday"])
def test_a_shell_tools_stamp_is_no_age(state: Box, stamp: str) -> None:
    state.queue.mkdir()
    with subprocess.Popen(["sleep", NAP]) as shell:
        state.token.write_text(f"old {shell.pid} {stamp}\n")
        snapshot = json.loads(state.verb("status", "-r", "gpu", "--json").stdout)
        shell.terminate()
    held_seconds = snapshot["resources"][0]["holder"]["held_seconds"]
    assert held_seconds is None or 0 <= held_seconds < HOUR


def remove(queue: Path) -> None:
    """All of it, although holds still write there."""
    while queue.exists():
        shutil.rmtree(queue, ignore_errors=True)


def recreate(queue: Path) -> None:
    remove(queue)
    queue.mkdir(mode=0o2770)


GONE: dict[str, Callable[[Path], object]] = {
    "removed": remove,
    "renamed": lambda queue: queue.rename(queue.with_name("elsewhere")),
    "recreated": recreate,
}


@pytest.mark.parametrize("how", GONE)
def test_a_queue_that_goes_while_lanes_wait_and_one_runs(state: Box, how: str) -> None:
    """Removing a ticket is how a lane is evicted, and this removes all. A queue with another name is still theirs."""
    holder = state.run("sh", "-c", f"trap '' TERM; sleep {NAP}", options=["--grace", "0.5"])
    state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    GONE[how](state.queue)
    newcomer = state.run("true", options=["-w", "60"])
    if how == "renamed":
        until((state.queue / ".sequence").exists)
        assert state.token.exists()
        holder.terminate()
    assert ended(holder)[0] == (143 if how == "renamed" else 130)
    status, errors = ended(waiter)
    assert status == (0 if how == "renamed" else 120), errors
    status, errors = ended(newcomer)
    assert status == 0, errors
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_queue_that_goes_while_a_payload_is_ended(state: Box) -> None:
    holder = state.run("sh", "-c", f"trap '' TERM; while :; do sleep {NAP}; done", options=["--grace", "1"])
    state.until_running()
    holder.terminate()
    until(lambda: any(event["event"] == "ending" for event in state.events()))
    remove(state.queue)
    assert ended(holder)[0] == 143
    assert not state.token.exists()
    assert ended(state.run("true"))[0] == 0
    assert state.leftovers() == []


@pytest.mark.parametrize("text", ["0" * 5000, "9" * 5000, "8999999999", "-1", "1.5", "\0" * 10, "٣", "7\n8\n"])
def test_a_counter_of_any_content(state: Box, text: str) -> None:
    assert ended(state.run("true"))[0] == 0
    (state.queue / ".sequence").write_text(text)
    for _ in range(2):
        status, errors = ended(state.run("true"))
        assert status == 0, errors
    used = [event["ticket"] for event in state.events() if event["event"] == "started"]
    assert len({ticket[:10] for ticket in used}) == 3, "no number is used twice"


PLANTS: dict[str, Callable[[Path], object]] = {
    "link": lambda path: os.symlink(path.with_name("victim"), path),
    "fifo": os.mkfifo,
    "directory": lambda path: os.mkdir(path),
    "hard link": lambda path: os.link(path.with_name("victim"), path),
}


@pytest.mark.parametrize("name", [".lock", ".sequence", ".log", ".record"])
@pytest.mark.parametrize("what", PLANTS)
def test_what_is_put_in_place_of_a_file_is_named_or_passed_by(state: Box, name: str, what: str) -> None:
    """Never followed, never written to, never waited for."""
    state.queue.mkdir(mode=0o2770)
    (state.queue / "victim").write_text("precious")
    PLANTS[what](state.queue / name)
    lane = state.run("sh", "-c", "exit 7", options=["-w", "20"])
    status, errors = ended(lane, 30)
    assert (state.queue / "victim").read_text() == "precious"
    assert "internal error" not in errors
    if status != 7:
        assert status == 125
        assert str(state.queue / name) in errors, "what is in the way is named"
        assert "the command was not run" in errors
    assert not state.token.exists()
    for number in (1, 2):
        assert not list(state.queue.glob(f"{number:010}-*"))


def test_a_lock_file_that_is_replaced_is_the_new_one(state: Box) -> None:
    """Whoever had waited for one that has lost its name would else be alone with it."""
    entered = threading.Event()

    def enter() -> None:
        with queues.locked(queue, 20):
            entered.set()

    thread = threading.Thread(target=enter)
    with Dir.root(str(state.state)) as queue:
        with queues.locked(queue):
            thread.start()
            until(lambda: _has_open(queue.of(queues.LOCK)) == 2)
            os.unlink(queue.of(queues.LOCK))
            new = queue.create(queues.LOCK)
            fcntl.flock(new, fcntl.LOCK_EX)
        assert not entered.wait(0.5), "it has the old one, which excludes nobody any more"
        os.close(new)
        assert entered.wait(20)
        thread.join()


def _has_open(path: str) -> int:
    """How often this process has it open."""
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return sum(os.path.lexists(link) and os.readlink(link) == path for link in links)
