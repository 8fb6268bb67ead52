"""A recording that was cut or changed anywhere opens up to there, and says so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import RecordingError
from holdtop.model.values import Snapshot
from holdtop.recorder import codec, frames, recording
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import Bounds
from tests.recorder.scenes import STORY, at, read, record
from tests.recorder.test_codec import GOLDEN

WHOLE = GOLDEN.read_bytes()
LOOKS = read(GOLDEN)


def ends() -> list[int]:
    """Where each record ends."""
    good = [frames.scan(WHOLE[:length]) for length in range(len(frames.head({})) + 60, len(WHOLE) + 1)]
    return sorted({one.good for one in good})


ENDS = ends()


def opened(path: Path, data: bytes) -> tuple[list[Snapshot], tuple[str, ...]]:
    path.write_bytes(data)
    try:
        opened = Recording(str(path))
    except RecordingError as error:
        return [], (str(error),)
    return [opened.snapshot(place) for place in range(len(opened.instants))], opened.damage


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage") / "x.rec"


@given(st.integers(0, len(WHOLE) - 1))
def test_cut_anywhere(file: Path, length: int) -> None:
    looks, damage = opened(file, WHOLE[:length])
    whole = sum(end <= length for end in ENDS) - 1
    assert looks == LOOKS[: max(0, whole)]
    assert damage or length in ENDS


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 7))
def test_a_bit_flipped_anywhere(file: Path, place: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[place] ^= 1 << bit
    looks, damage = opened(file, bytes(data))
    whole = sum(end <= place for end in ENDS) - 1
    assert looks == LOOKS[: max(0, whole)]
    assert len(damage) == 1


def test_it_is_said_up_to_when_it_is_good(file: Path) -> None:
    _, (said,) = opened(file, WHOLE[: ENDS[3] + 5])
    assert re.fullmatch(r".*x\.rec: damaged at byte \d+ \(the record there is cut short\); good up to \S+", said)


def test_what_is_none_is_none(file: Path) -> None:
    for data in (b"", b"x", b"\x89HOLDTOP", b"text\n" * 100):
        looks, (said,) = opened(file, data)
        assert looks == []
        assert "it is no recording" in said or "damaged" in said


def test_a_newer_format_is_told(file: Path) -> None:
    _, (said,) = opened(file, frames._HEAD.pack(frames._MAGIC, 2, 2, frames._head_crc(2, b"{}")) + b"{}")
    assert "a newer holdtop made it (format 2)" in said


def test_a_record_that_would_fill_a_memory_is_refused() -> None:
    bomb = frames.Packer().pack(bytes(frames.LARGEST_BODY + 1))[1]
    with pytest.raises(RecordingError, match="too large"):
        frames.unpack(bomb)


def test_the_other_segments_of_a_damaged_recording_are_shown(tmp_path: Path) -> None:
    record(tmp_path / "r", STORY)
    (fine,) = (tmp_path / "r").glob("fine*")
    fine.write_bytes(fine.read_bytes()[:300])
    assert len(Recording(str(tmp_path / "r")).damage) == 1
    assert [one.taken_at for one in read(tmp_path / "r")] == [one.taken_at for one in STORY]


def test_a_torn_tail_is_cut_off_at_reopening_and_said(tmp_path: Path) -> None:
    record(tmp_path / "r", STORY)
    (fine,) = (tmp_path / "r").glob("fine*")
    fine.write_bytes(fine.read_bytes()[:-7])
    said: list[str] = []
    record(tmp_path / "r", [STORY[-1]], said=said)
    assert len(said) == 1
    assert "cut off" in said[0]
    assert Recording(str(tmp_path / "r")).damage == ()


def test_of_a_recording_that_is_too_large_the_newest_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path / "r", (at(second, STORY[1]) for second in range(24)), (Bounds("fine", 1.0, 24, 1 << 20),))
    size = sum(file.stat().st_size for file in (tmp_path / "r").glob("*.rec"))
    monkeypatch.setattr(recording, "MOST_BYTES", size // 2)
    newest = Recording(str(tmp_path / "r"))
    assert [said.split(": ")[1][:15] for said in newest.damage] == ["it is too large"]
    assert 5 < len(newest.instants) < 20
    assert newest.snapshot(-1).taken_at == at(23, STORY[1]).taken_at


def test_an_act_of_nobody_is_left_out(tmp_path: Path) -> None:
    """What is told beside a look comes from whoever made the recording."""
    acts: list[object] = [{"uid": [], "act": "a"}, {"act": "b"}, 7, {"uid": 5, "act": "c"}]
    side = frames.pack_side({"acts": acts, "marks": [{"kind": "x"}, None], "events": [1]})
    kind, body = frames.Packer().pack(codec.encode(STORY[0]))
    (tmp_path / "x.rec").write_bytes(frames.head({}) + frames.frame(frames.Frame(kind, 1, 0, side, body)))
    told = Recording(str(tmp_path / "x.rec")).told
    assert [one.act for one in told] == [{"uid": 5, "act": "c"}]
