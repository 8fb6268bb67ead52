"""SIGKILL of either process of a hold, or of both, at random moments of its whole life: nothing is left."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from holdtop.payload.process import ProcessTable
from tests.hold.lanes import NAP, Box, ended, sleepers, until

EPISODES = 500
SEED = int(os.environ.get("LONG_SEED", "20261201"))

PAYLOAD = f"""
mkdir $0/inside || echo two >> $0/broken
(trap '' TERM; sleep {NAP}) & setsid sleep {NAP} &
sleep 0.3; kill %1 2>/dev/null; kill -9 $! 2>/dev/null; rmdir $0/inside
"""


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_kill_at_any_moment(state: Box, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    broken = tmp_path / "broken"
    killed = dict.fromkeys(("supervisor", "keeper", "both"), 0)
    for episode in range(EPISODES):
        victims, delay = dice.choice(("supervisor", "keeper", "both")), dice.uniform(0, 0.8)
        where = f"seed {SEED}, episode {episode}: {victims} after {delay:.3f} s"
        lane = state.run("sh", "-c", PAYLOAD, str(tmp_path), options=["--grace", "0.2"], stderr=subprocess.DEVNULL)
        time.sleep(delay)
        for pid in _pids(lane.pid, victims):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed[victims] += 1
        lane.wait(20)
        status, errors = ended(state.run("true", options=["--grace", "0.2"]), 30)
        assert status == 0, f"{where}: {errors}"
        assert not broken.exists(), where
        until(lambda: not sleepers(), 5)
        assert state.leftovers() == [], where
        with contextlib.suppress(FileNotFoundError):
            (tmp_path / "inside").rmdir()  # its owner was killed inside
    assert min(killed.values()) > EPISODES // 8, f"the sweep missed: {killed}"


def _pids(supervisor: int, victims: str) -> list[int]:
    """The processes to kill; the keeper is the supervisor's only child."""
    keepers = ProcessTable().children.get(supervisor, [])
    return {"supervisor": [supervisor], "keeper": keepers, "both": [supervisor, *keepers]}[victims]
