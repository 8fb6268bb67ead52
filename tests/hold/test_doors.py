"""One grace and one bound, whatever sends a payload out."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import pytest

from holdtop.payload.process import Pinned, is_alive
from holdtop.payload.signals import ready
from tests.hold.doors import DOORS, GRACE, SURVIVE_WAIT, visit
from tests.hold.lanes import Box, sleepers, until
from tests.hold.test_resist import recorded
from tests.hold.unkillable import FREEZER, finally_ended, freezer


@pytest.mark.parametrize("name", DOORS)
def test_grace_and_bound_are_the_same_at_every_door(state: Box, tmp_path: Path, name: str) -> None:
    """A member that ignores TERM has its whole grace, although the root is gone; one that KILL cannot end, its wait."""
    door = DOORS[name]
    with contextlib.ExitStack() as stack:
        seen = visit(state, tmp_path, door)
        deaf, still = stack.enter_context(finally_ended(seen.deaf, seen.still))
        ice = stack.enter_context(freezer()) if os.geteuid() == 0 and FREEZER.exists() else None
        if ice:
            ice.freeze(still.pid)
        with Pinned(deaf) as pinned:
            door.open(seen)
            assert ready((pinned.fd,), 20), "it was never killed"
        dead = time.monotonic() - seen.opened
        assert seen.heard, "no TERM came before KILL"
        assert dead >= GRACE
        status, *others = seen.over()
        assert status == door.status
        if ice:
            until(lambda: recorded(state) == [still.pid])
            assert time.monotonic() - seen.opened >= GRACE + SURVIVE_WAIT
            assert is_alive(still)
            ice.thaw()
            until(lambda: not is_alive(still))
        assert others in ([], [0], [5] if ice else [])
    assert sleepers() == []
    assert state.leftovers() == (["token"] if name == "token-lost" else [])
