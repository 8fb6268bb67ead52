"""A state directory for each test of the hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hold.lanes import Box


@pytest.fixture
def state(tmp_path: Path) -> Box:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o2770)
    return Box(directory)
