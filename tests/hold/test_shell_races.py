"""Shell lanes and ours at one token, as tight as they can: never two at once, and no token lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hold.lanes import HOLDTOP, Box
from tests.hold.peers import Marks, variables

#: Turns that each lane takes, one after the other: (shell lanes, our lanes).
SHORT = (12, 5)
LONG = (80, 80)
#: ``sh -c LOOP TURNS COMMAND…``: that many holds, one after the other, of one lane.
LOOP = 'turns=$0; while [ "$turns" -gt 0 ]; do "$@" || exit 1; turns=$((turns - 1)); done'


def loop(box: Box, turns: int, *command: str, lane: str) -> subprocess.Popen[bytes]:
    environ = variables(box, PEER_LANE=lane, PEER_POLL="0.01")
    return subprocess.Popen(
        ["sh", "-c", LOOP, str(turns), *command], env=environ, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize(
    ("shells", "ours"), [SHORT, pytest.param(*LONG, marks=[pytest.mark.long, pytest.mark.timeout(900)])]
)
def test_both_kinds_take_turns_at_one_token(state: Box, tmp_path: Path, shells: int, ours: int) -> None:
    marks = Marks(tmp_path / "mark")
    state.queue.mkdir()
    from tests.hold.peers import PEER

    lanes = [loop(state, shells, PEER, *marks.payload(f"s{i}"), lane=f"s{i}") for i in range(3)]
    lanes += [loop(state, ours, *HOLDTOP, "run", "--", *marks.payload(f"h{i}"), lane=f"h{i}") for i in range(3)]
    assert [lane.wait(800) for lane in lanes] == [0] * 6
    assert marks.overlaps() == 0
    assert sorted(marks.turns()) == sorted(
        [
            *(f"s{i}" for i in range(3)),
        ]
        * shells
        + [f"h{i}" for i in range(3)] * ours
    )
    assert state.leftovers() == []
