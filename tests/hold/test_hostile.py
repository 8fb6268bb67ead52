"""What other people's files, processes and limits may do to a hold: each of these once broke one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdtop.hold import recovery
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.view import Record
from holdtop.payload.process import read_stat
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, kill_both, sleepers, until

IN_NAMESPACE = "unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c"


def test_an_equal_pid_of_another_namespace_is_no_ancestor(state: Box, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes pid namespaces")
    run = " ".join([*HOLDTOP, "run", "--state-dir", str(state.state)])
    first = f"echo 99 > /proc/sys/kernel/ns_last_pid; exec 3>&-; {run} -- sleep {NAP} & wait"
    second = f"echo 99 > /proc/sys/kernel/ns_last_pid; sh -c '{run} -w 1 -- touch {tmp_path}/ran; exit $?'"
    holder = subprocess.Popen([*IN_NAMESPACE, first], stderr=subprocess.DEVNULL)
    state.until_running()
    done = subprocess.run([*IN_NAMESPACE, second], capture_output=True, text=True, timeout=30)
    assert done.returncode == 121, done.stderr
    assert not (tmp_path / "ran").exists()
    holder.kill()
    holder.wait()
    until(lambda: not sleepers())


@pytest.mark.parametrize("name", [".receipts.jsonl", ".log/events.jsonl"])
def test_a_line_nested_without_end_stops_nobody(state: Box, name: str) -> None:
    assert ended(state.run("true"))[0] == 0
    with (state.queue / name).open("a") as file:
        file.write("[" * 60_000 + "\n")
    (state.queue / ".sequence").unlink()
    status, errors = ended(state.run("true"))
    assert status == 0, errors


@pytest.mark.parametrize(
    "sequence", ["9999999999", "-500", "9" * 40, "", "lots"], ids=["full", "negative", "huge", "empty", "words"]
)
def test_a_poisoned_counter_is_not_believed(state: Box, sequence: str) -> None:
    assert ended(state.run("true"))[0] == 0
    (state.queue / ".sequence").write_text(sequence)
    (state.queue / "9999999999-77").touch()
    status, errors = ended(state.run("true"))
    assert status == 0, errors
    assert state.tickets() == ["9999999999-77"]
    assert state.events()[-1]["ticket"].startswith("0000000002-")


def test_a_pid_that_cannot_be_stops_nobody(state: Box) -> None:
    assert ended(state.run("true"))[0] == 0
    lines = {"v": "1", "id": "0000000001-9999999999", "nonce": "n", "pid": "9999999999", "start": "5"}
    lines |= {"boot": tickets.boot_id(), "host": os.uname().nodename}
    lines |= {"pidns": str(tickets.namespace("pid")), "timens": str(tickets.namespace("time"))}
    (state.queue / lines["id"]).write_bytes(tickets.encode(lines))
    assert ended(state.run("true"))[0] == 0


def test_another_boots_record_ends_nobody(state: Box) -> None:
    bystander = subprocess.Popen(["sleep", NAP])
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    kill_both(lane, state.until_running()["keeper_pid"])
    with Dir.root(str(state.queue)) as queue:
        ticket = tickets.read(queue, state.tickets()[0])
    stat = read_stat(bystander.pid)
    assert stat is not None
    start = stat.start_ticks
    record = state.queue / ".record" / f"{ticket.id}.json"
    said = json.loads(record.read_text())
    said["members"] = [{"pid": bystander.pid, "start_ticks": start, "name": "sleep"}]
    record.write_text(json.dumps(said))
    for path in (state.token, state.queue / ticket.id):
        path.write_text(path.read_text().replace(f"boot={ticket.boot_id}", "boot=another"))
    assert ended(state.run("true", options=["--grace", "0.5"]))[0] == 0
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()
    for pid in sleepers():
        os.kill(pid, signal.SIGKILL)


def test_a_record_of_another_boot_names_nobody() -> None:
    lines = {"v": "1", "id": "0000000001-77", "nonce": "n", "pid": "77", "start": "5", "boot": "another"}
    ticket = tickets.parse(tickets.encode({**lines, "host": os.uname().nodename}), uid=0)
    record = Record("0000000001-77", "n", 0, "running", 1, 2, 3, None, None, {}, (), (), None)
    assert recovery.recorded_identities(record, ticket) == ()


def test_a_full_socket_on_stderr_does_not_stop_a_deadline(state: Box) -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while theirs.send(b"x" * 4096):
            pass
    theirs.setblocking(True)
    lane = state.run("sleep", NAP, options=["--max-hold", "1", "--grace", "0.5"], stderr=theirs)
    state.until_running()
    state.token.unlink()
    assert lane.wait(15) == 124
    assert state.leftovers() == []
    ours.close()
    theirs.close()


def test_a_stopped_head_does_not_keep_a_ghost(state: Box) -> None:
    holder = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    state.until_running()
    head = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    head.send_signal(signal.SIGSTOP)
    kill_both(holder, state.until_running()["keeper_pid"])
    status, errors = ended(state.run("true", options=["-w", "15", "--grace", "0.5"]), 30)
    assert status == 0, errors
    head.send_signal(signal.SIGCONT)
    assert ended(head)[0] == 0


def test_now_or_never_takes_a_ghost_without_leftovers(state: Box) -> None:
    holder = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    kill_both(holder, state.until_running()["keeper_pid"])
    for pid in sleepers():
        os.kill(pid, signal.SIGKILL)
    until(lambda: not sleepers())
    assert ended(state.run("true", options=["-w", "0"]))[0] == 0


def test_losing_the_first_resource_ends_the_wait_for_the_second(state: Box) -> None:
    holder = state.run("sleep", NAP, options=["-r", "npu"])
    until((state.state / "npu-token").exists)
    both = state.run("true", options=["-r", "gpu,npu"])
    until(state.token.exists)
    (state.queue / state.tickets()[0]).unlink()
    assert ended(both, 10)[0] == 130
    assert not state.token.exists()
    holder.terminate()
    ended(holder)


def test_a_very_long_command_line_starts_at_once(state: Box) -> None:
    before = time.monotonic()
    assert ended(state.run("true", *map(str, range(20_000))))[0] == 0
    assert time.monotonic() - before < 20


def test_a_token_put_back_by_the_keeper_is_known_to_its_heir(state: Box) -> None:
    lane = state.run("sleep", NAP, options=["--grace", "0.5"])
    keeper = state.until_running()["keeper_pid"]
    state.token.unlink()
    until(state.token.exists)
    os.kill(keeper, signal.SIGKILL)
    assert ended(lane)[0] == 125
    assert state.leftovers() == []


def test_a_log_that_would_block_is_refused(state: Box, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    status, errors = ended(state.run("true", options=["--log", str(tmp_path / "fifo")]))
    assert status == 2
    assert "fifo" in errors
    assert ended(state.run("sh", "-c", "echo said", options=["--log", str(tmp_path / "log")]))[0] == 0
    assert (tmp_path / "log").read_text() == "said\n"


@pytest.mark.parametrize("option", [["--max-hold", "3000000d"], ["--nice", "99999999999999"], ["--cpus", "9999"]])
def test_an_absurd_limit_is_a_usage_error(state: Box, option: list[str]) -> None:
    status, errors = ended(state.run("true", options=option))
    assert (status, len(errors.splitlines())) == (2, 1)
    assert state.leftovers() == []


@pytest.mark.parametrize("limit", [5, 8, 11, 12, 13, 14, 16, 20, 30])
def test_few_descriptors_leave_nothing(state: Box, limit: int) -> None:
    line = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "true"]
    shell = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *line]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=30)
    assert done.returncode in (0, 1, 125), done.stderr
    assert "Traceback" not in done.stderr or limit < 8, "the interpreter itself needs a few"
    if done.returncode != 0:
        subprocess.run(line, capture_output=True, timeout=30, check=True)
    assert state.leftovers() == []


def test_order_is_kept_although_the_environment_was_cleared(state: Box) -> None:
    inner = ["env", "-i", f"PATH={os.environ['PATH']}", f"HOME={os.environ['HOME']}"]
    inner += [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "true"]
    status, errors = ended(state.run(*inner, options=["-r", "npu"]))
    assert status == 125
    assert "-r gpu,npu" in errors


def test_a_status_of_the_commands_own_is_said_to_be(state: Box) -> None:
    status, errors = ended(state.run("sh", "-c", "exit 120"))
    assert status == 120
    assert "the command itself" in errors.splitlines()[-1]


def test_any_umask_leaves_a_queue_that_can_be_used(state: Box) -> None:
    line = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "true"]
    for umask in ("777", "077"):
        assert subprocess.run(["sh", "-c", f'umask {umask}; exec "$@"', "sh", *line], timeout=20).returncode == 0
    assert state.queue.stat().st_mode & 0o7777 == 0o2770


def test_nothing_runs_where_processes_cannot_be_seen(state: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes mount namespaces")
    line = [sys.executable, "-c", "import sys; from holdtop.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    run = [*line, "run", "--state-dir", str(state.state), "--", "true"]
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc; exec "$@"', "sh", *run]
    done = subprocess.run(hidden, capture_output=True, text=True, timeout=20)
    assert done.returncode == 125
    assert "processes" in done.stderr
    assert "internal" not in done.stderr


@pytest.mark.parametrize("how", ["removed", "emptied", "renamed"])
def test_a_dead_holds_payload_is_ended_although_its_token_was_tampered_with(state: Box, how: str) -> None:
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    state.until_running()
    time.sleep(1.3)  # the record of its members is out
    kill_both(lane, state.until_running()["keeper_pid"])
    assert sleepers()
    if how == "removed":
        state.token.unlink()
    elif how == "emptied":
        state.token.write_text("")
    else:
        state.token.write_text(state.token.read_text().replace(f" {lane.pid} ", " 4 ", 1))
    if how != "removed":
        done = state.verb("recover", "--reason", "test", "--yes")
        assert done.returncode == 0, done.stderr
        assert sleepers() == []
    assert ended(state.run("true", options=["--grace", "0.5"]))[0] == 0
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_nested_run_finds_the_state_of_the_hold_above_it(state: Box, box: Path) -> None:
    status, errors = ended(state.run(*HOLDTOP, "run", "--", "sh", "-c", "exit 9"), 20)
    assert status == 9
    assert "nested" in errors
    assert list((box / "home").iterdir()) == []
    elsewhere = subprocess.run(
        [*HOLDTOP, "run", "--", "true"],
        env={**os.environ, "HOLDTOP_STATE_DIR": str(state.state)},
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert elsewhere.returncode == 0
    assert "your home" in elsewhere.stderr, "a variable alone is no proof"


@pytest.mark.parametrize("verb", ["run", "evict"])
def test_only_a_refused_run_says_that_the_command_was_not_run(state: Box, verb: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: makes mount namespaces")
    assert ended(state.run("true"))[0] == 0
    (state.queue / "lane-77").touch()
    words = ["--", "true"] if verb == "run" else ["lane-77", "--reason", "test", "--yes", "--unaudited"]
    line = [*HOLDTOP, verb, "--state-dir", str(state.state), *words]
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(state.state), *line], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == {"run": 125, "evict": 6}[verb], done.stderr
    assert "Read-only file system" in done.stderr
    assert ("was not run" in done.stderr) == (verb == "run")
    assert (state.queue / "lane-77").exists()
