"""Shell lanes and ours at one token, as tight as they can: never two at once, and no token lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdtop.payload.process import Pinned, ProcessTable
from tests.hold.lanes import HOLDTOP, Box, ended
from tests.hold.peers import PEER, Marks, variables

HERE = Path(__file__).parent
SEED = os.environ.get("LONG_SEED", "1")
#: ``sh -c LOOP TURNS COMMAND…``: that many holds of one lane, one after the other.
LOOP = 'turns=$0; while [ "$turns" -gt 0 ]; do "$@" || exit 1; turns=$((turns - 1)); done'
LONG = [pytest.mark.long, pytest.mark.timeout(1200)]


@pytest.fixture
def marks(tmp_path: Path) -> Marks:
    return Marks(tmp_path / "mark")


def loop(box: Box, turns: int, *command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["sh", "-c", LOOP, str(turns), *command],
        env=variables(box, PEER_POLL="0.01"),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(("shells", "ours"), [(12, 5), pytest.param(100, 50, marks=LONG)])
def test_both_kinds_take_turns_at_one_token(state: Box, marks: Marks, shells: int, ours: int) -> None:
    state.queue.mkdir()
    lanes = [loop(state, shells, PEER, *marks.payload(f"s{i}")) for i in range(3)]
    lanes += [loop(state, ours, *HOLDTOP, "run", "--", *marks.payload(f"h{i}")) for i in range(3)]
    assert [lane.wait(1000) for lane in lanes] == [0] * 6
    expected = [f"s{i}" for i in range(3)] * shells + [f"h{i}" for i in range(3)] * ours
    assert sorted(marks.turns()) == sorted(expected)
    assert marks.overlaps() == 0
    assert state.leftovers() == []


@pytest.mark.parametrize("turns", [60, pytest.param(500, marks=LONG)])
def test_ghosts_are_recovered_beside_shells_that_take_in_no_time(state: Box, marks: Marks, turns: int) -> None:
    state.queue.mkdir()
    shell = [str(HERE / "race_driver.sh"), str(state.token), str(marks.file), str(turns)]
    ours = [sys.executable, "-P", str(HERE / "race_driver.py"), str(state.state), str(marks.file), str(turns)]
    lanes = [subprocess.Popen(shell) for _ in range(2)]
    lanes += [subprocess.Popen([*ours, f"{SEED}-{i}"]) for i in range(3)]
    try:
        assert [lane.wait(1000) for lane in lanes] == [0] * 5
    finally:
        for lane in lanes:
            lane.kill()
            lane.wait()
    assert len(marks.turns()) == 5 * turns
    assert marks.overlaps() == 0
    assert marks.words("lost") == []
    assert len(marks.words("recovered")) > turns // 4
    assert ended(state.run("true"))[0] == 0  # the last one may have died with it
    assert state.leftovers() == []


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=LONG)])
def test_holds_killed_at_any_instant_beside_shells(state: Box, marks: Marks, kills: int) -> None:
    state.queue.mkdir()
    choice = random.Random(SEED)
    shells = [loop(state, kills * 4, PEER, *marks.payload(f"s{i}")) for i in range(2)]
    for _ in range(kills):
        lane = state.run(*marks.payload("killed", "2"), options=["--grace", "1"], stderr=subprocess.DEVNULL)
        time.sleep(choice.uniform(0.0, 0.6))
        kill_whole(lane)
        status, said = ended(state.run(*marks.payload("next"), options=["--grace", "1"]), 60)
        assert status == 0, said
    assert [shell.wait(1000) for shell in shells] == [0, 0]
    assert marks.overlaps() == 0
    assert marks.turns().count("next") == kills
    assert [marks.turns().count(f"s{i}") for i in range(2)] == [kills * 4] * 2
    assert ended(state.run("true", options=["--grace", "1"]), 60)[0] == 0
    assert state.leftovers() == []


def kill_whole(lane: subprocess.Popen[bytes]) -> None:
    """Both processes of a hold, whatever it is doing; what is below them stays."""
    lane.send_signal(signal.SIGSTOP)
    table = ProcessTable()
    for pid in table.children.get(lane.pid, ()):
        try:
            with Pinned(table.stats[pid].identity) as keeper:
                keeper.send(signal.SIGKILL)
        except ProcessLookupError:
            continue
    lane.kill()
    lane.wait()
