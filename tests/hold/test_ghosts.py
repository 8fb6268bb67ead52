"""Dead and stopped holds: what they leave is ended or waited for, and what they had published stays believed."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup
from holdtop.payload.custody import Holds
from holdtop.payload.ending import UNSEEN, Bounds, Ending
from holdtop.payload.members import Scope
from holdtop.payload.process import is_alive, read_stat
from tests.hold.groups import group, inside, own
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, identity, kill_both, sleepers, stop_both, until
from tests.hold.test_accounts import ONE, OTHER, as_account, said, shared
from tests.hold.test_deaths import line, patched
from tests.hold.unkillable import finally_ended, freezer, set_uid_helper

__all__ = ["shared"]

SOON = ("--grace", "0.3", "--survive-wait", "0.3")


def record(state: Box, ticket: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((state.queue / ".record" / f"{ticket}.json").read_text())
    return found


def test_a_stopped_hold_is_continued_by_the_next_in_line(state: Box) -> None:
    lane = state.run("sleep", NAP, options=["--max-hold", "1.5", *SOON])
    stop_both(lane.pid, state.until_running()["keeper_pid"])
    status, errors = ended(state.run("true", options=["-w", "20"]), 30)
    assert status == 0, errors
    assert "is stopped: it is continued" in errors
    assert ended(lane)[0] == 124, "its own deadline"
    assert state.leftovers() == []


def test_a_payload_that_stops_its_hold_again_and_again_gains_nothing(state: Box) -> None:
    both = "read -r _ _ _ outer _ < /proc/$PPID/stat; trap '' TERM"
    lane = state.run(
        *("sh", "-c", f"{both}; while kill -STOP $outer && kill -STOP $PPID; do :; done; exec sleep {NAP}"),
        options=["--max-hold", "0.5", *SOON],
    )
    until(state.token.exists)
    status, errors = ended(state.run("true", options=["-w", "90", *SOON]), 100)
    assert status == 0, errors
    assert ended(lane)[0] in (124, -signal.SIGKILL)
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_hold_that_stays_stopped_is_replaced_after_its_bound(state: Box) -> None:
    lane = state.run("sleep", NAP)
    stop_both(lane.pid, state.until_running()["keeper_pid"])
    at_once = patched("from holdtop.hold import take; take.KEEPER_SLACK = -100")
    taker = [*at_once, *line(state, "true", options=["-w", "20", *SOON])[len(HOLDTOP) :]]
    done = subprocess.run(taker, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "is stopped again and again: it is killed" in done.stderr
    assert "took over the stale token" in done.stderr
    assert ended(lane)[0] == -signal.SIGKILL
    assert sleepers() == []
    assert state.leftovers() == []


def test_another_accounts_stopped_hold_is_left_alone(shared: Box) -> None:
    lane = as_account(ONE, shared, "run", "--", "sleep", NAP)
    stop_both(lane.pid, shared.until_running()["keeper_pid"])
    status, errors = said(as_account(OTHER, shared, "run", "-w", "1.5", "--", "true"))
    assert status == 121
    assert "continued" not in errors
    assert Path(f"/proc/{lane.pid}/stat").read_text().split()[2] == "T"
    lane.terminate()
    assert said(as_account(ONE, shared, "run", "-w", "20", "--", "true"))[0] == 0, "its own account continues it"
    assert said(lane)[0] == 143


@pytest.mark.parametrize("removed", [False, True], ids=["its token stays", "its token is removed"])
def test_nobody_takes_while_a_dead_holds_set_uid_program_works(shared: Box, removed: bool) -> None:
    """Also after the keeper's death: what it had published stays believed although its heir knows less."""
    pid = shared.state.parent / "pid"
    pid.touch()
    pid.chmod(0o666)
    with set_uid_helper() as as_root:
        program = f"{' '.join(as_root)} sh -c 'echo $$ > {pid}; exec sleep {NAP}'"
        lane = as_account(ONE, shared, "run", *SOON, "--", "sh", "-c", f"exec >/dev/null 2>&1; {program} & sleep {NAP}")
        started = shared.until_running()
        until(lambda: pid.read_text().endswith("\n"))
        with finally_ended(int(pid.read_text())) as (theirs,):
            before = record(shared, started["ticket"])
            os.kill(started["keeper_pid"], signal.SIGKILL)
            status, errors = said(lane)
            assert status == 125
            assert "the token stays" in errors
            after = record(shared, started["ticket"])
            assert [one["pid"] for one in after["members"]] == [theirs.pid]
            for fact in ("root_pid", "root_start_ticks", "session", "keeper_pid", "cgroups", "containment", "limits"):
                assert after[fact] == before[fact], fact
            assert after["state"] == "ending"
            if removed:
                shared.token.unlink()
            for uid in (ONE, OTHER):
                status, errors = said(as_account(uid, shared, "run", *SOON, "-w", "1", "--", "true"))
                assert status == 121, errors
                assert f"pids [{theirs.pid}] of the dead hold still run, and only root may end them" in errors
            os.kill(theirs.pid, signal.SIGKILL)
            status, errors = said(as_account(OTHER, shared, "run", *SOON, "-w", "10", "--", "true"))
            assert status == 0, errors
    assert shared.leftovers() == []


def test_a_dead_holds_inner_hold_is_ended_with_it(state: Box, tmp_path: Path) -> None:
    """It was started in the payload's own session: it is no other lane's, although the root is gone."""
    inner = " ".join([*HOLDTOP, "run", "-r", "npu", *SOON, "--", "sleep", NAP])
    env = {**os.environ, "ONEBIT_HOLD_DIR": str(state.state)}
    lane = state.run(
        "sh", "-c", f"{inner} & until [ -e {tmp_path}/go ]; do sleep 0.05; done", env=env, stderr=subprocess.DEVNULL
    )
    started = state.until_running()
    until((state.state / "npu-token").exists)
    until(lambda: len(record(state, started["ticket"])["members"]) >= 3)
    kill_both(lane, started["keeper_pid"])
    root = identity(started["root_pid"])
    (tmp_path / "go").touch()  # a normal end: who is killed takes what it started with it
    until(lambda: read_stat(root.pid) is None)
    assert sleepers()
    status, errors = ended(state.run("true", options=["--grace", "5", "-w", "20"]), 30)
    assert status == 0, errors
    assert sleepers() == []
    assert not (state.state / "npu-token").exists(), "asked to end, it released what it held"
    assert state.receipts()[0]["left"] == []


def test_what_a_cgroup_has_and_nobody_sees_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel counts it, and it is listed nowhere: then nothing is clean, and the bound holds."""
    own()
    with group() as made, freezer() as ice, subprocess.Popen(["sleep", NAP], **inside(made)) as hidden:
        ice.freeze(hidden.pid)
        monkeypatch.setattr(Cgroup, "procs", lambda _: set())
        scope = Scope(identity(hidden.pid), "0000000001-2:nonce", os.getuid(), reaper=None, cgroups=(made,))
        fates, left, proof = Ending(scope, Bounds(0, 0), None, Holds).run(lambda _: None)
        assert (fates, proof) == ((), None)
        assert [(one.member, one.why) for one in left] == [(UNSEEN, "unkillable")]
        ice.thaw()


def test_a_release_does_not_hang_on_the_queues_lock(state: Box) -> None:
    """A member of the group may hold that lock for ever; a shell that waits for the token knows no such lock."""
    impatient = patched("from holdtop.hold import queue; queue.locked.__wrapped__.__defaults__ = (0.3, None)")
    hold = [*impatient, *line(state, "sleep", NAP)[len(HOLDTOP) :]]
    with subprocess.Popen(hold, stderr=subprocess.PIPE) as lane:
        state.until_running()
        with open(state.queue / ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lane.terminate()
            assert ended(lane)[0] == 143
    assert state.leftovers() == []
    (told,) = (event["text"] for event in state.events() if event["event"] == "warned")
    assert f"held for 0.3 s by pid {os.getpid()}" in told


@pytest.mark.parametrize("reaped", [True, False])
def test_a_dead_holder_that_nobody_reaps_is_dead(state: Box, reaped: bool) -> None:
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    keeper = state.until_running()["keeper_pid"]
    stop_both(lane.pid, keeper)
    outer = identity(lane.pid)
    for pid in (lane.pid, keeper):
        os.kill(pid, signal.SIGKILL)
    if reaped:
        lane.wait()
    until(lambda: is_alive(outer) is False)
    status, errors = ended(state.run("true", options=["-w", "10", *SOON]))
    assert status == 0
    assert "took over the stale token" in errors
    assert sleepers() == []
    lane.wait()


@pytest.mark.parametrize("spoil", ["true > {0}", "printf x >> {0}", "ln -sf nowhere {0}"])
def test_a_spoiled_token_of_a_living_hold(state: Box, spoil: str) -> None:
    """The same file is still ours, whatever it says; anything else in its place is left as it is."""
    lane = state.run("sleep", NAP, options=["--max-hold", "1.5", "--grace", "0.3"])
    state.until_running()
    subprocess.run(["sh", "-c", spoil.format(state.token)], check=True)
    ours = state.token.is_file()
    assert ended(state.run("true", options=["-w", "0.3"]))[0] == 121
    assert ended(lane)[0] == (124 if ours else 125)
    assert os.path.lexists(state.token) is not ours
    assert sleepers() == []
