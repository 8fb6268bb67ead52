"""A token that somebody removes while its payload runs frees no accelerator: whoever waits goes on waiting."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from holdtop.payload.process import read_stat
from tests.hold.lanes import NAP, Box, ended, kill_both, sleepers, until
from tests.hold.test_deaths import patched


def test_a_hold_that_is_slow_to_put_its_token_back_is_not_joined_by_another(state: Box, tmp_path: Path) -> None:
    """Stopped, it is slower than anybody's patience with the head of the queue; whoever waits continues it."""
    holder = state.run("sleep", NAP)
    both = (state.until_running()["keeper_pid"], holder.pid)

    def stopped() -> bool:
        """Each continues the other when it is in time, so this is tried until it is not."""
        for pid in both:
            os.kill(pid, signal.SIGSTOP)
        return all((stat := read_stat(pid)) and stat.state == "T" for pid in both)

    until(stopped)
    state.token.unlink()
    impatient = patched("from holdtop.hold import wait; wait.HEAD_PATIENCE = 0.1")
    said = tmp_path / "said"
    with said.open("w") as stderr:
        waiter = subprocess.Popen([*impatient, "run", "--state-dir", str(state.state), "--", "true"], stderr=stderr)
    until(lambda: waiter.poll() is not None or "was removed by somebody while it ran" in said.read_text())
    assert waiter.poll() is None, "two holders"
    until(state.token.exists)
    holder.terminate()
    assert ended(holder)[0] == 143
    assert waiter.wait(20) == 0
    assert state.leftovers() == []


def test_whoever_was_evicted_is_not_joined_either_while_it_ends(state: Box, tmp_path: Path) -> None:
    holder = state.run("sh", "-c", f"trap '' TERM; touch {tmp_path}/deaf; sleep {NAP}", options=("--grace", "3"))
    ticket = state.until_running()["ticket"]
    until((tmp_path / "deaf").exists)
    (state.queue / ticket).unlink()
    until(lambda: any(event["event"] == "ending" for event in state.events(ticket)))
    state.token.unlink()
    waiter = state.run("sh", "-c", f"kill -0 {holder.pid} && exit 9; exit 0")
    assert ended(holder)[0] == 130
    status, errors = ended(waiter)
    assert "was removed by somebody while it ran" in errors
    assert status in (0, 9)
    assert [event["event"] for event in state.events(ticket)][-1] == "released"
    names = [(event["event"], event["ticket"] == ticket) for event in state.events()]
    assert names.index(("released", True)) < names.index(("taken", False))
    assert state.leftovers() == []


def test_what_a_killed_hold_left_is_ended_though_ticket_and_token_were_removed(state: Box) -> None:
    holder = state.run("sleep", NAP)
    running = state.until_running()
    kill_both(holder, running["keeper_pid"])
    (state.queue / running["ticket"]).unlink()
    state.token.unlink()
    assert sleepers() != []
    status, errors = ended(state.run("true"))
    assert status == 0
    assert f"hold {running['ticket']} of lane" in errors
    assert "is dead and its token was removed by somebody" in errors
    assert ended(holder)[0] == -signal.SIGKILL
    assert sleepers() == []
    assert state.leftovers() == []


def test_the_end_is_told_though_ticket_and_token_were_both_removed_before_it(state: Box) -> None:
    holder = state.run("sh", "-c", f"trap '' TERM; sleep {NAP}", options=("--grace", "0.5"))
    ticket = state.until_running()["ticket"]
    (state.queue / ticket).unlink()
    until(lambda: any(event["event"] == "ending" for event in state.events(ticket)))
    state.token.unlink()
    assert ended(holder)[0] == 130
    assert [event["event"] for event in state.events(ticket)][-3:] == ["ending", "ended", "released"]
    assert state.receipts()[-1]["ticket"] == ticket
    assert state.leftovers() == []


def test_a_keeper_killed_after_the_release_is_no_second_release(state: Box) -> None:
    """Nor does its heir publish anything about what is over."""
    killed = patched(
        "import os; from holdtop.payload import keeper;"
        "over = lambda self: self._run.custody.held[0].concluded;"
        "keeper.Keeper._continue_supervisor = lambda self: over(self) and os.kill(os.getpid(), 9)"
    )
    holder = subprocess.Popen([*killed, "run", "--state-dir", str(state.state), "--", "true"], stderr=subprocess.PIPE)
    ended(holder)
    assert [event["event"] for event in state.events()][-3:] == ["ending", "ended", "released"]
    assert len(state.receipts()) == 1
    assert state.leftovers() == []
