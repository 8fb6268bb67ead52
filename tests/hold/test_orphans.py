"""The orphan matrix: whatever a payload left behind and however its hold ended, the token outlives it all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hold.orphan_holds import ROWS, Hold, broken, play_hold
from tests.hold.orphans import build


@pytest.fixture(scope="module")
def program() -> Iterator[str]:
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler: the payload's program is built")
    with tempfile.TemporaryDirectory(prefix="holdtop-orphans-") as top:
        Path(top).chmod(0o755)
        yield build(Path(top))


@pytest.mark.parametrize("end", Hold.ends)
@pytest.mark.parametrize("row", ROWS)
def test_no_process_of_any_kind_outlives_the_token(program: str, row: str, end: str) -> None:
    if ROWS[row].uid and os.geteuid() != 0:
        pytest.skip("needs root: acts as another account")
    outcome = play_hold(program, row, end, grace=0.3, wait=20)
    assert not broken(outcome), outcome
