"""Nobody is signalled through a forged file: root and operators recover, kill and wait, a member has written."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from holdtop.errors import RefusedError
from holdtop.hold import recovery
from holdtop.hold import ticket as tickets
from holdtop.operator import execute, plan_kill
from holdtop.payload.custody import Holds
from holdtop.payload.ending import Bounds
from holdtop.payload.members import RUN_MARK, real_uid
from holdtop.payload.powers import powers_of
from holdtop.payload.process import Identity, ProcessTable, Stat, is_alive, read_stat
from tests.hold.forged import (
    ATTACKER,
    as_member,
    begin,
    ghost,
    gone,
    lines,
    locked,
    queue,
    record,
    running,
    survivors,
    ticket,
    token,
    write,
)
from tests.hold.groups import group
from tests.hold.lanes import NAP, Box, ended, identity, until
from tests.hold.test_accounts import OTHER, shared
from tests.operator.box import process, shown

__all__ = ["shared"]

QUICK = ["-w", "1", "--grace", "0.3", "--survive-wait", "1"]


def waiter(box: Box, *options: str) -> tuple[int, str]:
    """Root waits its turn, and recovers what it finds on the way."""
    return ended(box.run("true", options=[*QUICK, *options]))


def recover(box: Box) -> subprocess.CompletedProcess[str]:
    return box.verb("recover", "--reason", "test", "--grace", "0.3", "--yes")


@pytest.mark.parametrize("victim", [0, OTHER])
def test_cannot_name_a_victim(shared: Box, victim: int) -> None:
    begin(shared)
    with running(victim) as bystander, running(ATTACKER) as own:
        ghost(shared, identity(bystander.pid), identity(own.pid))
        waiter(shared)
        recover(shared)
        assert bystander.poll() is None
        assert own.wait(5) == -signal.SIGTERM, "its author's own process was left over, and ended"


def test_cannot_name_what_runs_below_its_own(shared: Box) -> None:
    """As below ``sudo``: the recorded process is the author's, its child is not."""
    begin(shared)
    script = "import os, sys, time; os.fork() and os.setuid(int(sys.argv[1])); time.sleep(float(sys.argv[2]))"
    with running(0, sys.executable, "-c", script, str(ATTACKER), NAP) as parent:
        until(lambda: real_uid(parent.pid) == ATTACKER)
        (child,) = ProcessTable().descendants(parent.pid)
        kept = identity(child)
        try:
            ghost(shared, identity(parent.pid))
            left = ended_by_root(shared)
            assert parent.wait(5) == -signal.SIGTERM
            assert is_alive(kept), "only its own account, or root by a word of its own, may end it"
            assert left.denied == [child]
        finally:
            os.kill(child, signal.SIGKILL)


def ended_by_root(box: Box) -> recovery.Leftovers:
    """What a waiter or ``recover`` of root's does to the payload of the only ticket."""
    with queue(box) as there:
        (name,) = box.tickets()
        dead = tickets.read(there, name)
        return recovery.end_leftovers(there, dead, Bounds(0.2, 1), time.sleep, Holds)


@pytest.mark.parametrize("owner", [0, OTHER])
def test_cannot_name_a_cgroup(shared: Box, owner: int) -> None:
    begin(shared)
    with group(owner) as theirs, running(owner) as bystander:
        theirs.put(bystander.pid)
        ghost(shared, cgroups=[{"path": theirs.path, "inode": theirs.inode(), "sole": True}])
        waiter(shared)
        recover(shared)
        assert bystander.poll() is None


def test_cannot_mark_a_stranger(shared: Box) -> None:
    """A process with the mark of somebody's run is that run's only if it is of the hold's own account, too."""
    begin(shared)
    dead = lines(gone())
    marked = {**os.environ, RUN_MARK: f"{dead['id']}:{dead['nonce']}"}
    with running(0, env=marked) as bystander, running(ATTACKER, env=marked) as own:
        ticket(shared, dead)
        token(shared, dead)
        record(shared, dead)
        assert waiter(shared)[0] == 0
        assert own.wait(5) == -signal.SIGTERM
        assert bystander.poll() is None


@pytest.mark.parametrize("change", ["boot", "pidns", "timens", "start"])
def test_cannot_name_a_pid_of_elsewhere(shared: Box, change: str) -> None:
    """Not even the author's own process goes for a pid that meant another one: of another boot or namespace."""
    begin(shared)
    with running(ATTACKER) as own:
        it = identity(own.pid)
        if change == "start":
            ghost(shared, Identity(it.pid, it.start_ticks + 1))
        else:
            dead = lines(gone(), **{change: "4711"})
            ticket(shared, dead)
            token(shared, dead)
            record(shared, dead, it)
        left = ended_by_root(shared)
        assert (left.fates, left.denied) == ((), [])
        assert own.poll() is None


@contextlib.contextmanager
def held_by(box: Box, hold: Identity) -> Iterator[str]:
    """The attacker's token, ticket and locks, with that process as the hold. Gives the ticket's id."""
    forged = lines(hold)
    path = ticket(box, forged)
    token(box, forged)
    fds = [locked(path), locked(box.token)]
    yield forged["id"]
    for fd in fds:
        os.close(fd)


@pytest.mark.parametrize("victim", [0, OTHER])
def test_cannot_pass_a_victim_off_as_its_hold(shared: Box, victim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(shared)
    monkeypatch.setattr("holdtop.operator.ask.SLACK", 0.2)
    with running(victim) as bystander, held_by(shared, identity(bystander.pid)) as named:
        plan = plan_kill(shown(shared), named, state_dir=str(shared.state))
        assert plan.hold == (bystander.pid, identity(bystander.pid).start_ticks)
        assert execute(plan, reason="test", grace=0.2).status == 5
        assert bystander.poll() is None


def test_cannot_have_an_operators_own_process_ended(shared: Box) -> None:
    """An operator who is shown a part of his own session as a member's payload does not end it as that."""
    begin(shared)
    with running(0) as bystander, held_by(shared, identity(os.getppid())) as named:
        snapshot = shown(shared)
        (resource,) = snapshot.resources
        assert resource.holder
        assert resource.holder.payload
        payload = dataclasses.replace(resource.holder.payload, processes=(process(stat_of(bystander), "descent"),))
        holder = dataclasses.replace(resource.holder, payload=payload)
        snapshot = dataclasses.replace(snapshot, resources=(dataclasses.replace(resource, holder=holder),))
        with pytest.raises(RefusedError, match="by the word of"):
            plan_kill(snapshot, named, subtree=bystander.pid, state_dir=str(shared.state))


def test_cannot_name_a_survivor(shared: Box) -> None:
    begin(shared)
    with running(OTHER) as bystander:
        survivors(shared, identity(bystander.pid))
        assert waiter(shared, "--after-survivor", "refuse")[0] == 0, "a stranger's word makes nobody wait"
        snapshot = shown(shared, [process(stat_of(bystander), "record")], flagged="survivor")
        with pytest.raises(RefusedError, match="proves nothing"):
            plan_kill(snapshot, pid=bystander.pid, state_dir=str(shared.state))
        survivors(shared, identity(bystander.pid), uid=OTHER)
        assert waiter(shared, "--after-survivor", "refuse")[0] == 125, "its own account's does"


def stat_of(process: subprocess.Popen[bytes]) -> Stat:
    stat = read_stat(process.pid)
    assert stat
    return stat


def test_cannot_write_a_shell_token_for_another(shared: Box) -> None:
    begin(shared)
    with running(0) as bystander:
        write(shared.token, f"lane {bystander.pid}\n".encode())
        with pytest.raises(RefusedError, match="a claim, no proof"):
            plan_kill(shown(shared), pid=bystander.pid, state_dir=str(shared.state))
        write(shared.token, f"lane {bystander.pid}\n".encode(), uid=0)
        shared.token.chmod(0o664)
        assert plan_kill(shown(shared), pid=bystander.pid, state_dir=str(shared.state)).needs_typing


def test_cannot_signal_who_acts_for_it(shared: Box) -> None:
    """While root acts with a member's powers, the member has none over root's process."""

    tids: list[int] = []
    with powers_of(ATTACKER) as act:
        act(lambda: tids.append(threading.get_native_id()))

        def shoot() -> None:
            with pytest.raises(PermissionError):
                os.kill(tids[0], 0)  # a thread's id serves as well (kill(2))

        as_member(ATTACKER, shoot)
