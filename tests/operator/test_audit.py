"""The audit on a real disk: what was written is there, once, in order; what was changed is found."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import RefusedError
from holdtop.hold import audit
from holdtop.hold import journal as journals
from holdtop.hold.files import Dir

MINE = f"{os.geteuid()}.jsonl"


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Dir]:
    with Dir.root(str(tmp_path)) as directory:
        yield directory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".audit" / MINE


def write(queue: Dir, *reasons: str) -> None:
    for reason in reasons:
        audit.append(queue, {"act": "a", "kind": "intent", "verb": "kill", "reason": reason})


def test_a_record_is_on_disk_as_returned_and_says_who(queue: Dir, file: Path) -> None:
    record = audit.append(queue, {"act": "x", "kind": "intent"})
    assert json.loads(file.read_bytes()) == record
    assert record["uid"] == os.getuid()
    assert "login_uid" in record
    assert file.stat().st_mode & 0o7777 == 0o640
    assert file.parent.stat().st_mode & 0o7777 == 0o3770


def test_it_is_synced_before_it_is_believed(queue: Dir, monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    synced: list[tuple[int, bytes]] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((os.fstat(fd).st_ino, file.read_bytes())))
    write(queue, "first", "second")
    in_file = [content for inode, content in synced if inode == file.stat().st_ino]
    assert [b"first" in content for content in in_file] == [True, True]
    assert [b"second" in content for content in in_file] == [False, True]
    assert file.parent.stat().st_ino in [inode for inode, _ in synced]


@given(reason=st.text(st.characters(exclude_categories=())))
def test_any_text_is_one_line_and_comes_back(tmp_path_factory: pytest.TempPathFactory, reason: str) -> None:
    with Dir.root(str(tmp_path_factory.mktemp("q"))) as queue:
        write(queue, reason, reason)
        assert [record["reason"] for record in audit.records(queue)] == [reason, reason]
        assert Path(queue.of(f".audit/{MINE}")).read_bytes().count(b"\n") == 2
        assert audit.verify(queue) == []


def test_the_chain_is_whole_after_writers_at_the_same_time(queue: Dir) -> None:
    threads = [threading.Thread(target=write, args=(queue, *map(str, range(20)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(audit.records(queue)) == 80
    assert audit.verify(queue) == []


def change_a_letter(lines: list[bytes]) -> list[bytes]:
    return [lines[0], lines[1].replace(b"two", b"2wo"), *lines[2:]]


def reseal(lines: list[bytes]) -> list[bytes]:
    """A forged record with a hash that fits itself."""
    forged = {**json.loads(lines[1]), "reason": "forged"}
    del forged["hash"]
    return [lines[0], audit.canonical(audit.sealed(forged)), *lines[2:]]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (change_a_letter, 2),
        (reseal, 3),
        (lambda lines: [lines[0], *lines[2:]], 2),
        (lambda lines: lines[1:], 1),
        (lambda lines: [lines[1], lines[0], *lines[2:]], 1),
        (lambda lines: [lines[0], lines[0], *lines[1:]], 2),
        (lambda lines: [lines[0], b"", *lines[1:]], 2),
        (lambda lines: [lines[0], b" " + lines[1], *lines[2:]], 2),
        (lambda lines: [*lines[:3], lines[3][:40]], 4),
        (lambda lines: [*lines, b"\0" * 100], 5),
    ],
)
def test_the_first_bad_record_is_found(queue: Dir, file: Path, spoil: object, line: int) -> None:
    assert callable(spoil)
    write(queue, "one", "two", "three", "four")
    assert audit.verify(queue) == []
    file.write_bytes(b"\n".join(spoil(file.read_bytes().splitlines())) + b"\n")
    (bad,) = audit.verify(queue)
    assert (bad.file, bad.line) == (str(file), line)


@pytest.mark.parametrize("uid", [[1], {"a": 1}, "0", None, 1.5])
def test_an_account_that_is_no_number_makes_no_record(queue: Dir, file: Path, uid: object) -> None:
    """Whoever reads acts looks the account up: a list would end every reader."""
    record = audit.append(queue, {"act": "a", "verb": "kill"})
    made = {key: value for key, value in record.items() if key != "hash"} | {"uid": uid, "seq": 2}
    with open(file, "ab") as lines:
        lines.write(audit.canonical(audit.sealed(made | {"prev": record["hash"]})) + b"\n")
    assert audit.records(queue) == [record]
    (bad,) = audit.verify(queue)
    assert (bad.line, bad.why) == (2, "it is no record: cut short or overwritten")


def test_a_torn_last_line_swallows_nothing(queue: Dir, file: Path) -> None:
    write(queue, "one", "two")
    file.write_bytes(file.read_bytes()[:-20])
    write(queue, "three")
    assert [record["reason"] for record in audit.records(queue)] == ["one", "three"]
    (bad,) = audit.verify(queue)
    assert bad.line == 2
    write(queue, "four")
    first, third, fourth = audit.records(queue)
    assert third["prev"] == first["hash"]
    assert fourth["prev"] == third["hash"]


def test_a_record_larger_than_one_read_is_followed(queue: Dir) -> None:
    write(queue, "x" * 300_000, "next")
    assert audit.verify(queue) == []


def plant_directory(file: Path) -> None:
    file.mkdir(parents=True)


def plant_full_device(file: Path) -> None:
    file.parent.mkdir()
    file.symlink_to("/dev/full")


def plant_fifo(file: Path) -> None:
    file.parent.mkdir()
    os.mkfifo(file)


def plant_link(file: Path) -> None:
    file.parent.mkdir()
    victim = file.parent.parent / "victim"
    victim.write_text("precious")
    file.hardlink_to(victim)


@pytest.mark.parametrize("plant", [plant_directory, plant_full_device, plant_fifo, plant_link])
def test_what_cannot_be_written_is_refused(queue: Dir, file: Path, plant: object) -> None:
    assert callable(plant)
    plant(file)
    with pytest.raises(RefusedError, match=r"audit in .* cannot be written .*--unaudited"):
        write(queue, "one")
    victim = file.parent.parent / "victim"
    assert not victim.exists() or victim.read_text() == "precious"


def test_a_full_disk_leaves_no_half_record(queue: Dir, file: Path) -> None:
    write(queue, "one")
    before = file.read_bytes()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, limits[1]))
    try:
        with pytest.raises(RefusedError, match="File too large"):
            write(queue, "two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == before
    write(queue, "two")
    assert audit.verify(queue) == []


def test_a_file_that_somebody_else_made_is_refused_and_named(
    queue: Dir, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(queue, "one")
    file.rename(file.with_name("4711.jsonl"))
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    with pytest.raises(RefusedError, match=f"made by uid {os.getuid()}"):
        write(queue, "two")
    (bad,) = audit.verify(queue)
    assert "belongs to uid" in bad.why


def test_another_process_that_keeps_the_lock_is_waited_for_in_vain(
    queue: Dir, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(queue, "one")
    monkeypatch.setattr(audit, "LOCK_WAIT", 0.2)
    code = f"import fcntl, sys; f = open({str(file)!r}); fcntl.flock(f, 2); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(RefusedError, match="locked by another process"):
            write(queue, "two")
        other.stdin.close()


def test_each_record_also_goes_to_the_journal(queue: Dir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "journal")
    monkeypatch.setattr(journals, "SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(path)
        record = audit.append(queue, {"act": "x", "kind": "intent", "verb": "kill", "reason": "a\nPRIORITY=0"})
        fields = dict(line.split("=", 1) for line in journal.recv(65536).decode().splitlines())
        assert json.loads(fields["HOLDTOP_RECORD"]) == record
        assert fields["PRIORITY"] == "5"
        # A journal that reads nothing: its queue fills up, and nobody waits for it.
        for _ in range(2000):
            audit.to_journal(record)
        huge = audit.append(queue, {"act": "huge", "kind": "intent", "reason": "x" * 3_000_000})
    assert huge["act"] == "huge"
