"""Following a log by its name, whatever happens to the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdtop.console import follow
from holdtop.console.follow import Follower, Note, Open, Said, Text


def texts(said: list[Said]) -> list[str]:
    return [part.text for part in said if isinstance(part, Text)]


def notes(said: list[Said]) -> list[str]:
    return [part.text for part in said if isinstance(part, Note)]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("first\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_follows_and_keeps_half_lines(log: Path) -> None:
    follower = Follower(str(log))
    assert texts(follower.poll()) == ["first"]
    append(log, "sec")
    assert follower.poll() == [Open("sec")]
    append(log, "ond\nthird\n")
    assert texts(follower.poll()) == ["second", "third"]
    assert follower.poll() == []


def test_rename_and_new_file_loses_no_line(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    append(log, "last of the old\n")
    log.rename(log.with_suffix(".1"))
    log.write_text("new\n")
    said = follower.poll()
    assert texts(said) == ["last of the old", "new"]
    assert "rotated" in notes(said)[0]


@pytest.mark.parametrize("content", ["new\n", "a longer and different content than before\nnew\n"])
def test_truncated_or_rewritten_at_the_same_inode(log: Path, content: str) -> None:
    follower = Follower(str(log))
    follower.poll()
    log.write_text(content)
    said = follower.poll()
    assert texts(said)[-1] == "new"
    assert "truncated" in notes(said)[0]


def test_deleted_and_created_again(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    log.unlink()
    assert "not there" in notes(follower.poll())[0]
    assert follower.poll() == []  # said once
    log.write_text("back\n")
    assert texts(follower.poll()) == ["back"]


@pytest.mark.parametrize("odd", ["directory", "fifo", "dangling", "loop"])
def test_odd_things_block_nothing(log: Path, odd: str) -> None:
    follower = Follower(str(log))
    follower.poll()
    log.unlink()
    if odd == "directory":
        log.mkdir()
    elif odd == "fifo":
        os.mkfifo(log)
    else:
        log.symlink_to("nowhere" if odd == "dangling" else log)
    assert len(notes(follower.poll())) == 1
    assert follower.poll() == []


def test_a_link_is_followed_only_where_nobody_else_can_put_one(log: Path) -> None:
    link = log.with_suffix(".link")
    link.symlink_to(log)
    assert texts(Follower(str(link)).poll()) == ["first"]
    said = Follower(str(link), links=False).poll()
    assert texts(said) == []
    assert "no regular file" in notes(said)[0]


def test_a_file_that_somebody_else_named_must_be_their_own(log: Path) -> None:
    """Else a hold could name what only the reader of the screen may read."""
    log.write_text("secret\n")
    follower = Follower(str(log), links=False, owner=os.getuid() + 1)
    assert follower.poll() == [Note("belongs to another account than its hold: not shown")]
    assert follower.poll() == []
    follower.close()
    own = Follower(str(log), links=False, owner=os.getuid())
    assert own.poll() == [Text("secret")]
    own.close()


@pytest.mark.parametrize("name", ["lone\ud800", "nul\0"])
def test_a_name_that_no_file_can_have_is_said(name: str) -> None:
    assert "no file can have this name" in notes(Follower(name).poll())[0]


def test_no_permission_is_said(log: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("needs an ordinary account: root may read everything")
    log.chmod(0)
    assert "cannot be read" in notes(Follower(str(log)).poll())[0]


def test_a_giant_line_is_cut_and_measured(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    for _ in range(5):
        append(log, "x" * 100_000)
        assert texts(follower.poll()) == []
    append(log, "\nnext\n")
    giant, following = texts(follower.poll())
    assert giant.startswith("(500000 bytes) xxx")
    assert giant.endswith("x…")
    assert len(giant) < 2 * follow.LINE
    assert following == "next"


def test_only_the_last_state_of_a_progress_bar(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    append(log, "10%\r20%\r")
    assert follower.poll() == [Open("20%")]  # until something overwrites it
    append(log, "30%")
    assert follower.poll() == [Open("30%")]
    assert follower.poll() == []
    append(log, "\r40%\rdone\r\n")
    assert follower.poll() == [Text("done")]


def test_a_progress_bar_behind_a_long_line_is_seen(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    append(log, "x" * 2 * follow.LINE + "\r")
    follower.poll()
    append(log, "99%")
    assert follower.poll() == [Open("99%")]


@pytest.mark.parametrize("fate", ["rotated", "truncated"])
def test_the_unfinished_line_of_a_file_that_went_is_kept(log: Path, fate: str) -> None:
    follower = Follower(str(log))
    append(log, "last words")
    follower.poll()
    if fate == "rotated":
        log.rename(log.with_suffix(".1"))
    log.write_text("new\n")
    said = follower.poll()
    assert texts(said) == ["last words", "new"]
    assert fate in notes(said)[0]


def test_nuls_and_bad_bytes(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    with log.open("ab") as file:
        file.write(b"a" + b"\0" * 1000 + b"b\xff\n")
    assert texts(follower.poll()) == ["a<1000 NULs>b\udcff"]


def test_a_flood_is_skipped_not_swallowed(log: Path) -> None:
    follower = Follower(str(log))
    follower.poll()
    append(log, "y\n" * follow.BUDGET)
    said = follower.poll()
    assert any("skipped" in note for note in notes(said))
    assert len(texts(said)) <= follow.LINES
    append(log, "after\n")
    assert texts(follower.poll()) == ["after"]


def test_a_huge_sparse_file_is_opened_at_its_end(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(5 * 1024**3)
        file.seek(0, os.SEEK_END)
        file.write(b"\nend\n")
    said = Follower(str(log)).poll()
    assert texts(said) == ["end"]
    assert notes(said) == [f"what it had said before is not shown: {5 * 1024**3 + 1} bytes"]


def test_a_file_without_any_line_end_says_how_long_it_is(log: Path) -> None:
    with log.open("r+b") as file:
        file.truncate(5 * 1024**3)
    (shown,) = [part.text for part in Follower(str(log)).poll() if isinstance(part, Open)]
    assert shown.startswith("(more than ")
    assert shown.endswith(f"<{follow.LINE} NULs>…")


def test_the_length_of_a_line_that_began_before_what_is_read(log: Path) -> None:
    append(log, "x" * 3_000_000)
    follower = Follower(str(log))
    (shown,) = [part.text for part in follower.poll() if isinstance(part, Open)]
    assert shown.startswith("(3000000 bytes) x")
    append(log, "x" * 3_000_000)  # more than one poll reads
    follower.poll()
    append(log, "\n")
    (whole,) = texts(follower.poll())
    assert whole.startswith("(6000000 bytes) x")


def test_noise_is_kept_byte_for_byte(log: Path) -> None:
    noise = bytes(range(256)).replace(b"\n", b"").replace(b"\r", b"").replace(b"\0", b"")
    log.write_bytes(noise + b"\n")
    assert texts(Follower(str(log)).poll()) == [noise.decode("utf-8", "surrogateescape")]
