"""What is asked of a recording costs what is shown of it, however long it is."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdtop.errors import RecordingError
from holdtop.recorder import recording, ring
from holdtop.recorder.recording import Recording
from tests.console.boxes import QUIET
from tests.recorder.scenes import at, record

LOOKS = 800


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each reading of a segment gave."""
    sizes: list[int] = []
    before: Callable[..., bytes] = ring.read

    def counted(*words: Any) -> bytes:
        sizes.append(len(data := before(*words)))
        return data

    monkeypatch.setattr(recording, "read", counted)
    return sizes


def test_a_look_is_read_alone_and_as_it_was(tmp_path: Path, read: list[int]) -> None:
    record(tmp_path, (at(second, QUIET) for second in range(LOOKS)))
    tape = Recording(str(tmp_path))
    whole = sum(read)
    read.clear()
    seconds = random.Random(1).sample(range(LOOKS), 20)
    assert [tape.snapshot(second).taken_at for second in seconds] == [at(second, QUIET).taken_at for second in seconds]
    assert max(read) < whole // 10
    assert sum(read) < whole


def test_a_look_whose_segment_was_cut_meanwhile_is_refused(tmp_path: Path) -> None:
    record(tmp_path, (at(second, QUIET) for second in range(20)))
    tape = Recording(str(tmp_path))
    for segment in tmp_path.glob("*.rec"):
        os.truncate(segment, segment.stat().st_size // 2)
    with pytest.raises(RecordingError, match="open the recording again"):
        tape.snapshot(19)
