"""``holdtop replay`` without a terminal."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdtop.cli.main import main
from holdtop.cli.status_text import Text
from holdtop.errors import RecordingError, UsageError
from holdtop.model.changes import Change, changes
from holdtop.model.schema import to_mapping
from holdtop.model.values import Snapshot
from holdtop.recorder import codec
from holdtop.recorder.recording import Recording
from holdtop.recorder.seeking import instant
from tests.console.boxes import BUSY, QUIET, WAITING, process, resource
from tests.recorder.scenes import STORY, read, record
from tests.recorder.test_codec import GOLDEN
from tests.recorder.test_damage import ENDS

FIRST, LAST = (datetime.fromisoformat(f"2030-01-0{day}T03:00:00+01:00") for day in (1, 2))


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("02:14", "2030-01-02T02:14:00+01:00"),
        ("2:14:05", "2030-01-02T02:14:05+01:00"),
        ("03:00", "2030-01-02T03:00:00+01:00"),
        ("23:59", "2030-01-01T23:59:00+01:00"),
        ("start", FIRST.isoformat()),
        (" end ", LAST.isoformat()),
        ("-10m", "2030-01-01T11:50:00+01:00"),
        ("+30", "2030-01-01T12:00:30+01:00"),
        ("-99999999d", FIRST.isoformat()),
        ("2029-01-01T00:00:00Z", "2029-01-01T00:00:00+00:00"),
    ],
)
def test_an_instant_as_somebody_types_it(typed: str, meant: str) -> None:
    shown = FIRST + timedelta(hours=9)
    assert instant(typed, shown, FIRST, LAST) == datetime.fromisoformat(meant)


@pytest.mark.parametrize("typed", ["", "noon", "24:00", "2:60", "1.5h", "-5y", "2030-01-02T02:14:00", "٢:١٤"])
def test_what_is_no_instant(typed: str) -> None:
    with pytest.raises(UsageError, match="is no instant; write 02:14"):
        instant(typed, FIRST, FIRST, LAST)


def test_a_look_is_shown_as_status_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "r", STORY)
    assert main(["replay", str(tmp_path / "r"), "--at", "02:14:02", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(to_mapping(read(tmp_path / "r")[2])))
    assert main(["replay", str(tmp_path / "r"), "--at", "-1s", "--plain"]) == 0
    assert "gpu is free" in capsys.readouterr().out
    assert main(["replay", str(tmp_path / "r"), "--at", "yesterday"]) == 2


def test_bookmarks_and_changes_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "r", STORY)
    assert main(["replay", str(tmp_path / "r"), "--marks"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "2030-01-02T02:14:01+00:00 info taken (gpu 0000000012-4012): nightly-build holds gpu"
    assert main(["replay", str(tmp_path / "r"), "--marks", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["kind"] == "taken"
    assert main(["replay", str(tmp_path / "r"), "--changes=start..02:14:01"]) == 0
    assert "~ gpu: free, then held by nightly-build (0000000012-4012)" in capsys.readouterr().out.splitlines()
    assert main(["replay", str(tmp_path / "r"), "--changes", "-2s..end"]) == 0
    assert main(["replay", str(tmp_path / "r"), "--changes=02:14"]) == 2
    assert "--changes -10m..end" in capsys.readouterr().err


def evil_looks(said: Any, whole: Any) -> Iterator[Snapshot]:
    """A recording may come from anybody: a look with one of its strings replaced, each after the other."""
    items = said.items() if isinstance(said, dict) else enumerate(said) if isinstance(said, list) else ()
    for key, value in [*items]:
        if isinstance(value, str):
            said[key] = "\x1b]0;owned\x07\ud800\u202e"
            with contextlib.suppress(RecordingError):  # held against its type
                yield codec.decode(json.dumps(whole).encode())
            said[key] = value
        else:
            yield from evil_looks(value, whole)


def test_no_text_of_a_recording_reaches_the_terminal_as_it_is() -> None:
    plain = json.loads(codec.encode(BUSY))
    number = 0
    for look in evil_looks(plain, plain):
        number += 1
        lines = (*Text().table(look), *Text().sentences(look), *Text().facts(look))
        assert [ascii(line) for line in lines if not line.isprintable()] == []
    assert number > 100


def test_a_damaged_recording_is_shown_up_to_there_with_status_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.rec").write_bytes(GOLDEN.read_bytes()[: ENDS[3] + 9])
    assert main(["replay", str(tmp_path / "x.rec"), "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["taken_at"] == STORY[2].taken_at
    assert "x.rec: damaged at byte " in shown.err
    until = Recording(str(tmp_path / "x.rec")).instants[-1].at_ms / 1000
    assert datetime.fromtimestamp(until).astimezone().isoformat(timespec="seconds") in shown.err


@pytest.mark.parametrize("what", ["missing", "empty", "text"])
def test_what_is_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str) -> None:
    path = tmp_path / what
    if what == "empty":
        path.mkdir()
    elif what == "text":
        path.write_text("hello\n")
    assert main(["replay", str(path), "--json"]) == 1
    shown = capsys.readouterr()
    assert (shown.out, len(shown.err.splitlines())) == ("", 1)
    assert str(path) in shown.err


def test_without_a_terminal_the_console_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "r", STORY[:1])
    assert main(["replay", str(tmp_path / "r")]) == 4
    assert "--at" in capsys.readouterr().err


def test_nothing_changed_between_a_look_and_itself() -> None:
    assert changes(BUSY, BUSY) == ()


def test_what_is_bad_among_the_changes_says_how_bad() -> None:
    worse = {f"flag {one.severity} {one.kind}: {one.text}": one.severity for one in BUSY.flags}
    told = {one.text: one.severity for one in changes(replace(BUSY, flags=()), BUSY)}
    assert told == worse
    receipts = ({"ticket": "1", "verdict": "clean"}, {"ticket": "2", "verdict": "dirty"})
    after = replace(QUIET, resources=(replace(QUIET.resources[0], receipts=receipts), *QUIET.resources[1:]))
    assert [one.severity for one in changes(QUIET, after)] == [None, "warning"]


def test_what_changed() -> None:
    grown = process(3977, 1, "python3", gtt_bytes=9 << 30)
    (left,) = QUIET.leftovers or (BUSY.leftovers[0],)
    before = replace(QUIET, leftovers=(left,), resources=(resource("gpu", None, WAITING[0]),))
    after = replace(
        QUIET,
        boot_id="c",
        leftovers=(replace(left, gtt_bytes=grown.gtt_bytes),),
        resources=(resource("gpu", None, WAITING[1], token_path="/elsewhere"), resource("npu", None)),
    )
    assert changes(before, after) == (
        Change("~", "the box was started anew in between"),
        Change("+", "resource npu"),
        Change("~", "gpu: its state was /srv/hold/gpu-token, then /elsewhere"),
        Change("+", "gpu waiting: 世蓮 (0000000014-4014)"),
        Change("-", "gpu waiting: eval-7 (0000000013-4013)"),
        Change("~", "pid 3977 (python3, carol), GTT 9.0G; its GTT grew by 1.6 GiB"),
    )
