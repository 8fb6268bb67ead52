"""What was made fast, and has to stay right: the nearest ticket alone is read, a child is born in its cgroup."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.queue import OwnTicket
from holdtop.hold.ticket import Wish
from holdtop.payload.cgroup import path_of
from holdtop.payload.containment import Place
from tests.hold.groups import own
from tests.hold.lanes import NAP, Box, ended, kill_both, sleepers, until


@contextlib.contextmanager
def queued(directory: Path, count: int) -> Iterator[tuple[Dir, list[OwnTicket]]]:
    """So many tickets of this process."""
    directory.mkdir(exist_ok=True)
    with Dir.root(str(directory)) as queue:
        waiting = [queues.join(queue, Wish("gpu", f"lane{number}", "true")) for number in range(count)]
        yield queue, waiting
        for one in waiting:
            os.close(one.fd)


def test_those_ahead_are_told_nearest_first_and_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    before = tickets.read

    def counted(queue: Dir, name: str) -> object:
        read.append(name)
        return before(queue, name)

    with queued(tmp_path / "q", 5) as (queue, waiting):
        ids = [one.ticket.id for one in waiting]
        for name in ("0000000003-nobody", "0000000000-1", "README"):
            (tmp_path / "q" / name).write_text("not ours")
        monkeypatch.setattr(tickets, "read", counted)
        last = waiting[4].ticket
        assert next(queues.ahead(queue, last, None)).id == ids[3]
        assert read == [ids[3]]
        assert [one.id for one in queues.ahead(queue, last, ids[3])] == [ids[2], ids[1], ids[0]]
        assert list(queues.ahead(queue, waiting[0].ticket, None)) == []
        assert queues.place(queue, last) == 5  # the unbelievable 0000000000-1 has a ticket's name


def test_a_child_is_born_in_its_place() -> None:
    place = Place(f"born-{os.getpid()}")
    place.cgroup = own().make(place.name)
    try:
        assert _home_of_a_child(place) == place.cgroup.path
    finally:
        place.cgroup.remove()


def test_where_the_cgroup_was_swept_away_the_child_is_moved_into_a_new_one() -> None:
    place = Place(f"swept-{os.getpid()}")
    place.cgroup = own().make(place.name)
    os.rmdir(place.cgroup.directory)
    try:
        assert _home_of_a_child(place, put=True) == place.cgroup.path
    finally:
        place.cgroup.remove()


def _home_of_a_child(place: Place, *, put: bool = False) -> str | None:
    """The cgroup of a child that ``place`` forks, while it waits for us."""
    go, tell = os.pipe()
    pid = place.fork()
    if pid == 0:
        os.close(tell)
        os.read(go, 1)
        os._exit(7)
    try:
        if put:
            place.put(pid)
        return path_of(pid)
    finally:
        os.close(go)
        os.close(tell)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_somebody_sees_that_the_holder_died_while_the_head_is_stopped(state: Box) -> None:
    """Only the head is woken by that, and here it hears nothing: whoever asks after the holder goes first."""
    holder = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    keeper = state.until_running()["keeper_pid"]
    head = state.run("true")
    until(lambda: [e for e in state.events() if e["event"] == "head" and e["by_pid"] == head.pid])
    second = state.run("true")
    until(lambda: len(state.tickets()) == 3)
    time.sleep(1)  # it sleeps by now; earlier would prove nothing, and fail nothing
    head.send_signal(signal.SIGSTOP)
    kill_both(holder, keeper)
    status, errors = ended(second, 60)
    head.send_signal(signal.SIGCONT)
    assert (status, ended(head)[0]) == (0, 0)
    assert "does not take the free token; going first" in errors
    assert (sleepers(), state.leftovers()) == ([], [])
