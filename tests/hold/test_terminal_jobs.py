"""A hold as a shell's job: loops, fg and stops, hang-ups, and the terminal given back whoever of the hold dies."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from holdtop.payload.process import read_stat
from tests.hold.lanes import NAP, Box, sleepers, until
from tests.hold.typist import INSTALLED, SHELLS, Typist, hold, shell

#: Counts Ctrl-C aloud; "q" ends it.
COUNTER = """
import signal, sys
seen = []
def note(*_):
    seen.append(1)
    print("int", len(seen), flush=True)
signal.signal(signal.SIGINT, note)
print("rea" + "dy", flush=True)
while sys.stdin.readline().strip() != "q":
    pass
print("total", len(seen), flush=True)
"""


def reads_when_told(flag: Path) -> list[str]:
    """A payload that leaves its terminal alone until ``flag`` exists, then reads a line."""
    return ["sh", "-c", f"until [ -e {flag} ]; do sleep 0.05; done; read x; echo got-$x"]


def alive(typist: Typist) -> None:
    """The shell has its terminal and reads from it."""
    typist.forget()
    typist.type("echo alive $((40+2))\n")
    typist.read_until("alive 42")


@pytest.mark.parametrize("name", INSTALLED)
@pytest.mark.parametrize("tail", ["", " | cat"], ids=["alone", "piped"])
def test_ctrl_c_stops_an_endless_loop_of_any_shell(state: Box, typists: list[Typist], name: str, tail: str) -> None:
    typist = shell(typists, name)
    typist.type(f"while :; do {shlex.join(hold(state, 'sleep', NAP))}{tail}; done\n")
    state.until_running()
    typist.forget()
    typist.type("\x03")
    typist.read_until("ready> ")
    alive(typist)
    until(lambda: state.leftovers() == [])
    assert sleepers() == []
    assert len([event for event in state.events() if event["event"] == "queued"]) == 1


def test_one_ctrl_c_is_one_signal(state: Box, typists: list[Typist]) -> None:
    typist = Typist(hold(state, sys.executable, "-c", COUNTER))
    typists.append(typist)
    typist.read_until("ready")
    for count in (1, 2):
        typist.type("\x03")
        typist.read_until(f"int {count}")
    typist.type("q\n")
    typist.read_until("total 2")
    assert os.waitstatus_to_exitcode(typist.ended()) == 0


@pytest.mark.parametrize("tail", ["", " | cat"], ids=["alone", "piped"])
def test_ctrl_backslash_ends_payload_and_hold(state: Box, typists: list[Typist], tail: str) -> None:
    typist = shell(typists)
    typist.type(f"ulimit -c 0; set -o pipefail; {shlex.join(hold(state, 'sleep', NAP))}{tail}; echo status $?\n")
    state.until_running()
    typist.type("\x1c")
    typist.read_until("status 131")
    assert (sleepers(), state.leftovers()) == ([], [])


@pytest.mark.parametrize("name", INSTALLED)
def test_fg_hands_the_terminal_to_a_payload_started_in_the_background(
    state: Box, typists: list[Typist], tmp_path: Path, name: str
) -> None:
    """A shell that takes its job for running sends no CONT with it."""
    flag = tmp_path / "flag"
    typist = shell(typists, name)
    typist.type(shlex.join(hold(state, *reads_when_told(flag))) + " &\n")
    state.until_running()
    typist.type("fg\n")
    until(lambda: os.tcgetpgrp(typist.fd) != typist.pid)
    flag.touch()
    typist.type("hello\n")
    typist.read_until("got-hello")
    alive(typist)


@pytest.mark.parametrize("name", INSTALLED)
def test_a_hold_that_was_stopped_gives_the_shell_its_terminal_and_comes_back_with_fg(
    state: Box, typists: list[Typist], tmp_path: Path, name: str
) -> None:
    flag = tmp_path / "flag"
    typist = shell(typists, name)
    typist.type(shlex.join(hold(state, *reads_when_told(flag))) + "\n")
    pid = int(state.token.read_text().split()[1]) if state.until_running() else 0
    typist.forget()
    os.kill(pid, signal.SIGSTOP)
    typist.read_until("ready> ")
    until(lambda: (stat := read_stat(pid)) and stat.state != "T")
    alive(typist)
    typist.type("fg\n")
    until(lambda: os.tcgetpgrp(typist.fd) != typist.pid)
    flag.touch()
    typist.type("hello\n")
    typist.read_until("got-hello")
    alive(typist)


def test_the_end_of_a_hold_that_was_stopped_takes_no_terminal_from_the_shell(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(shlex.join(hold(state, "sleep", NAP)) + "\n")
    pid = int(state.token.read_text().split()[1]) if state.until_running() else 0
    typist.forget()
    os.kill(pid, signal.SIGSTOP)
    typist.read_until("ready> ")
    until(lambda: (stat := read_stat(pid)) and stat.state != "T")
    os.kill(pid, signal.SIGTERM)
    until(lambda: read_stat(pid) is None)
    alive(typist)
    assert os.tcgetpgrp(typist.fd) == typist.pid


@pytest.mark.parametrize("victim", ["root", "keeper", "supervisor"])
def test_modes_and_foreground_come_back_whoever_is_killed(state: Box, typists: list[Typist], victim: str) -> None:
    script = f"{shlex.join(hold(state, 'sh', '-c', f'stty raw -echo; exec sleep {NAP}'))}; sleep 60; true"
    typist = Typist(["sh", "-c", script])
    typists.append(typist)
    modes = termios.tcgetattr(typist.fd)
    started = state.until_running()
    until(lambda: termios.tcgetattr(typist.fd)[3] != modes[3])
    pids = {"root": started["root_pid"], "keeper": started["keeper_pid"], "supervisor": 0}
    os.kill(pids[victim] or int(state.token.read_text().split()[1]), signal.SIGKILL)
    until(lambda: state.leftovers() == [])
    until(lambda: termios.tcgetattr(typist.fd)[:4] == modes[:4])
    until(lambda: os.tcgetpgrp(typist.fd) == typist.pid)


@pytest.mark.parametrize("ends", ["nohup", "plain", "leader"])
def test_a_lost_terminal_ends_the_hold_unless_nohup(state: Box, ends: str) -> None:
    """What a dropped connection does: the master side is closed, and the kernel hangs the session up."""
    line = hold(state, "sleep", NAP)
    typist = Typist(line if ends == "leader" else SHELLS["bash"])
    if ends != "leader":
        typist.read_until("ready> ")
        quiet = " </dev/null >/dev/null 2>&1" if ends == "nohup" else ""
        typist.type(f"{'nohup ' if ends == 'nohup' else ''}{shlex.join(line)}{quiet}\n")
    started = state.until_running()
    os.close(typist.fd)
    _, typist.wait_status = os.waitpid(typist.pid, 0)
    if ends == "nohup":
        (ignored,) = re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{started['root_pid']}/status").read_text())
        assert int(ignored, 16) & 1, "the payload ignores HUP too"
        os.kill(int(state.token.read_text().split()[1]), signal.SIGTERM)
    until(lambda: state.leftovers() == [] and sleepers() == [])
    end = next(event for event in state.events() if event["event"] == "ended")
    # The kernel hangs up the foreground group as well: whichever of payload and hold hears it first.
    assert (end["reason"], end["status"]) in ([("TERM", 143)] if ends == "nohup" else [("HUP", 129), ("exited", 129)])


def test_a_scripts_background_hold_leaves_the_script_its_terminal(state: Box, typists: list[Typist]) -> None:
    """Without job control it is in the foreground group; its stdin, /dev/null, tells."""
    typist = Typist(["sh", "-c", f"{shlex.join(hold(state, 'sleep', NAP))} & read x; echo got-$x; kill $!; wait"])
    typists.append(typist)
    state.until_running()
    typist.type("hello\n")
    typist.read_until("got-hello")
    typist.ended()
    assert (sleepers(), state.leftovers()) == ([], [])


def test_a_pager_behind_the_hold_reads_the_terminal(state: Box, typists: list[Typist]) -> None:
    pager = "sh -c 'cat; read x </dev/tty; echo got-$x'"
    typist = shell(typists)
    typist.type(f"{shlex.join(hold(state, 'echo', 'page'))} | {pager}\n")
    typist.read_until("page")
    typist.type("hello\n")
    typist.read_until("got-hello")
    alive(typist)


def test_a_payload_in_a_pipe_that_reads_the_terminal_is_told(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(f"set -o pipefail; {shlex.join(hold(state, 'sh', '-c', 'read x'))} | cat; echo status $?\n")
    typist.read_until("wants a terminal")
    typist.read_until("status 125")
    alive(typist)


def test_a_session_without_a_terminal_of_its_own(state: Box, typists: list[Typist]) -> None:
    """``setsid``: stdin is a terminal, but not ours."""
    typist = Typist(["setsid", "-w", *hold(state, "sh", "-c", "tty; (: </dev/tty) || echo no$((1+1))ne")])
    typists.append(typist)
    typist.read_until("no2ne")
    assert os.waitstatus_to_exitcode(typist.ended()) == 0
    assert "/dev/pts/" in typist.seen


def test_a_terminal_within_a_terminal(state: Box, typists: list[Typist]) -> None:
    """As ``sudo`` and ``script`` do: the inner one's foreground is lent and given back."""
    line = hold(state, "sh", "-c", "read x; echo got-$x; exec sleep 600")
    inner = f"import pty, sys; sys.exit(pty.spawn({line!r}))"
    typist = Typist([sys.executable, "-c", inner])
    typists.append(typist)
    state.until_running()
    typist.type("hello\n")
    typist.read_until("got-hello")
    typist.type("\x03")
    typist.ended()
    until(lambda: state.leftovers() == [])
    end = next(event for event in state.events() if event["event"] == "ended")
    assert end["reason"] == "exited"


def test_signals_that_the_starter_had_blocked_are_heard(state: Box) -> None:
    block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    line = [sys.executable, "-c", f"{block}; os.execv(sys.argv[1], sys.argv[1:])", *hold(state, "sleep", NAP)]
    lane = subprocess.Popen(line, stdin=subprocess.DEVNULL)
    state.until_running()
    lane.terminate()
    assert lane.wait(20) == 143
    assert (sleepers(), state.leftovers()) == ([], [])
