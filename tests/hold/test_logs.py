"""Logs of the state grow, are renamed away, and are read from their end: however large one is, little is read."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdtop.hold import events, logs, receipt
from holdtop.hold import queue as queues
from holdtop.hold.files import Dir
from holdtop.hold.ticket import Wish
from holdtop.payload.custody import End, Report
from tests.hold.lanes import Box, ended

#: Bytes of a log that nobody may read whole.
HUGE = 10 * 1024**3


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read gave."""
    sizes: list[int] = []
    before = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        data = before(fd, size, offset)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return sizes


def huge(path: Path, line: dict[str, Any]) -> None:
    """A sparse log with one whole line in its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(HUGE)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + json.dumps(line).encode() + b"\n")


def test_of_huge_logs_the_end_is_read(tmp_path: Path, read: list[int]) -> None:
    huge(tmp_path / receipt.RECEIPTS, {"ticket": "last"})
    huge(tmp_path / events.LOG / events.EVENTS, {"event": "last"})
    with Dir.root(str(tmp_path)) as queue:
        assert [one["ticket"] for one in receipt.newest(queue, receipt.ALL)] == ["last"]
        assert [one["event"] for one in events.tail(queue)] == ["last"]
    assert sum(read) <= receipt.ALL + events.TAIL


def test_of_two_receipts_of_one_hold_the_later_is_complete(tmp_path: Path) -> None:
    said = [{"ticket": "1"}, {"ticket": "2", "verdict": "settling"}, {"at": "?"}, {"ticket": ["2"]}, {"at": "?"}]
    later = {"ticket": "2", "verdict": "clean"}
    (tmp_path / receipt.RECEIPTS).write_text("".join(json.dumps(one) + "\n" for one in (*said, later)))
    with Dir.root(str(tmp_path)) as queue:
        assert receipt.newest(queue) == (said[0], later, *said[2:])


def test_receipts_go_on_in_a_new_file_and_are_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt, "ROTATE_AT", 2000)
    with Dir.root(str(tmp_path)) as queue:
        own = queues.join(queue, Wish("gpu", "lane", "true"))
        for status in range(40):
            ticket = replace(own.ticket, id=f"{status:010}-1")
            assert not receipt.write(queue, ticket, Report(End("exited", None), 0), status=status, released=True)
        os.close(own.fd)
        found = [one["status"] for one in receipt.newest(queue, receipt.ALL)]
    assert len(found) > 5
    assert found == [*range(40)][-len(found) :], "the newest, in order, across both files"
    sizes = [(tmp_path / name).stat().st_size for name in (receipt.RECEIPTS, receipt.OLDER)]
    assert max(sizes) < 3000


def test_a_tail_goes_back_as_far_as_it_needs(tmp_path: Path) -> None:
    (tmp_path / "new").write_bytes(b"3\n4\n")
    (tmp_path / "old").write_bytes(b"1\n2\n")
    (tmp_path / "link").symlink_to("old")
    with Dir.root(str(tmp_path)) as there:
        assert logs.tail(there, ("new", "old"), 6) == b"2\n3\n4\n"
        assert logs.tail(there, ("new", "old"), 100) == b"1\n2\n3\n4\n"
        assert logs.tail(there, ("new", "missing"), 2) == b"4\n"
        assert logs.tail(there, ("missing", "old"), 100) == b"1\n2\n"
        assert logs.tail(there, ("new", "link"), 100) == b"3\n4\n"


def test_history_of_real_holds(state: Box) -> None:
    for words in (("true",), ("true",), ("sh", "-c", "exit 3")):
        ended(state.run(*words, options=["--lane", "eval"]))
    with (state.queue / receipt.RECEIPTS).open("a") as file:
        odd = {"lane": "\x1b]52;c;eA==\x07\u202eevil", "command": "\x9b2J\n", "held_seconds": "9"}
        file.write(f"{json.dumps(odd)}\n{{torn")
    [gpu] = json.loads(state.verb("history", "--json").stdout)["resources"]
    evil, lane = gpu["lanes"]
    assert (evil["runs"], evil["held_median_seconds"], evil["last"]["at"]) == (1, None, "")
    assert (lane["lane"], lane["runs"], lane["last"]["status"]) == ("eval", 3, 3)
    assert [(one["command"], one["runs"]) for one in lane["commands"]] == [("sh -c 'exit 3'", 1), ("true", 2)]
    assert 0 <= lane["waited_median_seconds"] <= lane["held_median_seconds"] + 60
    said = state.verb("history").stdout
    assert said.splitlines()[2].split()[:3] == ["gpu", "eval", "3"]
    assert all(line.isprintable() for line in said.splitlines())
    assert "\u202e" not in said
    alone = state.verb("history", "--lane", "eval").stdout
    assert [line.split()[0] for line in alone.splitlines()] == ["RES", "gpu", "sh", "true"]
    assert state.verb("history", "--lane", "nobody").stdout == "no hold of lane nobody has left a receipt here yet\n"
    assert json.loads(state.verb("history", "-r", "npu", "--json").stdout)["resources"][0]["lanes"] == []
