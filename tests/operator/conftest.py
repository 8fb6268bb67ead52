"""A state directory for each test of the operator."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hold.lanes import NAP, Box


@pytest.fixture
def state(tmp_path: Path) -> Box:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o2770)
    return Box(directory)


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """The same command line as the payload's, in the same process group as the lanes: no part of any plan."""
    with subprocess.Popen(["sleep", NAP]) as sleeper:
        yield sleeper
        sleeper.kill()
