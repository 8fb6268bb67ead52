"""A payload in a pid namespace of its own ends with its hold even when nobody of the hold is left to end it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdtop.payload.process import ProcessTable, read_stat
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, sleepers, stop_both, until
from tests.hold.test_accounts import ONE, as_account, said, shared

__all__ = ["shared"]

IN = ("--contain", "pidns", "--grace", "1")
#: Leaves session, group, environment and name behind, and ignores TERM.
ESCAPEE = f"env -i setsid -f bash -c 'trap \"\" TERM; exec -a kworker/u8:3 sleep {NAP}'"

if os.geteuid() != 0:
    pytest.skip("needs root: makes namespaces", allow_module_level=True)


def members(keeper: int) -> list[int]:
    return list(ProcessTable().descendants(keeper))


@pytest.mark.parametrize(
    ("script", "status"), [("exit 5", 5), ("kill -INT $$", 130), ("kill -KILL $$", 137), ("exit 255", 255)]
)
def test_it_ends_as_the_command_ends(state: Box, script: str, status: int) -> None:
    assert ended(state.run("sh", "-c", script, options=IN))[0] == status


def test_a_command_that_is_none_says_so(state: Box) -> None:
    assert ended(state.run("/nonexistent/x", options=IN))[0] == 127
    assert ended(state.run("/etc/passwd", options=IN))[0] == 126


def test_the_payload_sees_itself_alone(state: Box, tmp_path: Path) -> None:
    script = f"ls -d /proc/[0-9]* > {tmp_path}/seen; kill -KILL 1 $PPID; echo $$ >> {tmp_path}/seen"
    assert ended(state.run("sh", "-c", script, options=IN))[0] == 0
    assert (tmp_path / "seen").read_text().split() == ["/proc/1", "/proc/2", "2"]


def test_what_the_root_leaves_behind_is_ended_and_named(state: Box) -> None:
    assert ended(state.run("sh", "-c", f"{ESCAPEE}; sleep 1; exit 3", options=IN))[0] == 3
    assert sleepers() == []
    end = next(event for event in state.events() if event["event"] == "ended")
    assert [fate["ended_by"] for fate in end["ended"] if fate["name"] == "sleep"] == ["KILL"]
    assert end["proof"].startswith("ECHILD")


@pytest.mark.parametrize("door", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_term_is_heard_inside_and_the_grace_is_whole(state: Box, tmp_path: Path, door: signal.Signals) -> None:
    trap = f"trap 'sleep 0.3; echo > {tmp_path}/heard; exit 5' TERM"
    script = f"{trap}; echo > {tmp_path}/up; while :; do sleep 0.05; done"
    lane = state.run("sh", "-c", script, options=IN)
    until((tmp_path / "up").exists)
    lane.send_signal(door)
    assert ended(lane)[0] == 128 + door
    assert (tmp_path / "heard").exists()


def test_a_root_that_stops_itself_is_continued(state: Box) -> None:
    status, errors = ended(state.run("sh", "-c", "kill -STOP $$; exit 4", options=IN))
    assert status == 4
    assert errors.count("the payload was continued") == 1


def by_both(supervisor: int, keeper: int) -> None:
    stop_both(supervisor, keeper)
    os.kill(supervisor, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)


def test_nobody_of_the_hold_is_left_and_the_payload_ends_all_the_same(state: Box) -> None:
    """Nothing but the kernel ends it: no next waiter comes, and no operator."""
    lane = state.run("sh", "-c", f"{ESCAPEE}; exec sleep 600", options=IN, stderr=subprocess.DEVNULL)
    started = state.until_running()
    until(lambda: any(comm(pid) == "sleep" for pid in sleepers()))
    inside = members(started["keeper_pid"])
    assert len(inside) >= 4
    by_both(lane.pid, started["keeper_pid"])
    lane.wait()
    until(lambda: not any(map(read_stat, inside)))
    assert sleepers() == []
    status, errors = ended(state.run("true"))
    assert status == 0
    assert "took over the stale token" in errors


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def one(pick: Callable[[int, int], int]) -> Callable[[int, int], None]:
    return lambda supervisor, keeper: os.kill(pick(supervisor, keeper), signal.SIGKILL)


@pytest.mark.parametrize("kill", [one(lambda s, _k: s), one(lambda _s, k: k)], ids=["supervisor", "keeper"])
def test_one_of_the_two_is_killed_and_the_other_ends_it(state: Box, kill: Callable[[int, int], None]) -> None:
    lane = state.run("sh", "-c", f"{ESCAPEE}; exec sleep 600", options=IN, stderr=subprocess.DEVNULL)
    started = state.until_running()
    kill(lane.pid, started["keeper_pid"])
    lane.wait(20)
    until(lambda: not state.token.exists())
    assert sleepers() == []
    assert state.leftovers() == []


def test_the_processes_between_keep_no_life_sign(state: Box) -> None:
    """They are forks of the keeper: with its descriptors they would make a dead hold look alive."""
    lane = state.run("sleep", NAP, options=IN)
    started = state.until_running()
    for pid in members(started["keeper_pid"]):
        targets = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert not [target for target in targets if str(state.state) in target]
    lane.terminate()
    assert ended(lane)[0] == 143


@pytest.mark.parametrize(("outer", "why"), [("gpu", "could be a deadlock"), ("npu", "while npu is held")])
def test_a_hold_inside_that_could_wait_for_its_own_is_refused(state: Box, outer: str, why: str) -> None:
    """The holder's pid means nothing inside, and was taken for nobody's: the payload waited for itself for ever."""
    words = [*HOLDTOP, "run", "-w", "5", "--state-dir", str(state.state), "--", "true"]
    status, errors = ended(state.run(*words, options=(*IN, "-r", outer)))
    assert status == 125
    assert why in errors


def test_a_hold_inside_on_what_sorts_behind_runs(state: Box) -> None:
    words = [*HOLDTOP, "run", "-w", "5", "-r", "npu", "--state-dir", str(state.state), "--", "sh", "-c", "exit 9"]
    assert ended(state.run(*words, options=IN))[0] == 9


def test_an_ordinary_account_has_one_too(shared: Box) -> None:
    lane = as_account(ONE, shared, "run", *IN, "--", "sh", "-c", f"id -u; {ESCAPEE}; exec sleep {NAP}")
    started = shared.until_running()
    published = json.loads((shared.queue / ".record" / f"{started['ticket']}.json").read_text())
    assert published["containment"] == ["pidns", "subreaper", "marker"]
    lane.terminate()
    status, _ = said(lane)
    assert status == 143
    assert sleepers() == []
    assert shared.leftovers() == []


def test_where_the_kernel_allows_none_nothing_is_run(shared: Box, tmp_path: Path) -> None:
    """No second namespace below one whose limit is used up (namespaces(7), /proc/sys/user)."""
    limit = "echo 0 > /proc/sys/user/max_pid_namespaces"
    hold = f"{sys.executable} -m holdtop run --state-dir {tmp_path} --contain pidns"
    line = f"{limit}; exec {hold} -- touch {tmp_path}/ran"
    lane = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", line], capture_output=True, text=True, check=False
    )
    assert lane.returncode == 125, lane.stderr
    assert "--contain pidns: No space left on device" in lane.stderr
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "gpu-token").exists()
