"""How a hold or its starter dies or freezes in practice: by timeout, a CI runner, a terminal, the OOM killer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdtop.payload.channel import Channel
from tests.hold.groups import group
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, sleepers, until
from tests.hold.typist import Typist, shell

#: One member that TERM ends and two that it does not, one of them out of sight. No argument here is NAP alone.
STUBBORN = f"env -i setsid -f sh -c 'trap \"\" TERM; sleep {NAP}; true'; (trap '' TERM; sleep {NAP}) & sleep {NAP}"
MEMBERS = 3


def line(state: Box, *words: str, options: Sequence[str] = ()) -> list[str]:
    return [*HOLDTOP, "run", "--state-dir", str(state.state), *options, "--", *words]


def patched(code: str) -> tuple[str, ...]:
    """In place of ``HOLDTOP``: with a fault that cannot be had otherwise."""
    code = f"import os, sys\n{code}\nfrom holdtop.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return sys.executable, "-c", code


def until_freed(state: Box) -> None:
    """The token goes, and not before the last member."""
    until(lambda: not state.token.exists(), 30)
    assert sleepers() == [], "the token went before the last process"


def how_it_ended(state: Box) -> tuple[str, int]:
    until(lambda: not state.leftovers(), 30)
    end = next(event for event in state.events() if event["event"] == "ended")
    return end["reason"], end["status"]


def test_a_group_kill_by_timeout_leaves_the_payload_its_grace_and_then_nothing(state: Box) -> None:
    """``timeout -k`` sends TERM and then KILL to its whole group, of which the keeper is no part."""
    hold = line(state, "sh", "-c", STUBBORN, options=["--grace", "5"])
    outer = subprocess.Popen(["timeout", "-k", "0.5", "600", *hold], stderr=subprocess.DEVNULL)
    until(lambda: len(sleepers()) == MEMBERS)
    follower = state.run("true", options=["-w", "30"])
    outer.terminate()  # as if its time were over
    outer.wait(30)
    assert sleepers(), "those that ignore TERM keep their grace"
    assert ended(follower, 40)[0] == 0
    assert sleepers() == []
    ends = [event for event in state.events() if event["event"] == "ended"]
    assert [(end["reason"], end["proof"] is not None) for end in ends] == [("TERM", True), ("exited", True)]


#: What a CI runner does when a job is cancelled: signals to the step's entry process only, and seconds between them.
CANCEL = [(signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 0.0)]
OUTER = {
    "a shell": '"$@"; true',
    "a shell that waits for its child": 'trap : INT TERM; "$@"; true',
    "a shell that ignores all it can": 'trap "" INT TERM; "$@"; true',
}


def cancel(outer: subprocess.Popen[bytes], scale: float) -> bool:
    """The order of a runner's cancellation. True when it was over before the KILL."""
    for signum, wait in CANCEL:
        over = outer.poll() is not None
        outer.send_signal(signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            outer.wait(wait * scale)
    outer.wait(20)
    return over


@pytest.mark.parametrize("scale", [0.1, pytest.param(1.0, marks=pytest.mark.long)])
@pytest.mark.parametrize("script", OUTER.values(), ids=OUTER)
def test_a_cancelled_ci_step_frees_the_token(state: Box, script: str, scale: float) -> None:
    hold = line(state, "sh", "-c", STUBBORN, options=["--grace", "0.5"])
    outer = subprocess.Popen(["bash", "-c", script, "bash", *hold], stderr=subprocess.DEVNULL)
    until(lambda: len(sleepers()) == MEMBERS)
    follower = state.run("true", options=["-w", "30"])
    cancel(outer, scale)
    assert ended(follower, 40)[0] == 0
    assert sleepers() == []
    assert how_it_ended(state)[1] == 143
    assert state.leftovers() == []


@pytest.mark.parametrize("scale", [0.4, pytest.param(1.0, marks=pytest.mark.long)])
def test_the_same_order_straight_to_the_hold_needs_no_kill(state: Box, scale: float) -> None:
    lane = state.run("sh", "-c", STUBBORN, options=["--grace", "0.2"])
    until(lambda: len(sleepers()) == MEMBERS)
    assert cancel(lane, scale)
    assert ended(lane)[0] == 130
    assert state.leftovers() == []
    assert sleepers() == []


@contextlib.contextmanager
def starter(state: Box, script: str = '"$@" & read line') -> Iterator[subprocess.Popen[bytes]]:
    """A shell that has started a hold in the background, and ends normally when told so."""
    words = ["bash", "-c", script, "bash", *line(state, "sleep", NAP + ".0", options=["--grace", "0.5"])]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        state.until_running()
        yield process
        process.kill()
    until_freed(state)


@pytest.mark.parametrize(
    ("signum", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, 143), (signal.SIGHUP, 129)],
)
def test_a_starter_that_is_killed_takes_the_hold_with_it(state: Box, signum: signal.Signals, status: int) -> None:
    with starter(state, '"$@" & exec tail -f /dev/null') as process:
        until(lambda: b"tail" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
        process.send_signal(signum)
        assert process.wait(10) == -signum
        assert how_it_ended(state) == ("starter-killed", status)


@pytest.mark.parametrize("script", ['nohup "$@" & exec tail -f /dev/null', '"$@" & read line'], ids=["nohup", "exit"])
def test_a_nohup_or_a_normal_end_of_the_starter_ends_nothing(state: Box, script: str) -> None:
    with starter(state, script) as process:
        if "nohup" in script:
            until(lambda: b"tail" in Path(f"/proc/{process.pid}/cmdline").read_bytes())
            process.send_signal(signal.SIGHUP)
        process.communicate(b"\n", 10)
        lane = state.until_running()
        time.sleep(3)  # longer than the verdict about a starter is waited for
        assert state.token.exists()
        assert [event["event"] for event in state.events()][-1] == "started"
        (state.queue / lane["ticket"]).unlink()
        assert how_it_ended(state) == ("evicted", 130)


@pytest.mark.parametrize("in_ci", [False, True])
def test_where_the_kernel_does_not_tell_a_ci_hold_ends_with_its_starter(
    state: Box, monkeypatch: pytest.MonkeyPatch, in_ci: bool
) -> None:
    blind = patched("from holdtop.payload.starter import Starter; Starter._wait_status = lambda _: None")
    monkeypatch.setattr("tests.hold.test_deaths.HOLDTOP", blind)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    with starter(state) as process:
        process.communicate(b"\n", 10)
        if in_ci:
            assert how_it_ended(state) == ("starter-gone", 143)
            return
        time.sleep(3)
        (state.queue / state.until_running()["ticket"]).unlink()
        assert how_it_ended(state) == ("evicted", 130)


def test_a_waiter_whose_starter_is_killed_leaves_the_queue(state: Box, tmp_path: Path) -> None:
    holder = state.run("sleep", NAP)
    state.until_running()
    hold = line(state, "touch", str(tmp_path / "ran"))
    outer = subprocess.Popen(["bash", "-c", '"$@"; true', "bash", *hold], stderr=subprocess.DEVNULL)
    until(lambda: len(state.tickets()) == 2)
    outer.kill()
    outer.wait()
    until(lambda: len(state.tickets()) == 1)
    holder.terminate()
    assert ended(holder)[0] == 143
    assert not (tmp_path / "ran").exists()
    assert state.leftovers() == []


@pytest.mark.parametrize("who", ["supervisor", "keeper"])
def test_a_stopped_process_of_the_hold_does_not_stop_the_deadline(state: Box, who: str) -> None:
    lane = state.run("sh", "-c", STUBBORN, options=["--max-hold", "2", "--grace", "0.2"])
    keeper = state.until_running()["keeper_pid"]
    os.kill(lane.pid if who == "supervisor" else keeper, signal.SIGSTOP)
    status, errors = ended(lane, 30)
    assert status == 124, errors
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_keeper_that_hangs_is_replaced_when_the_deadline_is_long_over(state: Box) -> None:
    """It cannot be continued: a cgroup keeps it frozen."""
    soon = patched("from holdtop.payload import supervisor; supervisor.KEEPER_SLACK = 0.2")
    options = ["--max-hold", "1", "--grace", "0.2", "--survive-wait", "0.2"]
    hold = [*soon, *line(state, "sh", "-c", STUBBORN, options=options)[len(HOLDTOP) :]]
    with group() as frozen, subprocess.Popen(hold, stderr=subprocess.PIPE) as lane:
        frozen.put(state.until_running()["keeper_pid"])
        frozen.freeze(True)
        status, errors = ended(lane, 30)
        assert status == 125
        assert "inner process was killed" in errors
        assert sleepers() == []
        assert state.leftovers() == []


def test_a_keeper_that_dies_after_the_release_leaves_its_heir_nothing_to_do(state: Box) -> None:
    dies = """
from holdtop.payload.channel import Channel
send = Channel.send
Channel.send = lambda self, kind, **content: os.kill(os.getpid(), 9) if kind == "done" else send(self, kind, **content)
"""
    hold = [*patched(dies), *line(state, "true")[len(HOLDTOP) :]]
    assert subprocess.run(hold, stderr=subprocess.DEVNULL, timeout=30).returncode == 125
    assert state.leftovers() == []
    assert [event["event"] for event in state.events()][-3:] == ["ending", "ended", "released"]


def test_what_a_keeper_was_writing_when_it_was_killed_goes_with_its_record(state: Box) -> None:
    lane = state.run("sleep", NAP, options=["--grace", "0.5"])
    started = state.until_running()
    (state.queue / ".record" / f".new-{started['ticket']}.json").write_text("{")
    os.kill(started["keeper_pid"], signal.SIGKILL)
    assert ended(lane)[0] == 125
    assert state.leftovers() == []


def test_a_channel_whose_other_end_is_gone_says_so() -> None:
    ours, theirs = Channel.pair()
    theirs.send("say", text="last words")
    theirs.close()
    assert [message["text"] for message in ours.receive()] == ["last words"]
    assert ours.closed
    ours.close()


def test_a_terminal_that_stops_background_writers_does_not_stop_the_deadline(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    hold = " ".join(line(state, "sleep", NAP + ".0", options=["--max-hold", "1", "--grace", "0.5"]))
    typist.type(f"stty tostop; {hold} & wait $!; echo status $?\n")
    typist.read_until("status 124")
    assert "max-hold" in typist.seen, "its own words reach the terminal all the same"
    assert state.leftovers() == []
    typist.type("exit\n")
    typist.ended()


def test_a_pipe_that_nobody_reads_does_not_stop_the_deadline(state: Box) -> None:
    """What ``2>&1 | less`` is while nobody scrolls."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(writing, b"x" * 4096):
            pass
    os.set_blocking(writing, True)
    lane = state.run("sleep", NAP, options=["--max-hold", "1", "--grace", "0.5"], stderr=writing)
    state.until_running()
    state.token.unlink()  # so that there is something to say
    assert lane.wait(30) == 124
    assert state.leftovers() == []
    os.close(reading)
    os.close(writing)


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A version 1 memory cgroup of so many bytes below our own."""
    with open("/proc/self/cgroup") as file:
        paths = [entry.rstrip("\n").split(":", 2)[2] for entry in file if ":memory:" in entry]
    made = Path(f"/sys/fs/cgroup/memory{paths[0] if paths else ''}/test-{os.getpid()}")
    try:
        made.mkdir()
    except OSError as error:
        pytest.skip(f"needs cgroup v1: no memory cgroup can be made: {error}")
    try:
        (made / "memory.limit_in_bytes").write_text(str(limit))
        yield made
    finally:
        until(lambda: not (made / "cgroup.procs").read_text())
        made.rmdir()


def test_the_oom_killer_may_take_the_supervisor(state: Box) -> None:
    """Memory runs out while the hold itself uses next to none, and the kernel chooses the hold all the same."""
    hog = ["sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', "{}", sys.executable, "-c", "bytearray(1 << 30)"]
    with memory_group(64 << 20) as full:
        lane = state.run("sh", "-c", STUBBORN, options=["--grace", "0.5"], stderr=subprocess.DEVNULL)
        until(lambda: len(sleepers()) == MEMBERS)
        follower = state.run("true", options=["-w", "30"])
        Path(f"/proc/{lane.pid}/oom_score_adj").write_text("1000")
        (full / "cgroup.procs").write_text(str(lane.pid))
        subprocess.run([word.format(full) for word in hog], stderr=subprocess.DEVNULL, check=False, timeout=60)
        assert lane.wait(30) == -signal.SIGKILL
        killed = dict(entry.split() for entry in (full / "memory.oom_control").read_text().splitlines())
        assert int(killed["oom_kill"]) >= 1
        assert ended(follower, 40)[0] == 0
        assert sleepers() == []
        assert state.leftovers() == []
        assert how_it_ended(state) == ("supervisor-killed", 125)
