"""Bookmarks: what sets one, each by the two looks between which it happened."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from holdtop.hold import audit, events
from holdtop.hold.files import Dir
from holdtop.model.changes import changes
from holdtop.model.values import Flag, Snapshot
from holdtop.recorder.recording import Recording
from tests.console.boxes import BUSY, HOLDER, QUIET, resource
from tests.recorder.scenes import RECEIPT, SETTLED, STORY, at, record


def marks_of(tmp_path: Path, *looks: Snapshot) -> list[tuple[int, str, str]]:
    record(tmp_path / "recording", looks)
    return [(position, mark.kind, mark.text) for position, mark in Recording(str(tmp_path / "recording")).marks()]


def test_a_story_has_its_marks_where_they_happened(tmp_path: Path) -> None:
    found = [(position, kind) for position, kind, _ in marks_of(tmp_path, *STORY)]
    assert found == [
        (1, "taken"),
        (2, "raised"),
        (2, "raised"),
        (2, "raised"),
        (3, "cleared"),
        (3, "cleared"),
        (3, "aborted"),
        (4, "cleared"),
    ]
    (aborted,) = (text for _, kind, text in marks_of(tmp_path / "again", *STORY) if kind == "aborted")
    assert aborted == "nightly-build released gpu: dirty, ended by max-hold"


def test_a_hold_of_less_than_a_look_is_seen_by_its_receipt(tmp_path: Path) -> None:
    after = replace(QUIET, resources=(resource("gpu", None, receipts=({**RECEIPT, "reason": "exited"},)),))
    short = [(1, "taken", "nightly-build holds gpu"), (1, "released", "nightly-build released gpu: dirty, status 124")]
    assert marks_of(tmp_path / "known", at(0, QUIET), at(1, after)) == short
    assert marks_of(tmp_path / "first of its resource", at(0, replace(QUIET, resources=())), at(1, after)) == short


def test_a_hold_that_settles_was_released_once(tmp_path: Path) -> None:
    assert marks_of(tmp_path, *SETTLED) == [
        (1, "taken", "nightly-build holds gpu"),
        (1, "released", "nightly-build released gpu: settling, status 0"),
        (2, "settled", "nightly-build has settled on gpu: clean"),
    ]
    assert [one.text for one in changes(SETTLED[1], SETTLED[2])] == ["gpu settled: nightly-build, settling, then clean"]
    assert [one.text for one in changes(SETTLED[0], SETTLED[2])] == ["gpu released: nightly-build, exited, clean"]


def test_no_mark_tells_the_secret_in_a_lanes_name(tmp_path: Path) -> None:
    lane = "ghp_abcdefgh12345678"
    held = replace(QUIET, resources=(resource("gpu", replace(HOLDER, lane=lane)),))
    over = replace(QUIET, resources=(resource("gpu", None, receipts=({**RECEIPT, "lane": lane},)),))
    assert marks_of(tmp_path, at(0, QUIET), at(1, held), at(2, over)) == [
        (1, "taken", "REDACTED holds gpu"),
        (2, "aborted", "REDACTED released gpu: dirty, ended by max-hold"),
    ]


def test_who_is_gone_without_a_receipt_is_said(tmp_path: Path) -> None:
    found = marks_of(tmp_path, at(0, replace(BUSY, flags=())), at(1, QUIET))
    assert found == [(1, "released", "nightly-build is gone, and left no receipt")]


def test_a_state_that_cannot_be_read_is_no_release(tmp_path: Path) -> None:
    unknown = replace(BUSY, flags=(), resources=(resource("gpu", None, state="unknown"),))
    held = replace(BUSY, flags=())
    assert marks_of(tmp_path / "held", at(0, held), at(1, unknown), at(2, held)) == []
    old = replace(QUIET, resources=(resource("gpu", None, receipts=(RECEIPT,)),))
    assert marks_of(tmp_path / "old", at(9, old), at(10, unknown), at(11, old)) == [], "its receipts are no news"


def test_the_first_hold_of_a_resource_is_taken(tmp_path: Path) -> None:
    held = replace(BUSY, flags=(), resources=BUSY.resources[:1])
    assert marks_of(tmp_path, at(0, replace(held, resources=())), at(1, held)) == [
        (1, "taken", "nightly-build holds gpu")
    ]


def test_a_reset_is_a_mark_of_its_own(tmp_path: Path) -> None:
    reset = Flag("gpu-reset", "warning", "gpu", None, (), "2030-01-02T02:14:01+00:00", "the card hung", "look")
    found = marks_of(tmp_path, at(0, QUIET), at(1, replace(QUIET, flags=(reset,))))
    assert found == [(1, "reset", "gpu-reset: the card hung")]


def test_acts_and_events_are_told_once_and_without_secrets(tmp_path: Path) -> None:
    """Those that were written before somebody looked are told as well, but set no bookmark."""
    queue = tmp_path / "queue"
    queue.mkdir()
    box = replace(QUIET, resources=(resource("gpu", None, queue_path=str(queue)),))

    def act(text: str) -> None:
        with Dir.root(str(queue)) as directory:
            audit.append(directory, {"verb": "kill", "kind": "outcome", "status": 0, "text": text, "act": text})
            events.record(directory, "warned", HOLDER.id, text=f"{text} --password hunter2")

    def looks() -> list[Snapshot]:
        return [at(second, box) for second in range(25)]

    def told() -> object:
        for number, snapshot in enumerate(looks()):
            if number in (0, 5, 7):
                act(f"act {number}")
            yield snapshot

    record(tmp_path / "recording", told())  # type: ignore[arg-type]
    recording = Recording(str(tmp_path / "recording"))
    assert [mark.text for _, mark in recording.marks()] == [
        f"kill outcome by uid {os.getuid()}: act {number}" for number in (5, 7)
    ]
    assert [one.act["text"] for one in recording.told if one.act] == ["act 0", "act 5", "act 7"]
    lines = [json.loads(one.event[1])["text"] for one in recording.told if one.event]
    assert lines == [f"act {number} --password REDACTED" for number in (0, 5, 7)]
    assert len([one for one in recording.told if one.position <= 5]) == len(recording.told) - 3


def test_what_a_log_said_last_before_it_was_rotated_away_is_not_lost(tmp_path: Path) -> None:
    queue = tmp_path / "queue"
    queue.mkdir()
    box = replace(QUIET, resources=(resource("gpu", None, queue_path=str(queue)),))

    def looks() -> Iterator[Snapshot]:
        with Dir.root(str(queue)) as directory:
            for second in range(4):
                events.record(directory, "warned", HOLDER.id, text=f"before {second}")
                if second == 2:
                    (queue / events.LOG / events.EVENTS).rename(queue / events.LOG / events.ROTATED)
                    events.record(directory, "warned", HOLDER.id, text="after")
                yield at(second, box)

    record(tmp_path / "recording", looks())
    told = Recording(str(tmp_path / "recording")).told
    texts = [json.loads(one.event[1])["text"] for one in told if one.event]
    assert texts == ["before 0", "before 1", "before 2", "after", "before 3"]
