"""A TERM at any moment of the start-up leaves nothing: swept line by line through both processes of the hold."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hold.lanes import NAP, Box, sleepers, until

DRIVER = str(Path(__file__).with_name("sweep_driver.py"))
#: Positions tried in each process; together more than 500.
POSITIONS = {"supervisor": 360, "keeper": 160}
PARTS = 4


def driven(state: Box, role: str, position: int, **kwargs: str) -> subprocess.Popen[bytes]:
    words = ["run", "--state-dir", str(state.state), "--grace", "2", "--", "sleep", NAP]
    return subprocess.Popen(
        [sys.executable, DRIVER, role, str(position), "TERM", "supervisor", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **kwargs},
    )


def start_up_lines(state: Box, role: str, tmp_path: Path) -> int:
    """How many lines that process executes until the payload runs and nothing more happens by itself."""
    log = tmp_path / "log"
    lane = driven(state, role, 0, SWEEP_LOG=str(log))
    until(lambda: log.exists() and log.read_text().endswith("\n"), 20)
    lane.terminate()
    lane.wait(20)
    return int(log.read_text().split()[1])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("role", POSITIONS)
def test_a_term_at_any_moment_of_the_start_leaves_nothing(state: Box, tmp_path: Path, role: str, part: int) -> None:
    total = start_up_lines(state, role, tmp_path)
    assert total > 100, "the sweep would not reach into the start-up"
    wanted = POSITIONS[role]
    positions = sorted({1 + total * step // wanted for step in range(wanted)})[part::PARTS]
    for position in positions:
        lane = driven(state, role, position)
        status = lane.wait(20)
        where = f"{role} line {position} of {total}"
        assert status in (143, -15), f"{where}: status {status}"
        assert sleepers() == [], where
        assert state.leftovers() == [], where
