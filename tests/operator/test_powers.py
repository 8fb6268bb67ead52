"""Whose word is believed, and with whose powers an act is done."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop import config
from holdtop.errors import RefusedError
from holdtop.model.values import FoundBy
from holdtop.operator import execute, plan_kill
from holdtop.operator.actor import refuse_unless_heeded
from holdtop.payload.linux import NOBODYS_UID
from holdtop.payload.powers import with_powers_of
from holdtop.payload.process import Stat, read_stat
from tests.hold.lanes import NAP, Box, ended
from tests.operator.box import kinds, process, shown

STRANGER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: acts with another account's powers")


def stat_of(pid: int) -> Stat:
    stat = read_stat(pid)
    assert stat
    return stat


@pytest.fixture
def theirs() -> Iterator[subprocess.Popen[bytes]]:
    """A process of another account."""
    with subprocess.Popen(["sleep", NAP], user=STRANGER, group=STRANGER, extra_groups=[]) as sleeper:
        yield sleeper
        sleeper.kill()


def survivor(state: Box, victim: int, author: int) -> None:
    """A record of a survivor as ``author`` would have written it."""
    directory = state.queue / ".survivors"
    directory.mkdir(parents=True)
    path = directory / "0000000001-4711.json"
    one = {"pid": victim, "start_ticks": stat_of(victim).start_ticks, "name": "x"}
    said = {"ticket": "0000000001-4711", "lane": "l", "released_at": "", "why": [], "processes": [one]}
    path.write_text(json.dumps(said))
    os.chown(path, author, -1)


@needs_root
def test_root_takes_the_authors_powers_and_nobody_elses_thread_changes() -> None:
    before = os.getresuid(), os.getgroups()
    inside = with_powers_of(STRANGER, lambda: (os.getresuid(), os.getresgid(), os.getgroups(), threading.get_ident()))
    assert inside[0] == (NOBODYS_UID, STRANGER, NOBODYS_UID)
    assert inside[1][0] != 0
    assert inside[2] == []
    assert inside[3] != threading.get_ident()
    assert (os.getresuid(), os.getgroups()) == before


@needs_root
def test_the_kernel_refuses_what_the_author_could_not_do(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    """A plan that says that root's process is a stranger's: nothing but the kernel stands in the way."""
    honest = shown(state, [process(stat_of(bystander.pid), "device")])
    plan = dataclasses.replace(plan_kill(honest, pid=bystander.pid, state_dir=str(state.state)), uid=STRANGER)
    outcome = execute(plan, reason="r", grace=0.2)
    assert outcome.status == 5
    assert "not permitted" in outcome.text
    assert bystander.poll() is None
    assert kinds(state) == ["intent", "outcome"]


@needs_root
def test_root_ends_what_its_author_could(state: Box, theirs: subprocess.Popen[bytes]) -> None:
    survivor(state, theirs.pid, STRANGER)
    snapshot = shown(state, [process(stat_of(theirs.pid), "record")], flagged="survivor")
    plan = plan_kill(snapshot, pid=theirs.pid, state_dir=str(state.state))
    assert plan.uid == STRANGER
    assert plan.needs_typing
    assert execute(plan, reason="survivor", grace=1).status == 0
    assert theirs.wait() == -signal.SIGTERM


@needs_root
def test_a_record_about_another_accounts_process_proves_nothing(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    survivor(state, bystander.pid, STRANGER)
    snapshot = shown(state, [process(stat_of(bystander.pid), "record")], flagged="survivor")
    with pytest.raises(RefusedError, match="anybody else's word proves nothing"):
        plan_kill(snapshot, pid=bystander.pid, state_dir=str(state.state))
    assert kinds(state) == ["refused"]


@needs_root
def test_a_shell_token_that_names_another_accounts_process_proves_nothing(
    state: Box, bystander: subprocess.Popen[bytes]
) -> None:
    state.queue.mkdir()
    state.token.write_text(f"lane {bystander.pid}\n")
    os.chown(state.token, STRANGER, -1)
    with pytest.raises(RefusedError, match="a claim, no proof"):
        plan_kill(shown(state), pid=bystander.pid, state_dir=str(state.state))


def test_a_shell_holder_is_told_and_releases_its_token_itself(state: Box) -> None:
    state.queue.mkdir()
    script = f"echo lane $$ > {state.token}; trap 'rm {state.token}; exit' TERM; echo; sleep {NAP} & wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as shell:
        assert shell.stdout
        shell.stdout.readline()
        plan = plan_kill(shown(state), pid=shell.pid, state_dir=str(state.state))
        assert plan.means == "signal"
        assert execute(plan, reason="stuck", grace=3).status == 0
    assert not state.token.exists()


@pytest.mark.parametrize(("operators", "heeded"), [("['54321']", True), ("['54322']", False), ("[]", False)])
def test_only_owner_root_and_operators_are_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operators: str, heeded: bool
) -> None:
    path = tmp_path / "system.toml"
    path.write_text(f"operators = {operators}")
    monkeypatch.setattr(config, "SYSTEM_FILE", str(path))
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    refuse_unless_heeded(54321, "own")
    if heeded:
        refuse_unless_heeded(4711, "theirs")
    else:
        with pytest.raises(RefusedError, match="nor an operator named in"):
            refuse_unless_heeded(4711, "theirs")


def test_a_suspect_is_no_member_and_a_marked_one_is_shown_apart(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    snapshot = shown(state)
    (resource,) = snapshot.resources
    assert resource.holder
    assert resource.holder.payload
    stat = stat_of(bystander.pid)
    suspicions: tuple[FoundBy, ...] = ("device", "marker")
    for found_by in suspicions:
        odd = process(stat, found_by)
        payload = dataclasses.replace(resource.holder.payload, processes=(*resource.holder.payload.processes, odd))
        holder = dataclasses.replace(resource.holder, payload=payload)
        changed = dataclasses.replace(snapshot, resources=(dataclasses.replace(resource, holder=holder),))
        plan = plan_kill(changed, started["ticket"], state_dir=str(state.state))
        assert bystander.pid not in {one.pid for one in plan.targets}
        assert ({one.pid for one in plan.weak} == {bystander.pid}) is (found_by == "marker")
        assert any(f"pid {bystander.pid}" in line for line in plan.spared) is (found_by == "device")
        with pytest.raises(RefusedError, match="no proven member"):
            plan_kill(changed, subtree=bystander.pid, state_dir=str(state.state))
    lane.send_signal(signal.SIGTERM)
    ended(lane)
