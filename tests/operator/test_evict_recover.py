"""Evicting and recovering, on a real queue: exactly one entry goes, and a living hold is never robbed."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from holdtop.errors import GoneError, RefusedError
from holdtop.hold.look import look
from holdtop.hold.places import resolve
from holdtop.hold.ticket import INITIAL_PIDNS
from holdtop.operator import execute, plan_evict, plan_recover
from holdtop.payload.process import Identity, Pinned, ProcessTable, is_alive, read_stat
from tests.hold.lanes import NAP, Box, ended, finished, until
from tests.operator.box import audited, kinds, process, shown


def test_a_waiting_ticket_goes_and_nothing_else(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    first = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    second = state.run("true")
    until(lambda: len(state.tickets()) == 3)
    plan = plan_evict(shown(state), state.tickets()[1], state_dir=str(state.state))
    outcome = execute(plan, reason="not now")
    assert outcome.status == 0
    assert ended(first)[0] == 120
    assert len(state.tickets()) == 2
    assert holder.poll() is None
    assert second.poll() is None
    assert kinds(state) == ["intent", "outcome"]
    again = execute(plan, reason="not now")
    assert again.status == 7
    assert kinds(state) == ["intent", "outcome"]
    holder.send_signal(signal.SIGTERM)
    assert ended(holder)[0] == 143
    assert ended(second)[0] == 0


def test_a_running_ticket_is_asked_to_stop(state: Box) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    plan = plan_evict(shown(state), started["ticket"], state_dir=str(state.state))
    assert (plan.verb, plan.means) == ("evict", "ask")
    assert execute(plan, reason="stop").status == 0
    assert ended(lane)[0] == 130
    assert [(record["kind"], record["verb"]) for record in audited(state)] == [
        ("intent", "evict"),
        ("outcome", "evict"),
    ]


@pytest.mark.parametrize("name", [b"t\xff\n\x1b[31m", b"-rf", b"job 7.123", b"\xe2\x80\xae"])
def test_a_foreign_entry_goes_exactly(state: Box, name: bytes) -> None:
    state.queue.mkdir()
    for entry in (name, name + b"x", b"other"):
        Path(os.fsdecode(os.fsencode(state.queue) + b"/" + entry)).write_text("")
    plan = plan_evict(shown(state), os.fsdecode(name), state_dir=str(state.state))
    assert execute(plan, reason="old").status == 0
    left = {entry for entry in os.listdir(os.fsencode(state.queue)) if not entry.startswith(b".")}
    assert left == {name + b"x", b"other"}
    assert [record["ticket"] for record in audited(state)] == [os.fsdecode(name)] * 2


def test_an_entry_that_was_replaced_is_not_the_one_that_was_shown(state: Box) -> None:
    state.queue.mkdir()
    entry = state.queue / "old"
    entry.write_text("")
    plan = plan_evict(shown(state), "old", state_dir=str(state.state))
    entry.unlink()
    entry.write_text("precious")  # the file system gives it the same inode again
    outcome = execute(plan, reason="old")
    assert outcome.status == 6
    assert entry.read_text() == "precious"
    assert kinds(state) == ["refused"]


def test_a_link_is_removed_and_not_followed_and_a_directory_is_refused(state: Box, tmp_path: Path) -> None:
    state.queue.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (state.queue / "link").symlink_to(victim)
    (state.queue / "dir").mkdir()
    snapshot = shown(state)
    assert execute(plan_evict(snapshot, "link", state_dir=str(state.state)), reason="r").status == 0
    assert victim.read_text() == "precious"
    assert not (state.queue / "link").is_symlink()
    with pytest.raises(RefusedError, match="is a directory"):
        plan_evict(snapshot, "dir", state_dir=str(state.state))
    for hidden in (".lock", "../victim", ""):
        with pytest.raises(GoneError):
            plan_evict(snapshot, hidden, state_dir=str(state.state))


def ghost(state: Box, *words: str) -> tuple[str, list[int]]:
    """A hold of which both processes were killed at once, and what it left."""
    lane = state.run(*words, stderr=subprocess.DEVNULL)
    started = state.until_running()
    root = Identity(started["root_pid"], _start(started["root_pid"]))
    until(lambda: len(_recorded(state, started["ticket"])) == 2)
    with (
        Pinned(Identity(lane.pid, _start(lane.pid))) as outer,
        Pinned(Identity(started["keeper_pid"], _start(started["keeper_pid"]))) as inner,
    ):
        outer.send(signal.SIGSTOP)
        inner.send(signal.SIGKILL)
        outer.send(signal.SIGKILL)
    lane.wait()
    until(lambda: is_alive(inner.identity) is False)  # its lock is free some milliseconds before
    until(lambda: (token := look(resolve("gpu", str(state.state))).token) and token.ghost)
    return started["ticket"], [root.pid, *ProcessTable().descendants(root.pid)]


def _start(pid: int) -> int:
    stat = read_stat(pid)
    assert stat
    return stat.start_ticks


def _recorded(state: Box, ticket: str) -> list[int]:
    import json

    path = state.queue / ".record" / f"{ticket}.json"
    return [one["pid"] for one in json.loads(path.read_text())["members"]] if path.exists() else []


def test_a_ghost_is_freed_and_its_leftovers_end_first(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    ticket, left = ghost(state, "sh", "-c", f"sleep {NAP} & wait")
    known = [process(seen, "record", 1 << 20) for pid in left if (seen := read_stat(pid))]
    plan = plan_recover(shown(state, known), "gpu", state_dir=str(state.state))
    assert plan.ticket == ticket
    assert {one.pid for one in plan.targets} == set(left)
    outcome = execute(plan, reason="ghost", grace=1)
    assert outcome.status == 0, outcome
    assert plan.expected_bytes == outcome.returned_bytes == len(left) << 20
    assert bystander.poll() is None
    assert not any((stat := read_stat(pid)) and not stat.dead for pid in left)
    assert state.leftovers() == []
    assert kinds(state) == ["intent", "outcome"]
    assert ended(state.run("true"))[0] == 0


def test_a_living_hold_is_not_recovered(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    token = state.token.read_bytes()
    with pytest.raises(RefusedError, match="holds it: end it with holdtop kill"):
        plan_recover(shown(state), "gpu", state_dir=str(state.state))
    assert state.token.read_bytes() == token
    lane.send_signal(signal.SIGTERM)
    ended(lane)
    with pytest.raises(GoneError, match="is free"):
        plan_recover(shown(state), "gpu", state_dir=str(state.state))


def test_an_emptied_token_is_a_living_holds_as_long_as_its_life_lock_is_taken(state: Box) -> None:
    """Also when no record of that hold could be written: a full disk, or the moment between take and start."""
    lane = state.run("sleep", NAP)
    state.until_running()
    os.truncate(state.token, 0)
    for record in finished(state.queue / ".record"):
        record.unlink()
    with pytest.raises(RefusedError, match="the life lock is taken"):
        plan_recover(shown(state), "gpu", state_dir=str(state.state))
    lane.send_signal(signal.SIGTERM)
    assert ended(lane)[0] == 143
    assert not state.token.exists()


@pytest.mark.parametrize("content", [b"", b'{"pid": 12', b"\0" * 512, b"x" * 70_000])
def test_a_garbled_token_is_freed_by_recover_and_kept_for_inspection(state: Box, content: bytes) -> None:
    state.queue.mkdir()
    state.token.write_bytes(content)
    plan = plan_recover(shown(state), "gpu", state_dir=str(state.state))
    assert plan.needs_typing
    assert execute(plan, reason="garbled").status == 0
    assert not state.token.exists()
    (kept,) = state.state.glob(".gpu-token.kept-*")
    assert kept.read_bytes() == content


def test_what_a_dead_hold_left_ends_before_a_garbled_token_is_freed_though_its_ticket_was_removed(state: Box) -> None:
    ticket, left = ghost(state, "sh", "-c", f"sleep {NAP} & wait")
    (state.queue / ticket).unlink()
    os.truncate(state.token, 0)
    assert execute(plan_recover(shown(state), "gpu", state_dir=str(state.state)), reason="garbled").status == 0
    assert left
    assert not any((stat := read_stat(pid)) and not stat.dead for pid in left)
    assert state.leftovers() == []


def test_a_living_hold_keeps_its_device_though_ticket_and_token_were_replaced(state: Box) -> None:
    lane = state.run("sh", "-c", f"trap '' TERM; sleep {NAP}", options=("--grace", "2"))
    (state.queue / state.until_running()["ticket"]).unlink()
    state.token.unlink()
    state.token.write_bytes(b"")
    with pytest.raises(RefusedError, match="is running"):
        plan_recover(shown(state), "gpu", state_dir=str(state.state))
    assert ended(lane)[0] in (125, 130)
    state.token.unlink()


def test_a_token_that_was_replaced_is_not_the_ghost_that_was_shown(state: Box) -> None:
    state.queue.mkdir()
    state.token.write_bytes(b"")
    plan = plan_recover(shown(state), "gpu", state_dir=str(state.state))
    state.token.unlink()
    state.token.write_bytes(b"somebody 1")
    before = state.token.read_bytes()
    assert execute(plan, reason="garbled").status == 6
    assert state.token.read_bytes() == before


def test_a_shell_token_is_freed_only_when_its_process_is_gone(state: Box) -> None:
    state.queue.mkdir()
    with subprocess.Popen(["sleep", NAP]) as shell:
        state.token.write_text(f"lane {shell.pid} 2026-01-01T00:00:00+00:00\n")
        alive = "is alive" if os.stat("/proc/self/ns/pid").st_ino == INITIAL_PIDNS else "initial pid namespace"
        with pytest.raises(RefusedError, match=alive):
            plan_recover(shown(state), "gpu", state_dir=str(state.state))
        shell.kill()
        shell.wait()
    user = read_stat(os.getpid())
    assert user
    with pytest.raises(RefusedError):
        plan_recover(shown(state, [process(user, "device")]), "gpu", state_dir=str(state.state))
    if alive == "is alive":  # elsewhere nobody can know, and it stays
        assert execute(plan_recover(shown(state), "gpu", state_dir=str(state.state)), reason="dead").status == 0
        assert not state.token.exists()
