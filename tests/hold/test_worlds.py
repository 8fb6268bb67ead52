"""Pids, start times and ``/proc`` mean something else elsewhere: nobody is called dead on what another world says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.hold.look import look
from holdtop.hold.places import resolve
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, identity, kill_both, sleepers, until
from tests.hold.test_accounts import ONE, as_account, said, shared
from tests.hold.test_deaths import line, patched
from tests.hold.unkillable import finally_ended, set_uid_helper
from tests.hold.worlds import CONTAINER, SOON, hold, inside

__all__ = ["shared"]

if os.geteuid() != 0:
    pytest.skip("needs root: makes namespaces", allow_module_level=True)

HIDEPID = ("unshare", "-m", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc; exec "$@"', "sh")


def kind_of(state: Box) -> str:
    found = look(resolve("gpu", str(state.state))).token
    return "free" if found is None else "ghost" if found.ghost else "held"


@contextlib.contextmanager
def killed_at_the_end(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """With everything in its namespace."""
    with process:
        try:
            yield process
        finally:
            process.kill()
    until(lambda: not sleepers())


@pytest.mark.parametrize("name", ["recycled", "token_elsewhere"])
def test_inside(state: Box, name: str) -> None:
    with inside(CONTAINER, name, state) as there:
        status, errors = ended(there, 60)
        assert status == 0, errors


def test_a_hold_is_the_first_process_of_a_container(state: Box) -> None:
    """As an entrypoint: its pid is 1, it ends what it started, and its status is the command's."""
    words = [*CONTAINER, *HOLDTOP, "run", "--state-dir", str(state.state), *SOON, "--"]
    done = subprocess.run([*words, "sh", "-c", f"setsid -f sleep {NAP}; exit 7"], capture_output=True, timeout=30)
    assert done.returncode == 7, done.stderr
    assert sleepers() == []
    assert state.leftovers() == []
    with killed_at_the_end(hold(state, *CONTAINER)):
        assert state.until_running()["ticket"].endswith("-1")
        assert kind_of(state) == "held"
        assert ended(state.run("true", options=["-w", "1"]))[0] == 121


def test_a_killed_containers_token_is_a_ghost(state: Box) -> None:
    with killed_at_the_end(hold(state, *CONTAINER)):
        started = state.until_running()
    until(lambda: kind_of(state) == "ghost")
    status, errors = ended(state.run("true", options=["-w", "10", *SOON]))
    assert status == 0, errors
    assert f"its hold {started['ticket']} (lane" in errors
    assert state.leftovers() == []


def test_a_hold_that_died_in_a_living_container_proves_nothing_outside(state: Box) -> None:
    with inside(CONTAINER, "dead_inside", state, stdout=subprocess.PIPE) as there, killed_at_the_end(there):
        assert there.stdout
        assert there.stdout.readline() == b"ready\n"
        assert kind_of(state) == "held", "its payload may live in there"
        status, errors = ended(state.run("true", options=["-w", "1", *SOON]))
        assert status == 121, errors
        freed = state.verb("recover", "--reason", "test", "--yes")
        assert freed.returncode == 6
        assert "in its own as long as that runs" in freed.stderr
    assert ended(state.run("true", options=["-w", "10", *SOON]))[0] == 0


def test_a_containers_pids_spare_nobody_outside(state: Box) -> None:
    """A living hold in there has the very number that here a dead hold's payload has."""
    lane = state.run("sleep", NAP, options=["--contain", "subreaper"], stderr=subprocess.DEVNULL)
    started = state.until_running()
    root = identity(started["root_pid"])
    script = f'echo {root.pid - 1} > /proc/sys/kernel/ns_last_pid; "$@" & wait'
    with killed_at_the_end(hold(state, *CONTAINER, "sh", "-c", script, "sh", resource="npu")):
        until((state.state / "npu-token").exists)
        assert (state.state / "npu-token").read_text().split()[1] == str(root.pid)
        kill_both(lane, started["keeper_pid"])
        (state.queue / ".record" / f"{started['ticket']}.json").unlink()  # known by its mark alone
        status, errors = ended(state.run("true", options=["-w", "10", *SOON]))
        assert status == 0, errors
        assert root.pid not in sleepers()


def test_another_time_namespace_proves_nothing(state: Box) -> None:
    """There the same process has another start time."""
    clocks = ("unshare", "-T", "--boottime", "100000")
    done = subprocess.run([*clocks, *line(state, "sh", "-c", "exit 7")], capture_output=True, timeout=30)
    assert done.returncode == 7
    with hold(state, *clocks) as lane:
        started = state.until_running()
        assert ended(state.run("true", options=["-w", "1"]))[0] == 121
        kill_both(lane, started["keeper_pid"])
        assert kind_of(state) == "held"
        assert ended(state.run("true", options=["-w", "1", *SOON]))[0] == 121
        assert sleepers() == [started["root_pid"]]
        os.kill(started["root_pid"], signal.SIGKILL)
        until(lambda: not sleepers())


def test_who_cannot_be_seen_is_not_called_dead(shared: Box) -> None:
    """``hidepid``: a set-uid program of a dead hold is in no list of processes that its account is shown."""
    pid = shared.state.parent / "pid"
    pid.touch()
    pid.chmod(0o666)
    with set_uid_helper() as as_root:
        program = f"exec >/dev/null 2>&1; {' '.join(as_root)} sh -c 'echo $$ > {pid}; exec sleep {NAP}' & sleep {NAP}"
        lane = as_account(ONE, shared, "run", *SOON, "--", "sh", "-c", program)
        shared.until_running()
        until(lambda: pid.read_text().endswith("\n"))
        with finally_ended(int(pid.read_text())) as (theirs,):
            lane.terminate()
            assert said(lane)[0] == 143

            def hidden(command: list[str], **kwargs: object) -> subprocess.Popen[str]:
                return subprocess.Popen([*HIDEPID, *command], **kwargs)  # type: ignore[call-overload,no-any-return]

            waiter = as_account(ONE, shared, "run", *SOON, "-w", "2", "--", "true", popen=hidden)
            status, errors = said(waiter)
            assert status == 121, errors
            assert f"pids [{theirs.pid}] of the dead hold still run" in errors
        assert said(as_account(ONE, shared, "run", *SOON, "-w", "10", "--", "true", popen=hidden))[0] == 0
    assert shared.leftovers() == []


def test_a_machine_that_was_renamed_is_the_same(state: Box) -> None:
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    kill_both(lane, state.until_running()["keeper_pid"])
    renamed = ["unshare", "-u", "sh", "-c", 'hostname another; exec "$@"', "sh", *line(state, "true", options=SOON)]
    done = subprocess.run([*renamed[:-2], "-w", "10", *renamed[-2:]], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_hold_moves_when_a_shared_directory_appears_while_it_waits(state: Box, box: Path, tmp_path: Path) -> None:
    """The rule is asked again right after the take: two places at once would be two holders."""
    fleet = Box(tmp_path / "fleet")
    ruled = patched(f"from holdtop.hold import places; places.DEFAULT_STATE_DIR = {str(fleet.state)!r}")
    run = [*ruled, "run", "-w", "30", "--"]
    home = box / "home"
    with subprocess.Popen([*run, "sleep", NAP], stderr=subprocess.DEVNULL) as holder:
        until((home / "GPU-TOKEN").exists)
        with subprocess.Popen([*run, "sh", "-c", f"ls {fleet.token} {home}"], stderr=subprocess.PIPE) as waiter:
            until(lambda: len([name for name in os.listdir(home / "GPU-QUEUE") if name[0] != "."]) == 2)
            fleet.state.mkdir()
            holder.terminate()
            status, errors = ended(waiter, 30)
    assert status == 0, errors
    assert "the state has moved" in errors
    assert "exists) is given back" not in errors
    assert not (home / "GPU-TOKEN").exists()
    assert [event["event"] for event in fleet.events()][:3] == ["queued", "head", "taken"]
    assert json.loads((fleet.queue / ".receipts.jsonl").read_text())["verdict"] == "clean"
    assert fleet.leftovers() == []


def test_the_library_tells_two_state_directories_apart(state: Box, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    program = f"""
from holdtop.errors import HoldError
from holdtop.hold import Hold, run
with Hold("gpu", state_dir={str(state.state)!r}):
    print(run(["sh", "-c", "exit 9"], state_dir={str(other)!r}))
    try:
        run(["true"], state_dir={str(state.state)!r} + "/../state", wait=0)
    except HoldError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines()[:1] == ["9"], done.stderr
    assert "holds gpu itself" in done.stdout
