"""Ending payloads and parts of them, with real holds: what was planned ends, all else lives, two records stay."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdtop.errors import GoneError, RefusedError
from holdtop.operator import ask, execute, plan_kill
from holdtop.operator.values import Step
from holdtop.payload.process import ProcessTable, read_stat
from tests.hold.lanes import NAP, Box, ended, until
from tests.operator.box import audited, kinds, process, shown


def alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.dead


def descendants(pid: int) -> list[int]:
    return list(ProcessTable().descendants(pid))


TREE = f"sleep {NAP} & (trap '' TERM; sleep {NAP} & wait; wait) & wait"


def test_a_hold_is_asked_and_only_its_payload_ends(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    lane = state.run("sh", "-c", TREE, options=["--grace", "0.5"])
    started = state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    until(lambda: len(descendants(started["keeper_pid"])) == 4)
    members = descendants(started["keeper_pid"])
    snapshot = shown(state)
    plan = plan_kill(snapshot, started["ticket"], state_dir=str(state.state))
    assert {one.pid for one in plan.targets} == set(members)
    assert plan.expected_bytes == len(members) << 30
    steps: list[Step] = []
    outcome = execute(plan, reason="stuck", progress=steps.append)
    status, errors = ended(lane)
    assert (outcome.status, status) == (0, 130), (outcome, errors)
    assert "stopped by" in errors
    assert not any(map(alive, members))
    assert bystander.poll() is None
    assert ended(waiter)[0] == 0
    assert kinds(state) == ["intent", "outcome"]
    assert {step.fate for step in outcome.steps} >= {"killed", "terminated"}
    assert outcome.returned_bytes == len(members) << 30
    assert [dict(record) for record in outcome.records] == audited(state)
    assert {step.pid for step in steps if step.fate == "asked"} >= set(members)


def test_a_pid_inside_means_its_whole_payload_and_a_subtree_does_not(state: Box) -> None:
    lane = state.run("sh", "-c", f"sh -c 'sleep {NAP} & sleep {NAP} & wait' & sleep {NAP} & wait; exit 7")
    started = state.until_running()
    root = started["root_pid"]
    until(lambda: len(descendants(root)) == 4)
    inner = next(pid for pid in ProcessTable().children[root] if ProcessTable().children.get(pid))
    snapshot = shown(state)
    whole = plan_kill(snapshot, pid=inner, state_dir=str(state.state))
    part = plan_kill(snapshot, subtree=inner, state_dir=str(state.state))
    assert {one.pid for one in whole.targets} == {root, *descendants(root)}
    assert {one.pid for one in part.targets} == {inner, *descendants(inner)}
    assert whole.how != part.how
    assert part.targets[0].pid == inner
    others = {one.pid for one in whole.targets} - {one.pid for one in part.targets}
    outcome = execute(part, reason="only this", grace=1)
    assert outcome.status == 0, outcome
    assert not any(alive(one.pid) for one in part.targets)
    assert all(map(alive, others))
    assert state.token.exists()
    assert execute(whole, reason="now all").status == 0
    assert ended(lane)[0] == 130
    assert kinds(state) == ["intent", "outcome"] * 2


def test_what_a_subtree_starts_after_the_plan_goes_with_it(state: Box, tmp_path: Path) -> None:
    go = tmp_path / "go"
    script = f"while [ ! -e {go} ]; do sleep 0.05; done; setsid sleep {NAP} & wait"
    lane = state.run("sh", "-c", f"sh -c '{script}' & wait; sleep {NAP}")
    started = state.until_running()
    inner = until(lambda: ProcessTable().children.get(started["root_pid"]))[0]
    plan = plan_kill(shown(state), subtree=inner, state_dir=str(state.state))
    go.touch()
    late = until(lambda: [p for p in descendants(inner) if b"sleep\0" + NAP.encode() in _cmdline(p)])
    assert execute(plan, reason="part", grace=1).status == 0
    assert not alive(late[0])
    assert {one["pid"] for one in audited(state)[0]["targets"]} >= {inner, late[0]}
    lane.send_signal(signal.SIGTERM)
    assert ended(lane)[0] == 143


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_hold_that_does_not_answer_is_signalled(
    state: Box, bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of its processes are stopped: no request reaches them."""
    monkeypatch.setattr(ask, "SLACK", 0.7)
    lane = state.run("sh", "-c", f"trap '' TERM; sleep {NAP} & wait", options=["--grace", "0.3"])
    started = state.until_running()
    members = [started["root_pid"], *until(lambda: descendants(started["root_pid"]))]
    plan = plan_kill(shown(state), started["ticket"], state_dir=str(state.state))
    os.kill(started["keeper_pid"], signal.SIGSTOP)
    os.kill(lane.pid, signal.SIGSTOP)
    # The keeper continues a stopped supervisor and the other way round: keep both down for the whole bound.
    with subprocess.Popen(
        [sys.executable, "-c", _KEEP_STOPPED, str(lane.pid), str(started["keeper_pid"])], start_new_session=True
    ) as keeper_down:
        outcome = execute(plan, reason="stuck", grace=0.3)
        keeper_down.kill()
    ended(lane)
    assert "did not answer" in outcome.text
    assert outcome.status == 5, outcome
    assert "holdtop recover" in outcome.text
    assert not any(map(alive, members))
    assert bystander.poll() is None
    assert kinds(state) == ["intent", "outcome"]


_KEEP_STOPPED = """
import os, signal, sys, time
while True:
    for pid in map(int, sys.argv[1:]):
        try: os.kill(pid, signal.SIGSTOP)
        except OSError: sys.exit()
    time.sleep(0.005)
"""


def test_a_stray_is_ended_alone_and_its_typed_pid_is_asked(state: Box) -> None:
    with subprocess.Popen(["sh", "-c", f"sleep {NAP} & echo; wait"], stdout=subprocess.PIPE) as stray:
        assert stray.stdout
        stray.stdout.readline()
        (child,) = descendants(stray.pid)
        stat = read_stat(stray.pid)
        assert stat
        plan = plan_kill(shown(state, [process(stat, "device")]), pid=stray.pid, state_dir=str(state.state))
        assert plan.needs_typing
        assert plan.typed == str(stray.pid)
        assert execute(plan, reason="stray", grace=1).status == 0
        assert stray.wait() == -signal.SIGTERM
        assert alive(child)
        os.kill(child, signal.SIGKILL)
    assert kinds(state) == ["intent", "outcome"]


def test_a_recycled_pid_is_refused(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    stat = read_stat(bystander.pid)
    assert stat
    was = dataclasses.replace(process(stat, "device"), start_ticks=stat.start_ticks - 1)
    snapshot = shown(state, [was])
    (state.queue).mkdir()
    with pytest.raises(RefusedError, match="another process now"):
        plan_kill(snapshot, pid=bystander.pid, state_dir=str(state.state))
    good = plan_kill(shown(state, [process(stat, "device")]), pid=bystander.pid, state_dir=str(state.state))
    old = dataclasses.replace(good, targets=(dataclasses.replace(good.targets[0], start_ticks=1),))
    outcome = execute(old, reason="stray")
    assert outcome.status == 6
    assert "another process now" in outcome.text
    assert bystander.poll() is None
    assert kinds(state) == ["refused", "refused"]


def test_the_refused_are_on_record_and_unharmed(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    """Even as flagged ones nobody ends init, himself or what he runs under; and nobody a stranger."""
    state.queue.mkdir()
    above = [stat for pid in (os.getpid(), os.getppid()) if (stat := read_stat(pid))]
    snapshot = shown(state, [process(stat, "device") for stat in above])
    never, stranger = "never signalled", "nor flagged"
    said = {
        1: never,
        0: never,
        -1: never,
        os.getpid(): "this very",
        os.getppid(): "an ancestor",
        bystander.pid: stranger,
    }
    for pid, why in said.items():
        with pytest.raises(RefusedError, match=why):
            plan_kill(snapshot, pid=pid, state_dir=str(state.state))
    assert kinds(state) == ["refused"] * 6
    with pytest.raises(RefusedError):
        plan_kill(snapshot, pid=1, state_dir=str(state.state), dry_run=True)
    assert len(audited(state)) == 6
    assert bystander.poll() is None


def test_an_unreaped_process_is_already_dead(state: Box) -> None:
    with subprocess.Popen(["true"]) as zombie:
        until(lambda: (stat := read_stat(zombie.pid)) is not None and stat.dead)
        with pytest.raises(GoneError, match=f"already dead; its parent {os.getpid()} has not reaped it"):
            plan_kill(shown(state), pid=zombie.pid, state_dir=str(state.state))


@pytest.mark.parametrize("why", ["read-only", "no reason", "recorded", "audit"])
def test_nothing_is_signalled_when_the_act_is_refused(
    state: Box, bystander: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    stat = read_stat(bystander.pid)
    assert stat
    plan = plan_kill(shown(state, [process(stat, "device")]), pid=bystander.pid, state_dir=str(state.state))
    if why == "recorded":
        monkeypatch.setenv("HOLDTOP_PROC", "/recorded")
    if why == "audit":
        state.queue.mkdir()
        (state.queue / ".audit").mkdir()
        (state.queue / ".audit" / f"{os.geteuid()}.jsonl").symlink_to("/dev/full")
    outcome = execute(plan, reason="  " if why == "no reason" else "r", read_only=why == "read-only", grace=0.2)
    assert outcome.status == 6
    time.sleep(0.3)
    assert bystander.poll() is None
    if why == "audit":
        assert execute(plan, reason="r", unaudited=True, grace=0.2).status == 0
        assert bystander.wait() == -signal.SIGTERM
    else:
        assert kinds(state) == ["refused"]


def test_the_intent_is_on_disk_before_the_signal(state: Box, tmp_path: Path) -> None:
    """The victim itself copies the audit at the moment it is told to end."""
    copy = tmp_path / "copy"
    audit = state.queue / ".audit" / f"{os.geteuid()}.jsonl"
    script = f"trap 'cp {audit} {copy}; exit' TERM; echo; while :; do sleep 0.05; done"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as victim:
        assert victim.stdout
        victim.stdout.readline()
        stat = read_stat(victim.pid)
        assert stat
        plan = plan_kill(shown(state, [process(stat, "device")]), pid=victim.pid, state_dir=str(state.state))
        assert execute(plan, reason="stray", grace=5).status == 0
    assert copy.read_text().count("\n") == 1
    assert '"kind":"intent"' in copy.read_text()


@pytest.mark.parametrize("reason", ["a\nb", "[/red]", "\x1b[31m", "a) R 1 1 (b", "\udcff", '{"kind":"intent"}'])
def test_hostile_text_is_one_record(state: Box, reason: str) -> None:
    lane = state.run("sh", "-c", f"sleep {NAP}; :", "a) R 1 1 (b", "[/red]\n\x1b[2J", options=["--lane", "[/red]"])
    started = state.until_running()
    plan = plan_kill(shown(state), started["ticket"], state_dir=str(state.state))
    assert execute(plan, reason=reason).status == 0
    ended(lane)
    assert [(r["kind"], r["reason"], r["lane"]) for r in audited(state)] == [
        ("intent", reason, "[/red]"),
        ("outcome", reason, "[/red]"),
    ]


def test_secrets_in_a_reason_do_not_reach_the_disk(state: Box) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    plan = plan_kill(shown(state), started["ticket"], state_dir=str(state.state))
    assert execute(plan, reason="leaked ghp_0123456789abcdef").status == 0
    ended(lane)
    assert b"0123456789abcdef" not in (state.queue / ".audit" / f"{os.geteuid()}.jsonl").read_bytes()


def test_a_ticket_that_has_gone_meanwhile(state: Box) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    snapshot = shown(state)
    plan = plan_kill(snapshot, started["ticket"], state_dir=str(state.state))
    lane.send_signal(signal.SIGTERM)
    ended(lane)
    outcome = execute(plan, reason="late")
    assert (outcome.status, outcome.records) == (7, ())
    with pytest.raises(GoneError):
        plan_kill(snapshot, started["ticket"], state_dir=str(state.state))


def test_a_waiting_ticket_has_nothing_to_kill(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    with pytest.raises(RefusedError, match="holdtop evict"):
        plan_kill(shown(state), state.tickets()[1], state_dir=str(state.state))
    lane.send_signal(signal.SIGTERM)
    ended(lane)
    assert ended(waiter)[0] == 0


def test_the_claim_is_seen_while_it_lasts(state: Box) -> None:
    from holdtop.hold import claim
    from holdtop.hold.files import Dir

    lane = state.run("sh", "-c", f"trap '' TERM; sleep {NAP} & wait; wait", options=["--grace", "0.5"])
    started = state.until_running()
    plan = plan_kill(shown(state), started["ticket"], state_dir=str(state.state))
    seen: list[object] = []
    with Dir.root(str(state.queue)) as queue:
        execute(plan, reason="stuck", progress=lambda _step: seen.append(dict(claim.pending(queue))))
        assert started["ticket"] in seen[0]  # type: ignore[operator]
        assert dict(claim.pending(queue)) == {}
        claim.write(queue, started["ticket"], -1)
        assert dict(claim.pending(queue)) == {}
    ended(lane)
