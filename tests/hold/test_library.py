"""The hold inside other programs: nothing of the caller's changes, and the token goes with the caller."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

from holdtop.errors import HoldError
from holdtop.hold import Hold, run
from tests.hold.lanes import NAP, Box, sleepers, until

QUIET: dict[str, Any] = {"stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def test_run_gives_the_commands_status(state: Box) -> None:
    assert run(["sh", "-c", "exit 4"], state_dir=state.state, stdio=QUIET) == 4
    assert run(["sleep", NAP], state_dir=state.state, max_hold=0.5, grace=1, stdio=QUIET) == 124
    assert state.leftovers() == []


def test_a_hold_lasts_as_long_as_its_block(state: Box) -> None:
    with Hold("gpu", state_dir=state.state, lane="mine") as held:
        assert state.token.exists()
        assert not held.lost
        with pytest.raises(HoldError, match="121"), Hold("gpu", state_dir=state.state, wait=0):
            pytest.fail("two holders")
    assert state.leftovers() == []


def test_a_program_does_not_wait_for_itself(state: Box) -> None:
    with Hold("gpu", state_dir=state.state), pytest.raises(HoldError, match="holds gpu itself"):
        run(["true"], state_dir=state.state)
    assert run(["true"], state_dir=state.state, stdio=QUIET) == 0


def test_a_hold_opened_in_a_thread_that_ends_stays(state: Box) -> None:
    hold = Hold("gpu", state_dir=state.state)
    thread = threading.Thread(target=hold.__enter__)
    thread.start()
    thread.join()
    assert not hold.lost
    assert state.token.exists()
    hold.release()
    assert state.leftovers() == []


def test_two_holds_and_a_foreign_pool_do_not_meet(state: Box) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    with ProcessPoolExecutor(1) as pool:
        worker = pool.submit(os.getpid).result()
        with Hold("gpu", state_dir=state.state), Hold("npu", state_dir=state.state):
            assert pool.submit(os.getpid).result() == worker
        assert pool.submit(os.getpid).result() == worker
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]


def test_a_killed_caller_takes_its_payload_with_it(state: Box) -> None:
    code = f"from holdtop.hold import run; run(['sleep', '{NAP}'], state_dir={str(state.state)!r}, grace=1)"
    caller = subprocess.Popen([sys.executable, "-c", code], **QUIET)
    state.until_running()
    caller.kill()
    caller.wait()
    until(lambda: state.leftovers() == [])
    until(lambda: sleepers() == [])


def test_a_stop_is_seen_as_a_lost_hold(state: Box) -> None:
    with Hold("gpu", state_dir=state.state, grace=1) as held:
        (state.queue / state.tickets()[0]).unlink()
        until(lambda: held.lost)
