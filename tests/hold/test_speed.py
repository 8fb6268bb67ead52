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

from holdtop.hold import places
from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.others import other_holds
from holdtop.hold.queue import OwnTicket
from holdtop.hold.ticket import Wish
from holdtop.hold.view import TicketFile
from holdtop.payload.cgroup import path_of
from holdtop.payload.containment import Place
from tests.hold.groups import own
from tests.hold.lanes import NAP, Box, ended, identity, kill_both, sleepers, until


@contextlib.contextmanager
def queued(directory: Path, count: int) -> Iterator[tuple[Dir, list[OwnTicket]]]:
    """So many tickets of this process."""
    directory.mkdir(exist_ok=True)
    with Dir.root(str(directory)) as queue:
        waiting = [queues.join(queue, Wish("gpu", f"lane{number}", "true")) for number in range(count)]
        yield queue, waiting
        for one in waiting:
            os.close(one.fd)


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the tickets that are read from now on."""
    read: list[str] = []
    before = tickets.read

    def counted(queue: Dir, name: str, *, asking: bool = True) -> TicketFile:
        read.append(name)
        return before(queue, name, asking=asking)

    monkeypatch.setattr(tickets, "read", counted)
    return read


def gone() -> int:
    """A pid that no process has."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_those_ahead_are_told_nearest_first_and_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queued(tmp_path / "q", 5) as (_, waiting):
        ids = [one.ticket.id for one in waiting]
        for name in ("0000000003-nobody", "0000000000-1", "README"):
            (tmp_path / "q" / name).write_text("not ours")
        read = reads(monkeypatch)
        last = waiting[4]
        assert next(queues.ahead(last, None)).id == ids[3]
        assert read == [ids[3]]
        assert [one.id for one in queues.ahead(last, ids[3])] == [ids[2], ids[1], ids[0]]
        assert list(queues.ahead(waiting[0], None)) == []
        assert queues.place(last) == 4


def test_who_waits_lists_the_queue_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No number is given twice and none below another: who is before one only becomes less."""
    listed: list[str] = []
    with queued(tmp_path / "q", 6) as (queue, waiting):
        monkeypatch.setattr(Dir, "names", lambda there: listed.append(there.path))
        ids, last = [one.ticket.id for one in waiting], waiting[5]
        for gone in (0, 1, 4):
            queue.remove(ids[gone])
        assert [one.id for one in queues.ahead(last, None)] == [ids[3], ids[2]]
        assert (queues.place(last), last.before) == (2, ids[2:4])
        assert listed == []


def test_whoever_queues_up_reads_the_front_and_the_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with queued(tmp_path / "q", queues.SWEPT + 40) as (queue, waiting):
        read = reads(monkeypatch)
        highest, nobody = waiting[-1].ticket.sequence, gone()
        dead = f"{highest + 1:010d}-{nobody}"
        lines = tickets.decode(waiting[-1].data) | {"id": dead, "pid": str(nobody)}
        os.close(queue.create(dead, tickets.encode(lines)))
        last = queues.join(queue, Wish("gpu", "last", "true"))
        os.close(last.fd)
        assert last.before == [one.ticket.id for one in waiting], "the dead one is swept away"
        assert read[: queues.SWEPT + 1] == [*(one.ticket.id for one in waiting[: queues.SWEPT]), dead]
        assert len(read) == queues.SWEPT + 2, "one more for the highest number"


def test_other_holds_are_read_when_somebody_asks_for_them(state: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    with queued(state.queue, 20):
        read = reads(monkeypatch)
        others = other_holds(places.resolve("gpu", str(state.state)))
        assert (read, others.claimed) == ([], {os.getpid()})
        assert (list(others.among([os.getppid(), os.getpid()])), len(read)) == ([os.getpid()], 1)
        assert list(other_holds(places.resolve("gpu", str(state.state)), {os.getpid()}).among([os.getpid()])) == []


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


def test_of_a_crowd_that_was_just_looked_at_the_changes_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with queued(tmp_path / "q", queues.SWEPT + 3 * queues.AFRESH) as (queue, waiting):
        dies = subprocess.Popen(["sleep", NAP])
        lines = tickets.decode(waiting[-1].data) | {"pid": str(dies.pid), "start": str(identity(dies.pid).start_ticks)}
        lines["id"] = f"{waiting[-1].ticket.sequence + 1:010d}-{dies.pid}"
        fd = queue.create(lines["id"], tickets.encode(lines))
        tickets.lock_life(fd)
        first, _ = queues.look(queue)
        read = reads(monkeypatch)
        assert queues.look(queue, first)[0] == first
        assert len(read) in (queues.SWEPT + 3, queues.SWEPT + 4), "the front, and in turn some of the rest"
        for _ in range(queues.AFRESH):
            queues.look(queue, first)
        assert {*read} == {one.id for one in first}, "in the end each"
        os.close(fd)
        dies.kill()
        dies.wait()
        queue.remove(first[-2].id)
        seen, _ = queues.look(queue, first)
        assert [one.id for one in seen] == [one.id for one in first if one.id != first[-2].id]
        assert [one.id for one in seen if one.dead] == [lines["id"]]
