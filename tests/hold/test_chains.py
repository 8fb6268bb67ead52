"""Chains of forks on a busy box: one look at all processes takes longer than a link of the chain lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from holdtop.payload import members
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.custody import Holds
from holdtop.payload.members import Scope, find
from holdtop.payload.process import Identity, ProcessTable, own_identity, read_stat
from tests.hold.groups import inside
from tests.hold.lanes import Box, ended, kill_both, until
from tests.hold.test_containment import CHAIN

#: Ends a chain of 20 ms a link with looks of 40 ms; the first argument is whether by descent or by the mark alone.
SLOW_END = f"""
import os, subprocess, sys, time
from holdtop.payload import linux, members
from holdtop.payload.custody import Holds
from holdtop.payload.ending import Bounds, Ending, Reaper
from holdtop.payload.process import ProcessTable, read_stat

class Slow(ProcessTable):
    def __init__(self):
        super().__init__()
        time.sleep(0.04)

members.ProcessTable = Slow
descent = sys.argv[1] == "descent"
if descent:
    linux.become_subreaper()
os.environ["HOLDTOP_RUN"] = "ticket:nonce"
root = subprocess.Popen([sys.executable, "-c", {CHAIN!r}, "0.02"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
time.sleep(0.3)
scope = members.Scope(read_stat(os.getpid()).identity, "ticket:nonce", os.getuid(), os.getpid() if descent else None)
ending = Ending(scope, Bounds(0.0, 10.0), Reaper(root.pid) if descent else None, Holds)
print(len(ending.run(time.sleep)[1]))
"""


@pytest.mark.parametrize("means", ["descent", "marker"])
def test_a_chain_ends_though_a_look_is_longer_than_a_link(home: Cgroup, means: str) -> None:
    """The found link was dead when it was signalled, and so on for ever."""
    done = subprocess.run(
        [sys.executable, "-c", SLOW_END, means], check=True, capture_output=True, text=True, **inside(home)
    )
    assert done.stdout == "0\n", done.stderr
    assert home.populated() is False


@pytest.mark.parametrize("pause", ["0.002", "0.02"])
def test_a_chain_that_a_doubly_killed_hold_left_is_ended_by_its_mark(state: Box, home: Cgroup, pause: str) -> None:
    """No link of it is on record, and two empty looks in a row were taken for its end."""
    contain = ["--contain", "subreaper"]
    lane = state.run(sys.executable, "-c", CHAIN, pause, options=contain, stderr=subprocess.DEVNULL, **inside(home))
    kill_both(lane, state.until_running()["keeper_pid"])
    assert home.populated()
    status, errors = ended(state.run("true", options=["--grace", "0.3", *contain], **inside(home)))
    assert status == 0, errors
    assert home.populated() is False


def test_who_dies_during_a_look_does_not_keep_a_cgroup_from_being_killed(
    home: Cgroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a chain one link always does: the cgroup seemed to hold a stranger, and was never killed in one step."""
    with (
        subprocess.Popen(["sleep", "600"], **inside(home)) as stays,
        subprocess.Popen(["sleep", "600"], **inside(home)) as dies,
    ):

        class Late(ProcessTable):
            def __init__(self) -> None:
                os.kill(dies.pid, signal.SIGKILL)
                until(lambda: (stat := read_stat(dies.pid)) is None or stat.dead)
                super().__init__()

        monkeypatch.setattr(members, "ProcessTable", Late)
        root = Identity(stays.pid, own_identity().start_ticks)
        found = find(Scope(root, "ticket:nonce", os.getuid(), reaper=None, cgroups=(home,)), Holds)
        assert [one.identity.pid for one in found.members] == [stays.pid]
        assert found.sole == (home,)
        stays.kill()
