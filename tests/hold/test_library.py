"""The hold inside other programs: nothing of the caller's changes, and the token goes with the caller."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from holdtop.errors import HoldError
from holdtop.hold import Hold, run
from holdtop.payload.process import Pinned, read_stat
from tests.hold.lanes import NAP, Box, ended, sleepers, until
from tests.hold.typist import Typist

PR_GET_CHILD_SUBREAPER = 37
#: A thread that reaps every child, whoever started it.
REAPER = """
import threading
def reap():
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.01)
threading.Thread(target=reap, daemon=True).start()"""
FORK = get_context("fork")
QUIET: dict[str, Any] = {"stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}


def test_run_gives_the_commands_status(state: Box) -> None:
    assert run(["sh", "-c", "exit 4"], state_dir=state.state, stdio=QUIET) == 4
    assert run(["sleep", NAP], state_dir=state.state, max_hold=0.5, grace=1, stdio=QUIET) == 124
    assert state.leftovers() == []


def test_a_hold_lasts_as_long_as_its_block(state: Box) -> None:
    with Hold("gpu", state_dir=state.state, lane="mine") as held:
        assert state.token.exists()
        assert not held.lost
        with ThreadPoolExecutor(1) as other, pytest.raises(HoldError, match="121"):
            other.submit(Hold("gpu", state_dir=state.state, wait=0).__enter__).result()
    assert state.leftovers() == []


@pytest.mark.parametrize(("held", "wanted"), [("gpu", "gpu"), ("gpu", "gpu,npu"), ("gpu,npu", "gpu")])
def test_a_program_does_not_wait_for_itself(state: Box, held: str, wanted: str) -> None:
    with Hold(held, state_dir=state.state), pytest.raises(HoldError, match="holds gpu itself"):
        run(["true"], resource=wanted, state_dir=state.state, wait=0)
    assert run(["true"], state_dir=state.state, stdio=QUIET) == 0


@pytest.mark.parametrize(
    ("held", "wanted", "why"),
    [("gpu", "gpu,npu", "itself"), ("gpu,npu", "npu", "itself"), ("npu", "gpu", "-r gpu,npu")],
)
def test_a_thread_waits_neither_for_itself_nor_across(state: Box, held: str, wanted: str, why: str) -> None:
    with Hold(held, state_dir=state.state) as hold:
        with pytest.raises(HoldError, match=why):
            run(["true"], resource=wanted, state_dir=state.state, stdio=QUIET)
        with pytest.raises(HoldError, match=why):
            Hold(wanted, state_dir=state.state).__enter__()
        with pytest.raises(HoldError, match="in use"), ThreadPoolExecutor(1) as other:
            other.submit(hold.__enter__).result()
        assert not hold.lost
    assert state.leftovers() == []


def test_a_string_is_no_list_of_words(state: Box) -> None:
    with pytest.raises(TypeError, match="list of words"):
        run("true", state_dir=state.state)


def test_a_hold_opened_in_a_thread_that_ends_stays(state: Box) -> None:
    hold = Hold("gpu", state_dir=state.state)
    thread = threading.Thread(target=hold.__enter__)
    thread.start()
    thread.join()
    assert not hold.lost
    assert state.token.exists()
    hold.release()
    assert state.leftovers() == []


def test_a_hold_is_released_by_another_thread_than_it_was_opened_in(state: Box) -> None:
    with ThreadPoolExecutor(1) as pool:
        hold = pool.submit(Hold("gpu", state_dir=state.state).__enter__).result()
    thread = threading.Thread(target=hold.release)
    thread.start()
    thread.join()
    assert hold.lost
    assert state.leftovers() == []


def test_two_holds_and_a_foreign_pool_do_not_meet(state: Box) -> None:
    with ProcessPoolExecutor(1, FORK) as before:
        worker = before.submit(os.getpid).result()
        with Hold("gpu", state_dir=state.state), Hold("npu", state_dir=state.state) as npu:
            with ProcessPoolExecutor(1, FORK) as within:
                assert within.submit(abs, -1).result() == 1
                npu.release()
                assert within.submit(abs, -1).result() == 1
            assert before.submit(os.getpid).result() == worker
        assert before.submit(os.getpid).result() == worker
    assert state.leftovers() == []


def process_wide() -> dict[str, object]:
    """What a program would not like a library to change."""
    subreaper = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(subreaper), 0, 0, 0) == 0
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    os.umask(umask := os.umask(0))
    return {
        "subreaper": subreaper.value,
        "handlers": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "mask": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "wakeup": wakeup,
        "umask": umask,
        "place": (os.getcwd(), os.getpgrp(), os.getsid(0), dict(os.environ)),
        "threads": set(threading.enumerate()),
    }


def descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return {fd: path for fd, path in found.items() if not path.startswith("/proc/")}


def test_nothing_of_the_program_changes(state: Box) -> None:
    before, fds = process_wide(), descriptors()
    with subprocess.Popen(["sh", "-c", "exit 7"]) as foreign, Hold("gpu", state_dir=state.state):
        assert process_wide() == before
        own = descriptors().keys() - fds.keys()
        assert own
        assert all(fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC for fd in own)
        assert run(["true"], resource="npu", state_dir=state.state, stdio=QUIET) == 0
    assert foreign.returncode == 7
    assert (process_wide(), descriptors()) == (before, fds)


def test_a_foreign_childs_status_is_left_for_its_owner(state: Box) -> None:
    child = os.fork()
    if child == 0:
        os._exit(9)
    with Hold("gpu", state_dir=state.state):
        assert run(["true"], resource="npu", state_dir=state.state, stdio=QUIET) == 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_an_asyncio_program_keeps_its_own_children(state: Box) -> None:
    async def both() -> tuple[int, int | None]:
        child = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.3; exit 5")
        held = asyncio.to_thread(run, ["sh", "-c", "exit 6"], state_dir=state.state, stdio=QUIET)
        return await held, await child.wait()

    assert asyncio.run(both()) == (6, 5)


def test_an_exception_in_the_block_releases(state: Box) -> None:
    with pytest.raises(ZeroDivisionError), Hold("gpu", state_dir=state.state):
        raise ZeroDivisionError
    assert state.leftovers() == []


def program(state: Box, code: str, **kwargs: Any) -> subprocess.Popen[str]:
    """A program of its own; ``place`` is the state directory in it."""
    lines = f"import os, signal, sys, time\nfrom holdtop.hold import Hold, run\nplace = {str(state.state)!r}\n"
    line = [sys.executable, "-c", lines + textwrap.dedent(code)]
    kwargs = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, **kwargs}
    return subprocess.Popen(line, text=True, **kwargs)


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "sys.exit()", "raise ValueError"])
@pytest.mark.parametrize("child", ["", "if os.fork() == 0: time.sleep(60); os._exit(0)"], ids=["alone", "forked"])
def test_the_token_goes_with_the_program_whoever_it_has_forked(state: Box, end: str, child: str) -> None:
    """A forked child has the other end of every pipe; it is not the one that holds."""
    started = program(
        state,
        f"""
        Hold("gpu", state_dir=place).__enter__()
        {child or "pass"}
        print(open(f"/proc/self/task/{{os.getpid()}}/children").read(), flush=True)
        {end}
        """,
    )
    assert started.stdout
    children = [int(word) for word in started.stdout.readline().split()]
    started.wait(20)
    until(lambda: state.leftovers() == [])
    for pid in children:
        if stat := read_stat(pid):
            with contextlib.suppress(ProcessLookupError), Pinned(stat.identity) as left:
                left.send(signal.SIGKILL)
    started.stdout.close()


def test_a_forked_child_that_leaves_the_block_releases_nothing_of_its_parents(state: Box) -> None:
    with Hold("gpu", state_dir=state.state) as held:
        child = os.fork()
        if child == 0:
            lost = held.lost
            held.release()
            os._exit(int(lost))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child knows that it is held"
        assert ended(state.run("true", options=["-w", "1"]))[0] == 121, "it is still held a second later"
        assert not held.lost
    assert state.leftovers() == []


def test_a_release_is_prompt_though_a_forked_child_lives_on(state: Box) -> None:
    with Hold("gpu", state_dir=state.state):
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
    end = next(event for event in state.events() if event["event"] == "ended")
    assert (end["reason"], end["status"]) == ("exited", 0), "it was not ended for want of an end of file"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_forked_child_does_not_wait_for_its_own_program(state: Box) -> None:
    with Hold("gpu", state_dir=state.state), ProcessPoolExecutor(1, FORK) as pool:
        asked = pool.submit(run, ["true"], state_dir=state.state)
        with pytest.raises(HoldError, match="holds gpu itself"):
            asked.result(20)


@pytest.mark.parametrize("how", ["run(['true'], state_dir=place)", "Hold('gpu', state_dir=place).__enter__()"])
def test_ctrl_c_in_the_wait_leaves_the_queue(state: Box, how: str) -> None:
    with Hold("gpu", state_dir=state.state):
        waiter = program(state, how)
        until(lambda: len(state.tickets()) == 2)
        waiter.send_signal(signal.SIGINT)
        assert waiter.wait(20) == -signal.SIGINT
        until(lambda: len(state.tickets()) == 1)
        assert state.token.exists()
    waiter.communicate()


def test_a_program_that_survives_a_ctrl_c_keeps_its_hold(state: Box, typists: list[Typist]) -> None:
    code = f"""
import sys, time
from holdtop.hold import Hold
with Hold("gpu", state_dir={str(state.state)!r}) as held:
    try:
        print("calcu" + "lates")
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        print("inter" + "rupted")
    sys.stdin.readline()
    print("lo" + "st", held.lost)
"""
    typist = Typist([sys.executable, "-c", code])
    typists.append(typist)
    typist.read_until("calculates")
    typist.type("\x03")
    typist.read_until("interrupted")
    time.sleep(0.5)
    typist.type("\n")
    typist.read_until("lost False")
    typist.ended()
    assert state.leftovers() == []


def test_a_ctrl_c_to_the_command_stops_the_programs_loop(state: Box, typists: list[Typist]) -> None:
    code = f"from holdtop.hold import run\nwhile True: run(['sleep', '{NAP}'], state_dir={str(state.state)!r})"
    typist = Typist([sys.executable, "-c", code])
    typists.append(typist)
    state.until_running()
    typist.type("\x03")
    assert os.waitstatus_to_exitcode(typist.ended()) == -signal.SIGINT
    assert "KeyboardInterrupt" in typist.seen
    assert len([event for event in state.events() if event["event"] == "queued"]) == 1


def test_modules_in_the_callers_directory_are_not_the_holds(state: Box, tmp_path: Path) -> None:
    for name in ("queue", "select", "holdtop", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(77)")
    assert run(["sh", "-c", "exit 3"], state_dir=state.state, stdio={**QUIET, "cwd": tmp_path}) == 3


@pytest.mark.parametrize("takes", ["signal.signal(signal.SIGCHLD, signal.SIG_IGN)", REAPER])
def test_a_status_that_the_program_took_itself_is_not_called_success(state: Box, takes: str) -> None:
    started = program(state, f"{takes}\nprint(run(['sh', '-c', 'exit 4'], state_dir=place))", stderr=subprocess.PIPE)
    output, errors = started.communicate(timeout=20)
    told = output == "4\n" and takes == REAPER  # whoever of its threads asks first
    assert told or (output == "" and "reaps all its children itself" in errors)


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
