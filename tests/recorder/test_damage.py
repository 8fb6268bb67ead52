"""A recording that was cut or changed anywhere opens up to there, and says so."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import RecordingError
from holdtop.hold.files import Dir
from holdtop.model.values import Snapshot
from holdtop.recorder import codec, frames, recording
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import Bounds, Ring
from tests.console.boxes import QUIET
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


@pytest.mark.parametrize("left", [b"", b"HLDT", bytes(400)], ids=["empty", "a beginning", "zeroes"])
def test_a_segment_without_a_head_stops_no_recording(tmp_path: Path, left: bytes) -> None:
    """As a power cut leaves it: its name is taken, and what comes next goes on behind it."""
    directory = tmp_path / "recording"
    record(directory, [at(number, STORY[0]) for number in range(3)])
    (fine,) = directory.glob("fine-*.rec")
    fine.write_bytes(left)
    said: list[str] = []
    recorder = Recorder(str(directory), said.append)
    for number in range(10, 14):
        recorder.take(at(number, STORY[1]))
    recorder.close()
    assert not [line for line in said if "cannot record" in line]
    found = Recording(str(directory))
    assert found.snapshot(len(found.instants) - 1).taken_at == at(13, STORY[1]).taken_at


def test_segments_without_a_head_are_within_the_bounds(tmp_path: Path) -> None:
    for number in range(1, 6):
        (tmp_path / f"fine-{number:012}.rec").write_bytes(b"?" * 1000)
    ring = Ring(Dir.root(str(tmp_path)), Bounds("fine", 1.0, 4, 2500), {})
    assert list(ring.reopen()) == []
    ring.append(6, 0, b"{}", b"{}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"fine-{number:012}.rec" for number in (4, 5, 6)]
    ring.close()


@pytest.mark.parametrize("content", [b"{", b"[" * 100_000, b"\xff", b"[]"])
def test_a_head_of_anything_is_refused(tmp_path: Path, content: bytes) -> None:
    looks, damage = opened(tmp_path / "x.rec", crafted(content))
    assert looks == []
    assert "the head of the recording is none of holdtop's" in damage[0]


def crafted(content: bytes) -> bytes:
    """A head with the right sums over what is no head."""
    size = frames._HEAD.size
    magic, number, *_ = frames._HEAD.unpack_from(frames.head({}))
    return frames._HEAD.pack(magic, number, len(content), frames._head_crc(number, content))[:size] + content


def test_a_recording_that_was_opened_keeps_no_descriptor(tmp_path: Path) -> None:
    record(tmp_path / "recording", [at(number, STORY[0]) for number in range(3)])
    before = len(os.listdir("/proc/self/fd"))
    kept = [Recording(str(tmp_path / "recording")) for _ in range(5)]
    assert [one.snapshot(2) for one in kept]
    assert len(os.listdir("/proc/self/fd")) == before


#: Segments of twelve looks, four of them and the one that is written.
FEW = Bounds("fine", 1.0, 144, 1 << 20)
LONG = tuple(at(second, STORY[second % 2]) for second in range(50))


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("fine-*.rec"))


def flipped(file: Path) -> bytes:
    """A bit in the middle of the file."""
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("place", [0, 1, -1], ids=["first", "middle", "last"])
def test_a_bit_flipped_in_a_segment_costs_no_look_behind_it(tmp_path: Path, place: int) -> None:
    """The next recorder cut off all that came after the bit, and the damage could be seen no more."""
    record(tmp_path, LONG, (FEW,))
    file = segments(tmp_path)[place]
    data = flipped(file)
    damage = Recording(str(tmp_path)).damage
    said: list[str] = []
    record(tmp_path, [at(60, QUIET)], (FEW,), said)
    assert (said, file.read_bytes()) == ([], data)
    found = Recording(str(tmp_path))
    assert found.damage == damage
    assert len(damage) == 1
    assert found.snapshot(len(found.instants) - 1).taken_at == at(60, QUIET).taken_at


def test_a_length_that_was_flipped_is_no_torn_tail(tmp_path: Path) -> None:
    record(tmp_path, STORY, (FEW,))
    (file,) = segments(tmp_path)
    data = bytearray(file.read_bytes())
    data[data.index(frames._RECORD) + 6] ^= 0x80
    file.write_bytes(data)
    record(tmp_path, [at(60, QUIET)], (FEW,))
    assert file.read_bytes() == bytes(data)
    assert len(segments(tmp_path)) == 2


def test_a_record_of_a_newer_holdtop_is_kept(tmp_path: Path) -> None:
    record(tmp_path, STORY, (FEW,))
    (file,) = segments(tmp_path)
    newer = file.read_bytes() + frames.frame(frames.Frame(7, 6, 0, b"", b"what a later version knows"))
    file.write_bytes(newer)
    said: list[str] = []
    record(tmp_path, [at(60, QUIET)], (FEW,), said)
    assert (said, file.read_bytes()) == ([], newer)
    assert "unknown kind" in Recording(str(tmp_path)).damage[0]


def test_a_torn_tail_of_an_older_segment_stays(tmp_path: Path) -> None:
    record(tmp_path, LONG, (FEW,))
    file = segments(tmp_path)[1]
    file.write_bytes(file.read_bytes()[:-3])
    size = file.stat().st_size
    record(tmp_path, [at(60, QUIET)], (FEW,))
    assert file.stat().st_size == size


def test_looks_that_are_missing_are_told(tmp_path: Path) -> None:
    """A segment that lacks records at its end is whole by all its checksums."""
    record(tmp_path, LONG, (FEW,))
    assert Recording(str(tmp_path)).damage == ()
    file = segments(tmp_path)[1]
    found = frames.scan(file.read_bytes()).frames
    file.write_bytes(file.read_bytes()[: -len(frames.frame(found[-1]))])
    (said,) = Recording(str(tmp_path)).damage
    lost, after = (recording.clock(at_ms) for at_ms in (found[-2].at_ms, found[-1].at_ms + 1000))
    assert said == f"1 look is missing between {lost} and {after}"
    file.unlink()
    (said,) = Recording(str(tmp_path)).damage
    assert said.startswith(f"{len(found)} looks are missing between ")
    segments(tmp_path)[0].unlink()  # as when it is pruned
    assert Recording(str(tmp_path)).damage == ()


def test_a_look_that_the_other_ring_has_is_not_missing(tmp_path: Path) -> None:
    coarse = Bounds("coarse", 1.0, 144, 1 << 20)
    record(tmp_path, LONG, (FEW, coarse))
    segments(tmp_path)[1].unlink()
    found = Recording(str(tmp_path))
    assert (found.damage, len(found.instants)) == ((), len(LONG))


def test_looks_less_often_than_a_second_apart_leave_no_gap(tmp_path: Path) -> None:
    record(tmp_path, (at(0.7 * number, STORY[number % 5]) for number in range(200)))
    for file in tmp_path.glob("coarse-*"):
        file.unlink()
    assert Recording(str(tmp_path)).damage == ()
