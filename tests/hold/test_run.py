"""``holdtop run`` with real processes: exit statuses, order, exclusion, ends, and what is left (nothing)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdtop.hold import stop
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.payload.containment import NoScopes, possible
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, kill_both, sleepers, until

STUBBORN = f"""
sh -c 'trap "" TERM; sleep {NAP}' &
setsid sh -c 'sleep {NAP}; true' &
env -i setsid -f sh -c 'sleep {NAP}; true'
sleep {NAP}
"""


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["true"], 0),
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["sh", "-c", "trap 'exit 0' TERM; kill $$; sleep 5"], 0),
        (["sh", "-c", "kill -ABRT $$"], 134),
        (["no-such-command-here"], 127),
        (["/etc/passwd"], 126),
        pytest.param(["x" * 100_000], 126, id="a name longer than what the hold's processes read at once"),
    ],
)
def test_the_status_is_the_payloads_own(state: Box, command: list[str], status: int) -> None:
    assert ended(state.run(*command))[0] == status
    assert state.leftovers() == []


def test_now_or_never(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    started = time.monotonic()
    status, errors = ended(state.run("true", options=["-w", "0", "--lane", "late"]))
    assert status == 121
    assert f"-w limit is over: held by lane {state.token.read_text().split()[0]}, pid {holder.pid}" in errors
    assert time.monotonic() - started < 20
    assert ended(state.run("true", options=["-w", "0.3"]))[0] == 121
    holder.terminate()
    assert ended(holder)[0] == 143
    assert ended(state.run("true", options=["-w", "0"]))[0] == 0


@pytest.mark.parametrize("contain", ["auto", "subreaper"])
def test_max_hold_ends_the_tree_and_says_so(state: Box, contain: str) -> None:
    lane = state.run("sh", "-c", STUBBORN, options=["--max-hold", "1", "--grace", "0.5", "--contain", contain])
    status, errors = ended(lane)
    assert status == 124
    assert "max-hold" in errors
    assert sleepers() == []
    assert state.leftovers() == []
    end = next(event for event in state.events() if event["event"] == "ended")
    assert end["reason"] == "max-hold"
    in_cgroup = contain == "auto" and "cgroup" in possible(NoScopes())
    assert end["proof"] == ("ECHILD, populated 0" if in_cgroup else "ECHILD")
    by = {fate["ended_by"] for fate in end["ended"]}
    assert by == {"TERM", "KILL"}, "the stubborn one needed KILL, the others did not"


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGQUIT, 131)],
)
def test_a_signal_to_the_hold_ends_everything_and_then_frees_the_token(
    state: Box, signum: signal.Signals, status: int
) -> None:
    lane = state.run("sh", "-c", STUBBORN, options=["--grace", "0.5"])
    state.until_running()
    until(lambda: len(sleepers()) >= 4)
    lane.send_signal(signum)
    while state.token.exists():
        held, living = state.token.exists(), sleepers()
        assert held or not living
        time.sleep(0.005)
    assert sleepers() == [], "the token went before the last process"
    assert ended(lane)[0] == status
    assert state.leftovers() == []


def test_term_to_a_waiter_takes_only_its_ticket(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    before = state.token.read_bytes()
    living = sleepers()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    waiter.terminate()
    assert ended(waiter)[0] == 143
    assert len(state.tickets()) == 1
    assert state.token.read_bytes() == before
    assert sleepers() == living
    holder.terminate()
    ended(holder)


def test_an_evicted_waiter_leaves_at_once(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    (state.queue / state.tickets()[1]).unlink()
    status, errors = ended(waiter, 5)
    assert status == 120
    assert "evicted" in errors
    holder.terminate()
    ended(holder)


def test_removing_a_running_ticket_is_a_stop(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    (state.queue / state.tickets()[0]).unlink()
    assert ended(lane, 10)[0] == 130
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_token_that_vanishes_is_put_back(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    state.token.unlink()
    until(state.token.exists)
    lane.terminate()
    status, errors = ended(lane)
    assert status == 143
    assert "::warning::" in errors
    assert state.leftovers() == []


def test_a_token_that_is_somebody_elses_ends_the_payload_and_is_left_alone(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    (state.state / "theirs").write_text("other 4242\n")
    os.replace(state.state / "theirs", state.token)
    assert ended(lane, 10)[0] == 125
    assert sleepers() == []
    assert state.token.read_text() == "other 4242\n"


def test_lanes_start_in_the_order_they_came(state: Box, tmp_path: Path) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    order = tmp_path / "order"
    names = ["zz", "aa", "10", "9", "Ä", "b", "a", "Z", "007", "x", "1", "0"]
    lanes = []
    for place, name in enumerate(names):
        lanes.append(state.run("sh", "-c", f"echo '{name}' >> {order}", options=["--lane", name]))
        until(lambda place=place: len(state.tickets()) == place + 2)  # type: ignore[misc]
        time.sleep(0.02)
    holder.terminate()
    assert [ended(lane)[0] for lane in lanes] == [0] * len(lanes)
    ended(holder)
    assert order.read_text().split() == names


def test_fifty_at_one_instant_all_run_once_and_never_two_together(state: Box, tmp_path: Path) -> None:
    inside, order = tmp_path / "inside", tmp_path / "order"
    script = f"mkdir {inside} || echo two >> {order}; echo $0 >> {order}; sleep 0.01; rmdir {inside}"
    lanes = [state.run("sh", "-c", script, str(n)) for n in range(50)]
    outcomes = [ended(lane, 100) for lane in lanes]
    assert [errors for status, errors in outcomes if status != 0] == []
    assert sorted(order.read_text().split(), key=int) == [str(n) for n in range(50)]
    assert state.leftovers() == []


def test_nested_runs_at_once_under_its_own_hold(state: Box) -> None:
    inner = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "sh", "-c", "exit 9"]
    status, errors = ended(state.run(*inner), 10)
    assert status == 9
    assert "nested" in errors


def test_the_marks_alone_are_refused_not_waited_for(state: Box) -> None:
    holder = state.run("sleep", NAP)
    ticket = state.until_running()["ticket"]
    stranger = state.run("true", env={**os.environ, "HOLDTOP_TICKET_GPU": ticket})
    status, errors = ended(stranger, 10)
    assert status == 125
    assert "deadlock" in errors
    holder.terminate()
    ended(holder)


def test_resources_are_taken_in_one_order(state: Box) -> None:
    both = ended(state.run("sh", "-c", "echo $HOLDTOP_TICKET_GPU $HOLDTOP_TICKET_NPU >&2", options=["-r", "npu,gpu"]))
    assert both[0] == 0
    assert both[1].splitlines()[-1].count("-") == 2
    inner = [*HOLDTOP, "run", "--state-dir", str(state.state), "-r", "gpu", "--", "true"]
    status, errors = ended(state.run(*inner, options=["-r", "npu"]), 10)
    assert status == 125
    assert "-r gpu,npu" in errors


def test_the_payload_inherits_no_descriptor_of_the_state(state: Box) -> None:
    lane = state.run("sh", "-c", "ls -l /proc/self/fd", stdout=subprocess.PIPE)
    output, _ = lane.communicate(timeout=20)
    assert lane.returncode == 0
    assert str(state.state) not in output.decode()
    assert output.decode().count("->") <= 4, output


def test_a_left_behind_daemon_is_ended_and_named(state: Box) -> None:
    leaves = f"env -i setsid -f sh -c 'sleep {NAP}; true'; exit 3"
    status, _ = ended(state.run("sh", "-c", leaves, options=["--grace", "1", "--contain", "subreaper"]))
    assert status == 3
    assert sleepers() == []
    end = next(event for event in state.events() if event["event"] == "ended")
    assert {fate["found_by"] for fate in end["ended"]} == {"descent"}
    assert len(end["ended"]) >= 1


@pytest.mark.parametrize("victim", ["supervisor", "keeper"])
def test_either_process_of_the_hold_may_be_killed(state: Box, victim: str) -> None:
    lane = state.run("sh", "-c", STUBBORN, options=["--grace", "0.5"])
    started = state.until_running()
    until(lambda: len(sleepers()) >= 4)
    os.kill(lane.pid if victim == "supervisor" else started["keeper_pid"], signal.SIGKILL)
    until(lambda: not state.token.exists(), 10)
    assert sleepers() == []
    status, _ = ended(lane)
    assert status == (-9 if victim == "supervisor" else 125)
    until(lambda: state.leftovers() == [])


def test_both_killed_is_a_ghost_that_the_next_waiter_recovers(state: Box) -> None:
    lane = state.run("sh", "-c", f"setsid sleep {NAP} & sleep {NAP}", stderr=subprocess.DEVNULL)
    started = state.until_running()
    until(lambda: len(sleepers()) >= 2)
    kill_both(lane, started["keeper_pid"])
    assert state.token.exists()
    assert len(sleepers()) >= 2
    status, errors = ended(state.run("true", options=["--grace", "0.5"]), 20)
    assert status == 0
    assert "stale token" in errors
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_full_disk_means_the_command_is_not_run(state: Box, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    inner = " ".join([*HOLDTOP, "run", "--state-dir", "$H", "--", "touch", str(mark)])
    script = f"""H=$(mktemp -d); mount -t tmpfs -o size=8k,nr_inodes=4 tmpfs $H; mkdir $H/gpu-queue
    dd if=/dev/zero of=$H/filler 2>/dev/null; {inner}; s=$?; ls -A $H/gpu-queue; umount $H; rmdir $H; exit $s"""
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 125, done.stderr
    assert not mark.exists()
    assert "not run" in done.stderr
    assert [n for n in done.stdout.split() if not n.startswith(".")] == []


def test_a_stop_request_of_ones_own_ends_a_running_hold(state: Box) -> None:
    lane = state.run("sleep", NAP)
    ticket = state.until_running()["ticket"]
    with Dir.root(str(state.queue)) as queue:
        nonce = tickets.read(queue, ticket).nonce
        stop.request(queue, ticket, "another nonce", "not meant for this run")
        time.sleep(1.5)
        assert lane.poll() is None
        stop.request(queue, ticket, nonce, "a reason\nwith [/red] \x1b[2J")
    status, errors = ended(lane, 10)
    assert status == 130
    assert "stopped by" in errors
    assert "\x1b" not in errors
    assert state.leftovers() == []
    assert not list((state.queue / ".stop").iterdir())


def test_a_strangers_stop_request_is_a_file_and_nothing_more(state: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: gives a file to another account")
    lane = state.run("sleep", NAP)
    ticket = state.until_running()["ticket"]
    with Dir.root(str(state.queue)) as queue:
        nonce = tickets.read(queue, ticket).nonce
    forged = state.queue / ".stop" / ".new-forged"
    forged.parent.mkdir()
    forged.write_bytes(tickets.encode({"v": "1", "id": ticket, "nonce": nonce, "reason": "mine now"}))
    os.chown(forged, 65534, -1)
    forged.rename(forged.with_name(f"{ticket}.0123"))
    time.sleep(2.5)
    assert lane.poll() is None
    assert state.token.exists()
    lane.terminate()
    ended(lane)


def test_a_dead_waiters_ticket_is_swept_by_the_next(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    waiter.kill()
    assert ended(waiter)[0] == -9
    assert len(state.tickets()) == 2
    assert ended(state.run("true", options=["-w", "0"]))[0] == 121
    assert len(state.tickets()) == 1
    holder.terminate()
    ended(holder)


def test_a_stopped_head_does_not_stop_everybody(state: Box) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    head = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    head.send_signal(signal.SIGSTOP)
    behind = state.run("true")
    until(lambda: len(state.tickets()) == 3)
    holder.terminate()
    ended(holder)
    status, errors = ended(behind, 20)
    assert status == 0
    assert "going first" in errors
    head.send_signal(signal.SIGCONT)
    assert ended(head)[0] == 0


@pytest.mark.parametrize("content", ["", '{"pid": 12', "\0" * 512, "[]\n", '{"pid":null}', "x" * 100_000])
def test_a_token_that_cannot_be_read_is_held_and_said(state: Box, content: str) -> None:
    state.token.write_text(content)
    status, errors = ended(state.run("true", options=["-w", "0.5"]))
    assert status == 121
    assert "recover" in errors
    assert state.token.read_text() == content


def test_a_link_in_place_of_the_token_is_neither_followed_nor_removed(state: Box, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    state.token.symlink_to(victim)
    assert ended(state.run("true", options=["-w", "0.5"]))[0] == 121
    assert victim.read_text() == "precious"
    assert state.token.is_symlink()


def test_closed_descriptors_do_not_become_the_states(state: Box) -> None:
    line = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "sh", "-c", "echo out; echo err >&2; exit 4"]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *line], timeout=20, check=False)
    assert done.returncode == 4
    for path in state.queue.rglob("*"):
        assert path.is_dir() or b"armed" not in path.read_bytes(), path


def test_no_process_to_be_had_means_no_token_is_left(state: Box) -> None:
    code = (
        "import os, sys; from holdtop.cli.main import main\n"
        "def no_fork(): raise BlockingIOError(11, 'Resource temporarily unavailable')\n"
        "os.fork = no_fork; sys.exit(main(sys.argv[1:]))"
    )
    line = [sys.executable, "-c", code, "run", "--state-dir", str(state.state), "--", "true"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 125
    assert "not run" in done.stderr
    assert state.leftovers() == []
