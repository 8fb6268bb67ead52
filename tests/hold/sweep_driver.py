"""Run ``holdtop`` and signal its processes at the N-th line that one of them executes.

``python sweep_driver.py ROLE N SIGNAL VICTIMS ARGS…``: ROLE, and each of VICTIMS (joined by commas), is ``supervisor``
or ``keeper``. Lines count as soon as every victim exists, and each only the first times that it is executed: how often
a loop over all processes of the machine goes round is chance. With N 0 nothing is sent. ``SWEEP_LOG`` names a file to
which is appended ``started LINES`` at the end of ROLE's start-up, ``ended LINES`` at the end of its life, and ``hit
PROCESSES`` (how many the hold had) before the signal; each with ``time.monotonic()``.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections import Counter
from types import FrameType
from typing import Any

import holdtop
from holdtop.cli.main import main
from holdtop.hold.custody import HoldCustody
from holdtop.payload import keeper
from holdtop.payload.supervisor import Supervisor

ROLE, POSITION, SIGNAL = sys.argv[1], int(sys.argv[2]), signal.Signals["SIG" + sys.argv[3]]
#: Whoever counts comes last: it might not get any further.
VICTIMS = sorted(sys.argv[4].split(","), key=lambda victim: victim == ROLE)
PACKAGE = os.path.dirname(holdtop.__file__) + os.sep
#: Who is forked by whom.
CHILD = {"supervisor": "keeper", "keeper": "root"}
#: A line counts this often.
TIMES = 10
seen: Counter[tuple[str, int]] = Counter()
count = 0
role = "supervisor"
pidfds = {role: os.pidfd_open(os.getpid())}
real_fork, real_exit = os.fork, os._exit


def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
    global count
    if not frame.f_code.co_filename.startswith(PACKAGE):
        return None
    if event == "line" and role == ROLE and pidfds.keys() >= set(VICTIMS):
        place = frame.f_code.co_filename, frame.f_lineno
        seen[place] += 1
        if seen[place] <= TIMES:
            count += 1
            if count == POSITION:
                strike()
    return on_line


def strike() -> None:
    log("hit", len(pidfds))
    for victim in VICTIMS:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfds[victim], SIGNAL)
        if SIGNAL == signal.SIGKILL:
            select.select([pidfds[victim]], [], [])  # dead before the line is executed


def fork() -> int:
    global count, role
    pid = real_fork()
    if pid == 0:
        seen.clear()
        count, role = 0, CHILD.get(role, "payload")
    if role == "root":
        sys.settrace(None)
    elif "keeper" not in pidfds:
        pidfds["keeper"] = os.pidfd_open(pid or os.getpid())
    return pid


def log(what: str, number: int) -> None:
    if role == ROLE and "SWEEP_LOG" in os.environ:
        with open(os.environ["SWEEP_LOG"], "a") as file:
            file.write(f"{what} {number} {time.monotonic()}\n")


def at_end_of_start_up(method: Any, of: str) -> Any:
    def wrapped(*args: Any) -> Any:
        if role == of:
            log("started", count)
        return method(*args)

    return wrapped


def leave(status: int) -> None:
    log("ended", count)
    real_exit(status)


keeper.TICK = 0.1  # the first look at the payload belongs to the start-up: most positions wait for it
os.fork, os._exit = fork, leave  # type: ignore[assignment]
Supervisor._wait_for_news = at_end_of_start_up(Supervisor._wait_for_news, "supervisor")  # type: ignore[method-assign]
HoldCustody.running = at_end_of_start_up(HoldCustody.running, "keeper")  # type: ignore[method-assign]
sys.settrace(on_line)
status = main(sys.argv[5:])
log("ended", count)
sys.exit(status)
