"""The acting verbs as commands: statuses, the question, dry runs, JSON, and text that is not to be trusted."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest

from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until
from tests.operator.box import audited, kinds


def test_kill_by_lane_leaves_one_intent_and_one_outcome(state: Box, bystander: subprocess.Popen[bytes]) -> None:
    lane = state.run("sleep", NAP, options=["--lane", "ci-7"])
    started = state.until_running()
    dry = state.verb("kill", "ci-7", "--dry-run")
    assert (dry.returncode, kinds(state)) == (0, [])
    assert str(started["root_pid"]) in dry.stdout
    assert lane.poll() is None
    unasked = state.verb("kill", "ci-7", "--reason", "stuck")
    assert unasked.returncode == 6
    assert "--yes" in unasked.stderr
    done = state.verb("kill", "ci-7", "--reason", "stuck", "--yes")
    assert done.returncode == 0, done
    assert ended(lane)[0] == 130
    assert bystander.poll() is None
    assert kinds(state) == ["intent", "outcome"]
    assert state.verb("kill", "ci-7", "--reason", "stuck", "--yes").returncode == 7


def test_evict_by_a_part_of_the_id(state: Box) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    waiter = state.run("true")
    until(lambda: len(state.tickets()) == 2)
    ambiguous = state.verb("evict", "00000", "--reason", "r", "--yes")
    assert ambiguous.returncode == 2
    assert all(ticket in ambiguous.stderr for ticket in state.tickets())
    done = state.verb("evict", state.tickets()[1][-6:], "--reason", "r", "--yes", "--json")
    assert done.returncode == 0, done
    said = json.loads(done.stdout)
    assert (said["plan"]["verb"], said["outcome"]["status"]) == ("evict", 0)
    assert ended(waiter)[0] == 120
    assert kinds(state) == ["intent", "outcome"]
    lane.send_signal(signal.SIGTERM)
    ended(lane)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["kill"], 2, "kill needs a TICKET"),
        (["kill", "x", "--pid", "7"], 2, "not both"),
        (["kill", "nobody", "--reason", "r", "--yes"], 7, "no ticket 'nobody' (ended, or mistyped)"),
        (["kill", "--pid", "1", "--reason", "r", "--yes"], 6, "never signalled"),
        (["evict", "nobody", "--reason", "r", "--yes"], 7, "no ticket 'nobody'"),
        (["recover", "--reason", "r", "--yes"], 7, "is free"),
        (["recover", "-r", "NO", "--reason", "r", "--yes"], 2, "no resource"),
        (["kill", "--pid", "x"], 2, "invalid int"),
    ],
)
def test_bad_input_is_one_line_and_a_status(state: Box, words: list[str], status: int, said: str) -> None:
    done = state.verb(*words)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_no_reason_is_refused_on_record(state: Box) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    done = state.verb("kill", started["ticket"], "--yes")
    assert done.returncode == 6
    assert "needs a reason" in done.stderr
    assert done.stdout == ""
    assert kinds(state) == ["refused"]
    lane.send_signal(signal.SIGTERM)
    ended(lane)


@pytest.mark.parametrize(("answer", "status"), [(b"\n", 6), (b"n\n", 6), (b"yes\n", 0)])
def test_the_question_on_a_terminal_defaults_to_no(state: Box, answer: bytes, status: int) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [*HOLDTOP, "kill", "--state-dir", str(state.state), started["ticket"], "--reason", "r"],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as verb:
        os.write(mine, answer)
        assert verb.wait(30) == status
    os.close(mine)
    os.close(theirs)
    lane.send_signal(signal.SIGTERM)
    assert ended(lane)[0] == (143 if status else 130)


def test_hostile_text_reaches_neither_terminal_nor_audit_as_it_is(state: Box) -> None:
    state.queue.mkdir()
    name = "t\udcff\n\x1b[31m"
    Path(os.fsdecode(os.fsencode(state.queue) + b"/" + os.fsencode(name))).write_text("")
    done = state.verb("evict", name, "--reason", "a\n\x1b]52;c;x\x07", "--yes", env={**os.environ, "LC_ALL": "C"})
    assert done.returncode == 0, done
    listed = state.verb("audit")
    assert "\x1b" not in done.stdout + done.stderr + listed.stdout
    assert listed.stdout.count("\n") == 2
    assert [record["ticket"] for record in audited(state)] == [name] * 2
    assert state.verb("audit", "verify").returncode == 0


def test_verify_names_the_first_bad_record(state: Box) -> None:
    state.queue.mkdir()
    for _ in range(3):
        assert state.verb("kill", "--pid", "1", "--reason", "r", "--yes").returncode == 6
    path = state.queue / ".audit" / f"{os.geteuid()}.jsonl"
    path.write_text(path.read_text().replace("pid 1 is never", "pid 1 was never", 1))
    done = state.verb("audit", "verify")
    assert done.returncode == 1
    assert done.stdout.startswith(f"{path}:1: ")
    assert json.loads(state.verb("audit", "verify", "--json").stdout)["bad"][0]["line"] == 1


def test_follow_prints_what_is_added(state: Box) -> None:
    state.queue.mkdir()
    with subprocess.Popen(
        [*HOLDTOP, "audit", "--state-dir", str(state.state), "--follow"], stdout=subprocess.PIPE, text=True
    ) as follow:
        assert follow.stdout
        for _ in range(2):
            state.verb("kill", "--pid", "1", "--reason", "r", "--yes")
            assert "refused kill pid 1" in follow.stdout.readline()
        follow.terminate()


def test_a_stray_is_found_by_its_device_use_and_ended_by_its_pid(
    state: Box, bystander: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is flagged: the same pid is refused before it uses the device."""
    unflagged = state.verb("kill", "--pid", str(bystander.pid), "--reason", "r", "--yes")
    assert unflagged.returncode == 6
    assert "nor flagged" in unflagged.stderr
    laid_over = tmp_path / "overlay" / str(bystander.pid)
    for name in ("fd", "fdinfo"):
        (laid_over / name).mkdir(parents=True)
    (laid_over / "fd" / "99").symlink_to("/dev/dri/renderD128")
    (laid_over / "fdinfo" / "99").write_text(
        "drm-driver:\tamdgpu\ndrm-pdev:\t0000:c5:00.0\ndrm-client-id:\t7\ndrm-resident-gtt:\t4194304 KiB\n"
        "drm-resident-vram:\t0\n"
    )
    monkeypatch.setenv("HOLDTOP_PROC_OVERLAY", str(tmp_path / "overlay"))
    dry = state.verb("kill", "--pid", str(bystander.pid), "--dry-run")
    assert "4.0 GiB" in dry.stdout, dry
    done = state.verb("kill", "--pid", str(bystander.pid), "--reason", "r", "--yes", "--grace", "2")
    assert done.returncode == 0, done
    assert bystander.wait() == -signal.SIGTERM
    assert kinds(state) == ["intent", "outcome"]
