"""Recovery by exchange: a ghost's token is replaced in one step, beside others that know only create and ``rm``."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold import token
from holdtop.hold.files import Dir
from holdtop.hold.ticket import Wish
from holdtop.hold.view import TokenFile
from holdtop.payload import linux
from tests.hold.lanes import NAP, Box, ended, kill_both
from tests.hold.refusing import renames

FORK = multiprocessing.get_context("fork")
NAME = "gpu-token"
SWAPPED = f".new-{NAME}.swapped"


def content() -> bytes:
    """A whole token of this very process."""
    lines = tickets.describe(Wish("gpu", "racer", "true"), 1)
    data = tickets.encode(lines)
    return token.content(tickets.parse(data, uid=os.geteuid(), locked=True), data, "/queue")


def in_child(work: Callable[[], object]) -> None:
    """Done by a process that is dead afterwards."""
    child = FORK.Process(target=work)
    child.start()
    child.join(20)


@pytest.fixture
def ghost(tmp_path: Path) -> bytes:
    """What a dead hold's token says."""
    in_child(lambda: (tmp_path / "ghost").write_bytes(content()))
    return (tmp_path / "ghost").read_bytes()


@pytest.fixture
def place(state: Box) -> Iterator[tuple[Dir, Dir]]:
    """The token's directory and the queue."""
    state.queue.mkdir()
    with Dir.root(str(state.state)) as directory, Dir.root(str(state.queue)) as queue:
        yield directory, queue


class Race:
    """Everybody runs as fast as it can. Whoever holds finds its own token in place at the end, or was robbed."""

    def __init__(self, box: Box, ghost: bytes, wins: int) -> None:
        self.box = box
        self.ghost = ghost
        self.wanted = wins
        self.wins, self.by_shell, self.lost = (FORK.Value("i", 0) for _ in range(3))
        #: Inodes of what the shell removed for stale and was not: that none does so is the premise.
        self.robbed = FORK.Array("q", 1_000)
        self.until = time.monotonic() + 60 + wins / 50

    def run(self, *parts: Callable[[Dir, Dir], None]) -> list[int | None]:
        self._plant()
        racers = [FORK.Process(target=self._repeat, args=(part,)) for part in parts]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        return [racer.exitcode for racer in racers]

    def _repeat(self, part: Callable[[Dir, Dir], None]) -> None:
        with Dir.root(str(self.box.state)) as directory, Dir.root(str(self.box.queue)) as queue:
            while self.wins.value < self.wanted and not self.lost.value and time.monotonic() < self.until:
                part(directory, queue)

    def _plant(self) -> None:
        """A hold has died: where nothing lies there is its ghost."""
        planted = self.box.state / f".planted-{os.getpid()}"
        planted.write_bytes(self.ghost)
        with contextlib.suppress(FileExistsError):
            os.link(planted, self.box.token)
        planted.unlink()

    def _held(self, inode: int, queue: Dir) -> None:
        """The end of a hold; in the lock nobody exchanges."""
        time.sleep(random.random() / 5_000)
        with queues.locked(queue), contextlib.suppress(FileNotFoundError):
            if self.box.token.stat().st_ino == inode:
                inode = 0
        deadline = time.monotonic() + 1
        while inode and inode not in self.robbed[:] and time.monotonic() < deadline:
            time.sleep(0.01)  # the robber may not have come to say so
        self.lost.value += bool(inode) and inode not in self.robbed[:]
        with self.wins.get_lock():
            self.wins.value += 1

    def recoverer(self, directory: Dir, queue: Dir) -> None:
        with token.pinned(directory, NAME) as pin:
            found = token.look(directory, NAME)
            if not (pin and found and found.ghost and found.inode == pin.st_ino):
                return
            with queues.locked(queue):
                own = token.exchange_for(directory, NAME, content(), found, keep_as=None)
        if own:
            self._held(os.fstat(own.fd).st_ino, queue)
            with queues.locked(queue):
                own.release()
            os.close(own.fd)
            self._plant()

    def shell(self, _directory: Dir, queue: Dir) -> None:
        """Removes what it takes for stale, and creates; ``rm`` at the end, whatever lies there by then."""
        path, trash = self.box.token, self.box.state / ".trash"
        time.sleep(random.choice((0, 0.002)))  # else the recoverers hardly ever come first
        with contextlib.suppress(FileNotFoundError, FileExistsError):
            if path.read_bytes() != self.ghost:
                return
            os.rename(path, trash)
            if trash.read_bytes() != self.ghost:
                self.robbed[self.robbed[:].index(0)] = trash.stat().st_ino
                return
            with open(path, "xb", buffering=0) as file:
                file.write(f"shell {os.getpid()}\n".encode())
                self.by_shell.value += 1
                self._held(os.fstat(file.fileno()).st_ino, queue)
            path.unlink()
            self._plant()


@pytest.mark.parametrize("wins", [1_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_recoverers_and_a_shell_at_one_ghost_are_never_two(
    state: Box, place: tuple[Dir, Dir], ghost: bytes, wins: int
) -> None:
    assert place
    race = Race(state, ghost, wins)
    assert race.run(race.recoverer, race.recoverer, race.shell) == [0, 0, 0]
    assert race.lost.value == 0, "a holder's token was taken from it"
    assert race.wins.value >= wins, "nobody came on: what lay there was nobody's"
    assert 0 < race.by_shell.value < race.wins.value, "both kinds took part"


def taken_by_a_shell(directory: Dir, act: Callable[[], None]) -> Callable[..., None]:
    """In place of renameat2: just before the first exchange a shell has removed the ghost and taken; then ``act``."""
    real, path = linux.rename_special, Path(directory.path, NAME)
    rounds: list[int] = []

    def rename(*args: Any) -> None:
        if args[-1] != linux.RENAME_EXCHANGE or rounds:
            return real(*args)
        rounds.append(1)
        path.unlink()
        path.write_text("shell 77\n")
        real(*args)
        return act()

    return rename


@pytest.fixture
def found(place: tuple[Dir, Dir], ghost: bytes) -> Iterator[TokenFile]:
    """The ghost as a recoverer sees it: its inode is kept from being used again."""
    Path(place[0].path, NAME).write_bytes(ghost)
    with token.pinned(place[0], NAME):
        seen = token.look(place[0], NAME)
        assert seen
        assert seen.ghost
        yield seen


def test_a_killed_recoverer_does_not_cost_a_shell_its_token(
    place: tuple[Dir, Dir], found: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies with the shell's token in its hands; what lies there then is its own, and a ghost."""
    directory, path = place[0], Path(place[0].path, NAME)

    def recover_and_die() -> None:
        monkeypatch.setattr(linux, "rename_special", taken_by_a_shell(directory, lambda: os._exit(9)))
        token.exchange_for(directory, NAME, content(), found, keep_as=None)

    in_child(recover_and_die)
    between = token.look(directory, NAME)
    assert between
    assert between.ghost, "the shell's token is out of sight"
    assert token.exchange_for(directory, NAME, content(), between, keep_as=None) is None
    assert path.read_text() == "shell 77\n"
    assert sorted(os.listdir(directory.path)) == ["gpu-queue", NAME]


def test_a_shell_that_released_meanwhile_is_not_put_back(
    place: tuple[Dir, Dir], found: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, path = place[0], Path(place[0].path, NAME)
    monkeypatch.setattr(linux, "rename_special", taken_by_a_shell(directory, path.unlink))
    assert token.exchange_for(directory, NAME, content(), found, keep_as=None) is None
    assert sorted(os.listdir(directory.path)) == ["gpu-queue"], "neither its token nor ours"


def test_a_shell_that_took_after_one_that_released_keeps_its_token(
    place: tuple[Dir, Dir], found: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, path = place[0], Path(place[0].path, NAME)

    def next_one() -> None:
        path.unlink()
        path.write_text("next 78\n")

    monkeypatch.setattr(linux, "rename_special", taken_by_a_shell(directory, next_one))
    assert token.exchange_for(directory, NAME, content(), found, keep_as=None) is None
    assert path.read_text() == "next 78\n"
    assert sorted(os.listdir(directory.path)) == ["gpu-queue", NAME]


def test_what_a_killed_exchange_left_does_not_come_back_after_a_take(place: tuple[Dir, Dir], found: TokenFile) -> None:
    directory, path = place[0], Path(place[0].path, NAME)
    (state := path.parent / SWAPPED).write_text("shell 77\n")
    path.unlink()
    own = token.take(directory, NAME, content())
    assert found
    assert own
    assert not state.exists()
    os.close(own.fd)


def test_a_living_holds_token_is_not_even_moved(
    place: tuple[Dir, Dir], found: TokenFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder watches the path: an instant of another token there would cost it its payload."""
    directory, path = place[0], Path(place[0].path, NAME)
    path.unlink()
    own = token.take(directory, NAME, content())
    assert own

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(linux, "rename_special", never)
    assert token.exchange_for(directory, NAME, content(), found, keep_as=None) is None
    assert own.in_place()
    os.close(own.fd)


def test_where_nothing_can_be_exchanged_holds_run_and_a_ghost_is_refused_with_its_remedy(state: Box) -> None:
    """Neither exchange nor an exclusive rename: as on NFS."""
    nfs = renames(linux.RENAME_EXCHANGE | linux.RENAME_NOREPLACE)
    assert ended(state.run("sh", "-c", "exit 7", preexec_fn=nfs))[0] == 7
    assert state.leftovers() == []
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    kill_both(lane, state.until_running()["keeper_pid"])
    before = state.token.read_bytes()
    status, errors = ended(state.run("true", options=["--grace", "0.2"], preexec_fn=renames(linux.RENAME_EXCHANGE)))
    assert status == 125
    assert "cannot exchange" in errors
    assert "remove it by hand" in errors
    freed = state.verb("recover", "--yes", "--reason", "test", preexec_fn=nfs)
    assert freed.returncode == 6
    assert "remove it by hand" in freed.stderr
    assert state.token.read_bytes() == before
    assert ended(state.run("true", options=["--grace", "0.2"]))[0] == 0
    assert state.leftovers() == []
