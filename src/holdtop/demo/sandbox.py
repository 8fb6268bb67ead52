"""The demo as seen by the process that shows it: up while the block runs, gone afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdtop.errors import HoldtopError
from holdtop.payload.process import own_identity

#: How long the guardian may take to end everything, in seconds.
CLEANING = 40.0


@dataclass(frozen=True, slots=True)
class Sandbox:
    #: What was set up: ids, pids and paths, as ``demo --script`` prints it.
    told: dict[str, Any]
    #: Readable when the guardian has ended, which it does not do by itself.
    guardian_fd: int


@contextlib.contextmanager
def sandbox(directory: str | None = None) -> Iterator[Sandbox]:
    """Set the demo up, and take it down again. Raises ``HoldtopError`` when either does not succeed.

    ``directory``: a path that must not exist yet; a new one among the temporary files otherwise.
    """
    me = own_identity()
    where = [] if directory is None else [directory]
    guardian = subprocess.Popen(
        [sys.executable, "-P", "-m", "holdtop.demo.guardian", str(me.pid), str(me.start_ticks), *where],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pidfd = os.pidfd_open(guardian.pid)
    told: dict[str, Any] = {}
    try:
        assert guardian.stdout is not None
        with guardian.stdout as said:
            line = said.readline()
        told = json.loads(line) if line else {"error": f"its guardian ended with {guardian.wait()}"}
        if "error" in told:
            guardian.wait(CLEANING)  # it ends by itself; a TERM now could hide what it said
            raise HoldtopError(f"the demo could not be set up: {told['error']}")
        yield Sandbox(told, pidfd)
    finally:
        os.close(pidfd)
        _take_down(guardian, told.get("directory"))


def _take_down(guardian: subprocess.Popen[bytes], directory: str | None) -> None:
    with contextlib.suppress(ProcessLookupError):
        guardian.send_signal(signal.SIGTERM)
    try:
        status = guardian.wait(CLEANING)
    except subprocess.TimeoutExpired:
        raise HoldtopError(f"the demo's guardian (pid {guardian.pid}) is still cleaning up") from None
    if status != 0:
        # It was killed: holds and programs end by themselves when they see that; the files are left to us.
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)
        raise HoldtopError(f"the demo's guardian ended with {status}, before its time")
