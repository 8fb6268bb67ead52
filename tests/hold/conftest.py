"""A state directory and sensors for each test of the hold, and terminals that are closed after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.payload.cgroup import Cgroup
from tests.hold.groups import group
from tests.hold.lanes import Box
from tests.hold.sensors import Sensors
from tests.hold.typist import Typist


@pytest.fixture
def state(tmp_path: Path) -> Box:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o2770)
    return Box(directory)


@pytest.fixture
def home() -> Iterator[Cgroup]:
    """A cgroup in which a test starts its lanes, so that only its own groups are seen."""
    with group() as made:
        yield made


@pytest.fixture
def sensors(tmp_path: Path) -> Sensors:
    return Sensors(tmp_path)


@pytest.fixture
def typists() -> Iterator[list[Typist]]:
    started: list[Typist] = []
    yield started
    for typist in started:
        typist.close()
