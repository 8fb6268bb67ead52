"""A hold on a terminal: input, Ctrl-C once, Ctrl-Z without a frozen holder, background, and modes restored."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import termios

from holdtop.payload.process import read_stat
from tests.hold.lanes import HOLDTOP, NAP, Box, sleepers, until
from tests.hold.typist import Typist, hold, shell


def test_the_payload_reads_its_terminal(state: Box, typists: list[Typist]) -> None:
    typist = Typist(hold(state, sys.executable, "-c", "print('got', input('what? ')[::-1])"))
    typists.append(typist)
    typist.read_until("what? ")
    typist.type("olleh\n")
    typist.read_until("got hello")
    assert os.waitstatus_to_exitcode(typist.ended()) == 0


def test_ctrl_c_ends_the_payload_once_and_the_hold_dies_of_it(state: Box, typists: list[Typist]) -> None:
    typist = Typist(hold(state, "sleep", NAP))
    typists.append(typist)
    state.until_running()
    typist.type("\x03")
    assert os.WTERMSIG(typist.ended()) == signal.SIGINT
    assert sleepers() == []
    assert state.leftovers() == []


def test_ctrl_c_in_a_program_that_handles_it_goes_on(state: Box, typists: list[Typist]) -> None:
    code = """
import sys, time
try:
    print("wor" + "king", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("inter" + "rupted", flush=True)
sys.exit(int(input()))
"""
    typist = Typist(hold(state, sys.executable, "-c", code))
    typists.append(typist)
    typist.read_until("working")
    typist.type("\x03")
    typist.read_until("interrupted")
    typist.type("5\n")
    assert os.waitstatus_to_exitcode(typist.ended()) == 5


def test_ctrl_c_stops_a_shells_loop(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(f"for i in 1 2 3; do {shlex.join(hold(state, 'sleep', NAP))}; done; echo loop $((40+2))\n")
    state.until_running()
    typist.type("\x03")
    typist.read_until("ready> ")
    assert len([event for event in state.events() if event["event"] == "queued"]) == 1
    assert sleepers() == []
    typist.type("exit\n")
    typist.ended()


def test_ctrl_z_leaves_no_frozen_holder(state: Box, typists: list[Typist]) -> None:
    typist = Typist(hold(state, "sleep", NAP))
    typists.append(typist)
    root = state.until_running()["root_pid"]
    typist.type("\x1a")
    typist.read_until("was continued")
    stat = read_stat(root)
    assert stat is not None
    assert stat.state != "T"
    typist.type("\x03")
    assert os.WTERMSIG(typist.ended()) == signal.SIGINT


def test_a_shell_inside_has_job_control_and_gives_the_terminal_back(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    modes = termios.tcgetattr(typist.fd)
    typist.type(shlex.join(hold(state, "env", "PS1=inner> ", "bash", "--norc", "--noprofile", "-i")) + "\n")
    typist.read_until("inner> ")
    typist.forget()
    typist.type("sleep 300 & jobs; kill %1; stty -echo; echo in$((1+1))side\n")
    typist.read_until("in2side")
    assert "no job control" not in typist.seen
    typist.type("exit 6\n")
    typist.read_until("ready> ")
    typist.forget()
    typist.type("echo status $?\n")
    typist.read_until("status 6")
    assert termios.tcgetattr(typist.fd)[3] & termios.ECHO == modes[3] & termios.ECHO or "echo" in typist.seen
    typist.type("exit\n")
    typist.ended()


def test_a_background_payload_that_wants_the_terminal_is_ended_with_one_line(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(shlex.join(hold(state, "sh", "-c", "read x < /dev/tty")) + " &\n")
    typist.read_until("wants a terminal")
    until(lambda: state.leftovers() == [])
    typist.type("exit\n")
    typist.ended()


def test_a_background_hold_does_not_take_the_terminal(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(shlex.join(hold(state, "sleep", NAP)) + " &\n")
    state.until_running()
    typist.forget()
    typist.type("echo still $((6*7))\n")
    typist.read_until("still 42")
    typist.type("kill %1; wait; exit\n")
    typist.ended()
    assert sleepers() == []
    assert state.leftovers() == []


def test_a_pipelines_neighbour_keeps_the_terminal(state: Box, typists: list[Typist]) -> None:
    typist = shell(typists)
    typist.type(shlex.join(hold(state, "echo", "through")) + " | cat; echo after $((40+2))\n")
    typist.read_until("after 42")
    assert "through" in typist.seen
    typist.type("exit\n")
    typist.ended()


def test_a_stopped_terminal_does_not_stop_the_deadline(state: Box, typists: list[Typist]) -> None:
    options = ["--max-hold", "1", "--grace", "0.5"]
    typist = Typist([*HOLDTOP, "run", "--state-dir", str(state.state), *options, "--", "sh", "-c", "yes; true"])
    typists.append(typist)
    state.until_running()
    typist.type("\x13")  # Ctrl-S
    until(lambda: state.leftovers() == [], 10)
    typist.type("\x11")
    assert os.waitstatus_to_exitcode(typist.ended()) == 124


def test_foreground_and_modes_are_given_back_to_a_script(state: Box, typists: list[Typist]) -> None:
    script = f"{shlex.join(hold(state, 'stty', '-echo'))}; stty -a; read line; echo got $line"
    typist = Typist(["sh", "-c", script])
    typists.append(typist)
    typist.read_until("tostop")
    assert " echo " in typist.seen
    typist.type("olleh\n")
    typist.read_until("got olleh")
    assert os.waitstatus_to_exitcode(typist.ended()) == 0
