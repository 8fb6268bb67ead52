"""What resists a first TERM, or seems to live on: each ends, by the right signal, and nothing that is dead counts."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.process import Stat, is_alive, read_stat
from tests.hold.lanes import NAP, Box, ended, identity, sleepers, stop_both, until
from tests.hold.test_resist import flags
from tests.hold.unkillable import UNREAPING, VFORK, ZOMBIE_LEADER, python

SOON = ("--grace", "0.5")
#: A cgroup where one can be had, and the means that are left without.
CONTAINED = pytest.mark.parametrize("contain", ["auto", "subreaper"])


def stat_of(pid: int) -> Stat:
    stat = read_stat(pid)
    assert stat, f"{pid} is gone"
    return stat


def fates(state: Box) -> dict[int, str]:
    """How each member ended that did not end by itself."""
    (end,) = (event for event in state.events() if event["event"] == "ended")
    return {fate["pid"]: fate["ended_by"] for fate in end["ended"]}


def file_with_pid(path: Path) -> int:
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text().split()[0])


@CONTAINED
@pytest.mark.parametrize("grace", ["0", "0.3"])
def test_without_any_survive_wait_kill_is_still_sent_and_awaited(state: Box, contain: str, grace: str) -> None:
    options = ["--grace", grace, "--survive-wait", "0", "--contain", contain]
    lane = state.run("sh", "-c", f"trap '' TERM; setsid -f sleep {NAP}; exec sleep {NAP}", options=options)
    state.until_running()
    until(lambda: len(sleepers()) == 2)
    lane.terminate()
    assert ended(lane)[0] == 143
    assert sleepers() == []
    assert state.leftovers() == []


@CONTAINED
def test_a_vfork_in_state_d_and_its_child_end_by_kill(state: Box, tmp_path: Path, contain: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    lane = state.run(*python(VFORK, str(fifo), NAP), options=[*SOON, "--contain", contain, "--max-hold", "2"])
    root = state.until_running()["root_pid"]
    until(lambda: stat_of(root).state == "D")
    (child,) = (pid for pid in sleepers() if stat_of(pid).ppid == root)
    assert ended(lane)[0] == 124
    assert fates(state) == {root: "KILL", child: "KILL"}
    assert sleepers() == []
    assert state.leftovers() == []


@CONTAINED
def test_a_zombie_leader_with_living_threads_is_alive_and_ends(state: Box, contain: str) -> None:
    lane = state.run(*python(ZOMBIE_LEADER, NAP), options=[*SOON, "--contain", contain])
    root = identity(state.until_running()["root_pid"])
    until(lambda: stat_of(root.pid).state == "Z")
    time.sleep(1.5)  # more than one look of the keeper's
    assert lane.poll() is None, "its main thread alone has exited"
    assert is_alive(root)
    lane.terminate()
    assert ended(lane)[0] == 143
    assert not is_alive(root)
    assert fates(state) == {root.pid: "KILL"}
    assert state.leftovers() == []


@CONTAINED
@pytest.mark.parametrize(("deaf", "by"), [("exit", "TERM"), (":", "KILL")])
def test_a_stopped_member_hears_term(state: Box, tmp_path: Path, contain: str, deaf: str, by: str) -> None:
    file = tmp_path / "stopped"
    stops = f"trap 'echo heard >> {file}; {deaf}' TERM; echo $$ > {file}; while :; do kill -STOP $$; done"
    lane = state.run(
        "sh", "-c", f'setsid -f sh -c "$1" sh {NAP}; sleep {NAP}', "sh", stops, options=[*SOON, "--contain", contain]
    )
    pid = file_with_pid(file)
    until(lambda: stat_of(pid).state == "T")
    lane.terminate()
    assert ended(lane)[0] == 143
    assert "heard" in file.read_text(), "a TERM stays pending while a process is stopped"
    assert fates(state)[pid] == by
    assert sleepers() == []
    assert state.leftovers() == []


@pytest.mark.parametrize(
    ("command", "options", "expected"),
    [
        (f"(trap '' TERM; setsid sleep {NAP}) & sleep {NAP}", ["--max-hold", "1"], 124),
        (f"sleep {NAP} & exit 7", [], 7),
    ],
    ids=["deaf", "left by the root"],
)
def test_a_pipe_kept_open_by_a_grandchild_delays_nothing(
    state: Box, command: str, options: list[str], expected: int
) -> None:
    """The caller reads to the end of the file: that comes when the last that has the pipe is gone."""
    lane = state.run("sh", "-c", command, options=[*SOON, *options], stdout=subprocess.PIPE)
    assert ended(lane)[0] == expected
    assert sleepers() == []
    assert state.leftovers() == []


@CONTAINED
def test_a_zombie_that_its_parent_does_not_reap_keeps_nothing(state: Box, contain: str) -> None:
    lane = state.run(*python(UNREAPING, NAP), options=[*SOON, "--contain", contain])
    root = state.until_running()["root_pid"]
    child = until(lambda: next((s for s in map(read_stat, below(root)) if s and s.dead), None))
    lane.terminate()
    assert ended(lane)[0] == 143
    assert child.pid not in fates(state), "it was dead, and was sent nothing"
    assert state.leftovers() == []


def below(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_member_that_a_foreign_parent_does_not_reap_is_dead(state: Box) -> None:
    """Its own nonce made it a member; this test, its parent, looks away."""
    lane = state.run("sleep", NAP, options=SOON)
    root = state.until_running()["root_pid"]
    marks = Path(f"/proc/{root}/environ").read_bytes().split(b"\0")
    mark = next(os.fsdecode(line) for line in marks if line.startswith(b"HOLDTOP_RUN="))
    name, _, value = mark.partition("=")
    member = subprocess.Popen(["sleep", NAP], env={**os.environ, name: value})
    try:
        lane.terminate()
        assert ended(lane)[0] == 143
        assert stat_of(member.pid).dead
        assert fates(state)[member.pid] == "TERM"
        assert state.leftovers() == []
        assert not any(event["left"] for event in state.events() if event["event"] == "ended")
    finally:
        assert member.wait() == -signal.SIGTERM


def test_a_holder_that_nobody_reaps_is_dead(state: Box) -> None:
    """Both processes of the hold are killed, and the supervisor's parent does not wait for it."""
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    started: dict[str, Any] = state.until_running()
    stop_both(lane.pid, started["keeper_pid"])
    lane.kill()
    os.kill(started["keeper_pid"], signal.SIGKILL)
    until(lambda: stat_of(lane.pid).dead)
    said = state.verb("status", "--plain").stdout
    assert "is running" not in said
    assert f"(pid {lane.pid}) is dead, though its parent {os.getpid()} has not reaped it" in said
    assert flags(state)["ghost"][0] == "warning"
    killed = state.verb("kill", started["ticket"], "--yes", "--reason", "again")
    assert killed.returncode == 7
    assert f"its parent {os.getpid()} has not reaped pid {lane.pid}" in killed.stderr
    status, errors = ended(state.run("true", options=SOON))
    assert status == 0
    assert "stale token" in errors
    assert stat_of(lane.pid).dead, "still a zombie"
    assert lane.wait() == -signal.SIGKILL
    assert sleepers() == []
    assert state.leftovers() == []
