"""Rings on a real disk: bounds, two recorders, a kill at any moment, a disk that is full for a while."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from holdtop.errors import RecordingError
from holdtop.hold import audit
from holdtop.model.values import Resource, Snapshot
from holdtop.recorder import codec, frames
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import COARSE, FINE, Bounds
from tests.hold.test_weather_disks import in_mount_namespace
from tests.recorder.scenes import SETTLED, STORY, at, read, record

DRIVER = [sys.executable, "-m", "tests.recorder.driver"]
ROOT = Path(__file__).parents[2]
SMALL = Bounds("fine", 1.0, 24, 1 << 20)
QUIET = STORY[0]


def size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir())


def test_what_is_stored_is_what_was_seen(tmp_path: Path) -> None:
    record(tmp_path / "new/dir", STORY)
    assert read(tmp_path / "new/dir") == [replace(one, resources=without_secrets(one)) for one in STORY]
    assert Recording(str(tmp_path / "new/dir")).damage == ()
    modes = {oct(file.stat().st_mode & 0o777) for file in (tmp_path / "new/dir").iterdir()}
    assert (modes, oct((tmp_path / "new/dir").stat().st_mode & 0o777)) == ({"0o600"}, "0o700")


def without_secrets(snapshot: Snapshot) -> tuple[Resource, ...]:
    hidden = {"command": "train --password REDACTED"}
    return tuple(
        replace(one, receipts=tuple({**receipt, **hidden} for receipt in one.receipts)) for one in snapshot.resources
    )


def test_a_ring_keeps_so_many_records_and_not_many_more(tmp_path: Path) -> None:
    record(tmp_path / "r", (at(second, QUIET) for second in range(100)), (SMALL,))
    assert 24 <= len(read(tmp_path / "r")) <= 26
    assert read(tmp_path / "r")[-1].taken_at == at(99, QUIET).taken_at


def test_a_ring_is_never_larger_than_its_bound(tmp_path: Path) -> None:
    bounds = Bounds("fine", 1.0, 10_000, 40_000)
    noise = random.Random(5)
    looks = (at(n, replace(QUIET, host=str(noise.getrandbits(8000)))) for n in range(100))
    record(tmp_path / "r", looks, (bounds,))
    assert 20_000 < size(tmp_path / "r") < 44_000
    assert len(read(tmp_path / "r")) > 3


def test_seconds_are_kept_for_an_hour_and_ten_seconds_for_a_day(tmp_path: Path) -> None:
    fine, coarse = replace(FINE, records=24), COARSE
    record(tmp_path / "r", (at(0.5 * n, QUIET) for n in range(400)), (fine, coarse))
    taken = [instant.at_ms // 1000 for instant in Recording(str(tmp_path / "r")).instants]
    steps = [later - earlier for earlier, later in itertools.pairwise(taken)]
    assert set(steps[:15]) == {10}
    assert set(steps[-23:]) == {1}


def test_what_happened_is_kept_for_the_day_to_the_second(tmp_path: Path) -> None:
    fine = replace(FINE, records=24)
    later = tuple(at(second, QUIET) for second in range(10, 200))
    record(tmp_path / "r", (*STORY, *later), (fine, COARSE))
    recording = Recording(str(tmp_path / "r"))
    happened = {recording.snapshot(position).taken_at for position, _ in recording.marks()}
    assert happened == {one.taken_at for one in STORY[1:]}


def test_a_recorder_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for _ in range(3):
        record(tmp_path / "r", STORY, (FINE,))
    assert [one.taken_at for one in read(tmp_path / "r")] == [one.taken_at for one in STORY] * 3
    assert len(list((tmp_path / "r").glob("*.rec"))) == 1


@pytest.mark.parametrize("looks", [STORY, SETTLED])
@pytest.mark.parametrize(("end", "begin"), [(1, 1), (2, 2), (1, 2), (2, 3), (3, 3), (2, 4)])
def test_what_happens_between_two_recorders_is_told_as_by_one(
    tmp_path: Path, looks: tuple[Snapshot, ...], end: int, begin: int
) -> None:
    record(tmp_path / "one", (*looks[:end], *looks[begin:]))
    record(tmp_path / "two", looks[:end])
    record(tmp_path / "two", looks[begin:])
    one, two = (Recording(str(tmp_path / name)).marks() for name in ("one", "two"))
    assert one == two
    assert one


def test_an_act_between_two_recorders_is_told_once(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    (queue / audit.AUDIT).mkdir(parents=True, mode=0o700)
    queue.chmod(0o700)
    looks = [
        at(second, replace(QUIET, resources=(replace(QUIET.resources[0], queue_path=str(queue)),)))
        for second in range(3)
    ]
    act = {"uid": os.getuid(), "verb": "kill", "kind": "intent", "reason": "stuck"}
    acts = [{**act, "at": one.taken_at, "seq": place, "hash": str(place)} for place, one in enumerate(looks)]
    written = queue / audit.AUDIT / f"{os.getuid()}{audit.SUFFIX}"
    for look, said in zip(looks, acts, strict=True):
        with written.open("a") as file:
            print(json.dumps(said), file=file)
        record(tmp_path / "r", [look])
    marked = [mark.at for _, mark in Recording(str(tmp_path / "r")).marks()]
    assert marked == [look.taken_at for look in looks[1:]], "the first was there before anybody looked"


@pytest.mark.parametrize("what", ["largest", "fifo", "link", "empty"])
def test_foreign_files_stop_no_recorder_and_lose_nothing(tmp_path: Path, what: str) -> None:
    record(tmp_path / "r", STORY[:2], (FINE,))
    strange = tmp_path / "r" / ("fine-999999999999.rec" if what == "largest" else "fine-000000000003.rec")
    if what == "fifo":
        os.mkfifo(strange)
    elif what == "link":
        strange.symlink_to("/dev/zero")
    else:
        strange.write_bytes(b"")
    said: list[str] = []
    record(tmp_path / "r", STORY[2:], (FINE,), said)
    assert said == []
    assert [one.taken_at for one in read(tmp_path / "r")] == [one.taken_at for one in STORY]


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r").chmod(0o777)
    with pytest.raises(RecordingError, match="others may write there: chmod go-w"):
        Recorder(str(tmp_path / "r"), pytest.fail).open()


def test_on_a_busy_box_a_day_stays_a_day(tmp_path: Path) -> None:
    """As many looks at which something happened as there are in their turn."""
    small = replace(COARSE, records=COARSE.records // 100)
    looks = (at(second, STORY[second // 5 % 2]) for second in range(0, 900, 5))
    record(tmp_path / "r", looks, (replace(FINE, records=12), small))
    assert len(read(tmp_path / "r")) >= 180


def test_two_recorders_never_share_a_directory(tmp_path: Path) -> None:
    first = Recorder(str(tmp_path / "r"), pytest.fail)
    first.take(STORY[0])
    with pytest.raises(RecordingError, match="another recorder keeps this"):
        Recorder(str(tmp_path / "r"), pytest.fail).open()
    said: list[str] = []
    record(tmp_path / "r", STORY, said=said)
    assert len(said) == 1
    first.close()
    assert len(read(tmp_path / "r")) == 1


def test_a_directory_that_cannot_be_used_is_told_once_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "r").write_text("in the way")
    said: list[str] = []
    recorder = Recorder(str(tmp_path / "r"), said.append)
    for second in range(15):
        recorder.take(at(second, QUIET))
    (tmp_path / "r").unlink()
    recorder.take(at(15, QUIET))
    recorder.take(at(30, QUIET))
    recorder.close()
    assert [line.split(": ")[-1] for line in said] == [
        "File exists; nothing is recorded until that is mended",
        "recording again",
    ]


def test_of_a_box_that_costs_much_there_is_a_look_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record costs 50 ms of a processor: a hundredth of it is one in five seconds."""
    spent, encode = [0.0], codec.encode

    def costly(snapshot: Snapshot) -> bytes:
        spent[0] += 0.05
        return encode(snapshot)

    monkeypatch.setattr(time, "thread_time", lambda: spent[0])
    monkeypatch.setattr(codec, "encode", costly)
    record(tmp_path / "r", (at(second, QUIET) for second in range(60)), (FINE,))
    taken = [instant.at_ms // 1000 for instant in Recording(str(tmp_path / "r")).instants]
    assert {later - earlier for earlier, later in itertools.pairwise(taken)} == {5}


def test_what_happened_is_told_once_in_each_ring(tmp_path: Path) -> None:
    record(tmp_path / "r", STORY)
    for ring in ("fine", "coarse"):
        (file,) = (tmp_path / "r").glob(f"{ring}-*")
        sides = [frames.unpack_side(one.side) for one in frames.scan(file.read_bytes()).frames]
        assert [len(side.get("marks", ())) for side in sides] == [0, 1, 3, 3, 1]


def test_whatever_goes_wrong_is_told_and_goes_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_snapshot: object) -> bytes:
        raise TypeError("no such thing")

    said: list[str] = []
    with monkeypatch.context() as broken:
        broken.setattr(codec, "encode", fail)
        record(tmp_path / "r", STORY, said=said)
    assert said == [f"cannot record in {tmp_path}/r: no such thing; nothing is recorded until that is mended"]


def test_a_recording_that_is_removed_begins_anew(tmp_path: Path) -> None:
    said: list[str] = []
    recorder = Recorder(str(tmp_path / "r"), said.append)
    recorder.take(at(0, QUIET))
    for file in (tmp_path / "r").glob("*.rec"):
        file.unlink()
    recorder.take(at(1, QUIET))
    recorder.close()
    assert [one.taken_at for one in read(tmp_path / "r")] == [at(1, QUIET).taken_at]


def killed_at(directory: Path, seconds: float) -> int:
    """Kill a recorder after so long; the number of the last look that it says is stored."""
    with subprocess.Popen([*DRIVER, str(directory)], cwd=ROOT, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        first = driver.stdout.readline()
        time.sleep(seconds)
        driver.kill()
        rest = driver.stdout.read().splitlines(keepends=True)
    return int([line for line in [first, *rest] if line.endswith(b"\n")][-1])


def check_killed(directory: Path, kills: int) -> None:
    moments = random.Random(kills)
    stored = 0
    for _ in range(kills):
        told = killed_at(directory, moments.uniform(0.0, 0.2))
        recording = Recording(str(directory))
        last = recording.instants[-1].seq
        assert last - stored >= told
        for position, instant in enumerate(recording.instants):
            if instant.seq > stored:
                recording.snapshot(position)
        stored = last


def test_killed_at_any_moment_it_has_all_that_it_stored(tmp_path: Path) -> None:
    check_killed(tmp_path / "r", 4)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_killed_a_hundred_times_it_has_all_that_it_stored(tmp_path: Path) -> None:
    check_killed(tmp_path / "r", 100)


FULL = """
import sys
from pathlib import Path
from tests.recorder.scenes import STORY, at, read
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
recorder = Recorder("r", print)
looks = iter(range(10, 100000, 10))
def take(count):
    for _ in range(count):
        recorder.take(at(next(looks), STORY[1]))
take(1)
with open("fill", "wb", 0) as fill:
    try:
        while True:
            fill.write(bytes(512))
    except OSError:
        pass
take(80)
print(Recording("r").damage)
Path("fill").unlink()
take(20)
recorder.close()
print(len(read(Path("r"))))
"""


def test_a_full_disk_stops_recording_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "full.py"
    script.write_text(FULL)
    out = in_mount_namespace(f"PYTHONPATH={ROOT} {sys.executable} {script}", tmp_path).splitlines()
    assert out[0].startswith("cannot record in r: No space left on device; nothing is recorded until")
    assert out[1:3] == ["()", "r: recording again"]
    assert len(out) == 4
    assert 21 <= int(out[3]) < 101


def test_a_full_ring_makes_room_on_a_full_disk_by_its_oldest_segments(tmp_path: Path) -> None:
    crowded = FULL.replace('"r", print', '"r", print, (B("fine", 1.0, 24, 30000),)').replace("take(1)\n", "take(24)\n")
    script = tmp_path / "full.py"
    script.write_text("from holdtop.recorder.ring import Bounds as B\n" + crowded)
    out = in_mount_namespace(f"PYTHONPATH={ROOT} {sys.executable} {script}", tmp_path).splitlines()
    assert (len(out), out[0]) == (2, "()"), out
    assert int(out[1]) >= 20
