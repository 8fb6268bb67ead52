"""Beside the older shell tool: exclusion, hand-over, eviction and survivors, in both directions."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.hold import survivors
from holdtop.hold.files import Dir
from holdtop.payload.process import Pinned
from tests.hold.lanes import NAP, Box, ended, identity, until
from tests.hold.peers import Marks, held_by, peer, watched

LEFT = re.compile(r"^::warning::previous holder left pid=(\d+) start=(.+) cmd=(.*) - (.+)$", re.MULTILINE)
MAY_HOLD = "that device may still hold its memory"


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "mark")


@pytest.fixture
def left() -> Iterator[subprocess.Popen[bytes]]:
    """A process that outlives the token of whoever started it."""
    with subprocess.Popen(["sleep", NAP]) as process:
        yield process
        process.kill()


@pytest.mark.parametrize("date", ["", "2026-01-01T00:00:00+00:00"])
def test_a_waiting_hold_is_woken_by_the_shells_release(state: Box, date: str) -> None:
    shell = peer(state, "sleep", NAP, environ={"PEER_DATE": date})
    held_by(state, shell)
    before = state.token.read_bytes()
    lane = state.run("true")
    until(lambda: watched(lane.pid, state.token))
    assert state.token.read_bytes() == before
    shell.terminate()
    assert ended(shell)[0] == 143
    status, said = ended(lane)
    assert status == 0
    assert f"held by lane shell, pid {shell.pid}" in said
    assert ("since" in said) == bool(date)
    assert state.leftovers() == []


def test_a_waiting_shell_takes_within_its_poll(state: Box, marks: Marks) -> None:
    lane = state.run(*marks.payload("ours", NAP))
    state.until_running()
    before = state.token.read_bytes()
    shell = peer(state, *marks.payload("theirs"))
    until(lambda: len(state.tickets()) == 2)
    with pytest.raises(subprocess.TimeoutExpired):
        shell.wait(0.3)  # several polls
    assert state.token.read_bytes() == before
    lane.terminate()
    assert ended(lane)[0] == 143
    assert ended(shell)[0] == 0
    assert marks.turns() == ["ours", "theirs"]
    assert marks.overlaps() == 0
    assert state.leftovers() == []


def test_the_checker_sees_two_at_once(marks: Marks) -> None:
    with subprocess.Popen(marks.payload("one", NAP)) as first:
        until(lambda: marks.turns() == ["one"])
        subprocess.run(marks.payload("other"), check=True)
        first.terminate()
    assert marks.overlaps() == 1


def test_either_gives_up_at_its_own_limit_and_leaves_the_others_token(state: Box) -> None:
    shell = peer(state, "sleep", NAP)
    held_by(state, shell)
    status, said = ended(state.run("true", options=["-w", "0"]))
    assert status == 121
    assert f"pid {shell.pid}" in said
    shell.terminate()
    assert ended(shell)[0] == 143
    lane = state.run("sleep", NAP)
    state.until_running()
    assert ended(peer(state, "-w", "0", "true"))[0] == 121
    assert lane.poll() is None
    lane.terminate()
    assert ended(lane)[0] == 143
    assert state.leftovers() == []


def test_removing_a_ticket_evicts_its_waiter_and_nobody_else(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    shell, waiter = peer(state, "true"), state.run("true")
    until(lambda: len(state.tickets()) == 3)
    (entry,) = [name for name in state.tickets() if name.startswith("job.")]
    assert state.verb("evict", entry, "--reason", "test", "--yes").returncode == 0
    assert ended(shell)[0] == 120
    assert waiter.poll() is None
    (state.queue / state.tickets()[-1]).unlink()  # as a shell tool evicts
    assert ended(waiter)[0] == 120
    assert lane.poll() is None
    lane.terminate()
    assert ended(lane)[0] == 143
    assert state.leftovers() == []


def test_what_a_shell_left_is_announced_once_and_the_list_emptied(state: Box) -> None:
    shell = peer(state, "sh", "-c", f"sleep {NAP} > /dev/null 2>&1 & true")
    assert ended(shell)[0] == 0
    listed = state.queue / survivors.SHELL_LIST
    (pid,) = (int(text) for text in re.findall(r"^pid=(\d+) ", listed.read_text(), re.MULTILINE))
    with Pinned(identity(pid)) as left:
        assert LEFT.findall(ended(state.run("true"))[1]) == [
            (str(pid), _listed_start(pid), f"sleep {NAP}", MAY_HOLD),
        ]
        assert listed.read_bytes() == b""
        assert LEFT.findall(ended(state.run("true"))[1]) == []
        left.send(signal.SIGKILL)


def test_what_is_dead_by_now_is_said_to_be_dead(state: Box, left: subprocess.Popen[bytes]) -> None:
    line = f"pid={left.pid} start={_listed_start(left.pid)} cmd=sleep {NAP}\n"
    left.kill()
    left.wait()
    ((pid, _, _, condition),) = LEFT.findall(ended(_after(state, line).run("true"))[1])
    assert (int(pid), condition) == (left.pid, "it is dead now")


def test_what_a_hold_left_is_announced_by_a_shell_in_the_same_words(state: Box, left: subprocess.Popen[bytes]) -> None:
    line = survivors._shell_line(identity(left.pid), "sleep")
    said = ended(peer(_after(state, line + "\n"), "true"))[1]
    assert said == f"::warning::previous holder left {line} - {MAY_HOLD}\n"
    assert LEFT.findall(said) == [(str(left.pid), _listed_start(left.pid), f"sleep {NAP}", MAY_HOLD)]
    assert _announced(state) == []


@pytest.mark.parametrize("zone", ["UTC", "America/St_Johns", "Asia/Kathmandu"])
@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_living_survivor_is_never_said_to_be_dead(
    state: Box, left: subprocess.Popen[bytes], zone: str, late: int
) -> None:
    """``ps`` computes the start from the uptime, in its caller's zone: a second off and hours apart is the same."""
    start = _shifted(_listed_start(left.pid, TZ=zone), late)
    (warning,) = _announced(_after(state, f"pid={left.pid} start={start} cmd=sleep\n"))
    assert warning.endswith(MAY_HOLD)


def test_a_start_that_cannot_be_read_proves_no_death(state: Box, left: subprocess.Popen[bytes]) -> None:
    (warning,) = _announced(_after(state, f"pid={left.pid} start=Mi 2. Dez 15:54:53 2026 cmd=sleep\n"))
    assert warning.endswith(MAY_HOLD)


def test_a_recycled_pid_is_not_the_survivor(state: Box, left: subprocess.Popen[bytes]) -> None:
    start = _shifted(_listed_start(left.pid), -7 * 60)
    (warning,) = _announced(_after(state, f"pid={left.pid} start={start} cmd=sleep\n"))
    assert warning.endswith("it is dead now")


def _after(state: Box, line: str) -> Box:
    """The same box, after a holder that left that."""
    state.queue.mkdir()
    (state.queue / survivors.SHELL_LIST).write_text(line)
    return state


def _announced(state: Box) -> list[str]:
    with Dir.root(str(state.queue)) as queue:
        return survivors.announce(queue)


def _shifted(start: str, seconds: int) -> str:
    return time.ctime(time.mktime(time.strptime(start)) + seconds)


def _listed_start(pid: int, **environ: str) -> str:
    done = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], env=os.environ | environ, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
