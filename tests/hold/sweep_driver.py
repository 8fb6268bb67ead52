"""Run ``holdtop`` and send TERM to its outer process at the N-th line that one of its two processes executes.

``python sweep_driver.py ROLE N ARGS…``; ROLE is ``supervisor`` or ``keeper``. With N 0 nothing is sent, and the
number of lines up to the end of the start-up is appended to the file named by ``SWEEP_COUNTS``.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import Any

from holdtop.cli.main import main
from holdtop.hold.custody import HoldCustody
from holdtop.payload.supervisor import Supervisor

ROLE, POSITION = sys.argv[1], int(sys.argv[2])
OUTER = os.getpid()
PACKAGE = os.sep + "holdtop" + os.sep
count = 0
role = "supervisor"


def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
    global count
    if PACKAGE not in frame.f_code.co_filename:
        return None
    if event == "line" and role == ROLE:
        count += 1
        if count == POSITION:
            os.kill(OUTER, signal.SIGTERM)
    return on_line


def become_keeper() -> None:
    global count, role
    count, role = 0, "keeper"


def report(method: Any, at: str) -> Any:
    """Write the count when ``method`` is first reached (the end of the start-up in that process)."""

    def wrapped(*args: Any) -> Any:
        if POSITION == 0 and role == ROLE == at:
            with open(os.environ["SWEEP_COUNTS"], "a") as file:
                file.write(f"{count}\n")
        return method(*args)

    return wrapped


os.register_at_fork(after_in_child=become_keeper)
Supervisor._wait_for_news = report(Supervisor._wait_for_news, "supervisor")  # type: ignore[method-assign]
HoldCustody.running = report(HoldCustody.running, "keeper")  # type: ignore[method-assign]
sys.settrace(on_line)
sys.exit(main(sys.argv[3:]))
