"""``holdtop runner drill``: a job really runs out of memory, and the unit lives; a control with systemd's default dies.

Believed is the kernel's own count and what the manager says, never that nothing bad was seen: a drill that slept, or
whose allocation failed as an exception, would have shown nothing and looked well.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdtop.errors import RefusedError
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.verify import enforced
from holdtop.payload.cgroup import Cgroup

#: MemoryMax of the units, and what their child writes to, in bytes: enough for an interpreter, nothing to a box.
MEMORY_MAX = 64 << 20
DIRTIED = 4 * MEMORY_MAX
#: For the kernel's kill and the manager's answer to it, in seconds.
PATIENCE = 60.0
POLL_SECONDS = 0.2
#: The listener's part: starts a job, and goes on when that has ended, however it did.
_MAIN = '"$0" "$@" & wait; exec sleep 3600'
#: The job's part: each page is written, so each is charged for.
_JOB = """
import mmap, sys
size = int(sys.argv[1])
room = mmap.mmap(-1, size)
for at in range(0, size, mmap.PAGESIZE):
    room[at] = 1
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one unit."""

    #: As the unit's ``memory.events`` counts them; ``None``: not to be read (a unit that has stopped has no cgroup).
    oom_kills: int | None
    #: The job is no more among the unit's processes.
    job_gone: bool
    active_state: str
    result: str


@dataclass(frozen=True, slots=True)
class Drill:
    """``why`` is set when it was not shown."""

    ours: Seen | None = None
    control: Seen | None = None
    why: str | None = None


def drill(manager: Manager) -> Drill:
    """Takes a few seconds, at most two minutes. Leaves no unit behind. Raises ``RefusedError``, ``UnseenError``."""
    with _unit(manager, "probe", "continue", ["/bin/sleep", "3600"]) as name:
        if why := _why_not(manager.properties(name)["ControlGroup"]):
            return Drill(why=why)
    job = [sys.executable, "-I", "-S", "-c", _JOB, str(DIRTIED)]
    seen = {}
    for policy in ("continue", "stop"):
        with _unit(manager, policy, policy, ["/bin/sh", "-c", _MAIN, *job]) as name:
            seen[policy] = _watch(manager, name, policy)
    ours, control = seen["continue"], seen["stop"]
    return Drill(ours, control, _unshown(ours, control))


def _unshown(ours: Seen, control: Seen) -> str | None:
    """What of the evidence is missing; ``None`` when there is all of it."""
    if not ours.oom_kills:
        return f"the kernel killed nothing of the unit (oom_kill {ours.oom_kills}): is there swap?"
    if not ours.job_gone:
        return "the kernel counts a kill, but the job is still there"
    if ours.active_state != "active":
        return f"the unit did not live: it is {ours.active_state}, Result={ours.result}"
    if control.active_state != "failed" or control.result != "oom-kill":
        return f"the control, with OOMPolicy=stop, did not die of it: {control.active_state}, Result={control.result}"
    return None


@contextlib.contextmanager
def _unit(manager: Manager, kind: str, policy: str, command: list[str]) -> Iterator[str]:
    """A throw-away service, gone when the block is left."""
    name = f"holdtop-drill-{os.getpid()}-{kind}.service"
    properties: dict[str, tuple[str, Any]] = {
        "Description": ("s", "drill of holdtop runner"),
        "ExecStart": ("a(sasb)", [(command[0], command, False)]),
        "OOMPolicy": ("s", policy),
        "KillMode": ("s", "mixed"),
        "MemoryMax": ("t", MEMORY_MAX),
        "MemorySwapMax": ("t", 0),
        "Delegate": ("b", True),
    }
    manager.start_transient(name, properties)
    try:
        yield name
    finally:
        manager.stop(name)
        with contextlib.suppress(RefusedError):  # one that did not fail is gone by now
            manager.forget_failure(name)


def _why_not(group: str) -> str | None:
    """Why no kill can be had here, before anybody tries: without a limit the job would only cost the box memory."""
    if not enforced(group) or (place := Cgroup.at(group)) is None:
        return "there is no memory controller for units, so MemoryMax kills nothing (cgroup v2: cgroup.controllers)"
    if (said := _read(place, "memory.max")) != str(MEMORY_MAX):
        return f"the unit's memory.max is {said}, not {MEMORY_MAX}"
    if _read(place, "memory.swap.max") not in ("0", None):
        return "the unit may swap (memory.swap.max), so nothing would be killed"
    return None


def _watch(manager: Manager, name: str, policy: str) -> Seen:
    """Until the unit has come to where it has to be, or for as long as that may take."""
    deadline = time.monotonic() + PATIENCE
    while True:
        seen = _look(manager, name)
        done = seen.oom_kills and seen.job_gone if policy == "continue" else seen.active_state == "failed"
        if done or time.monotonic() > deadline:
            return seen
        time.sleep(POLL_SECONDS)


def _look(manager: Manager, name: str) -> Seen:
    said = manager.properties(name)
    place = Cgroup.at(said["ControlGroup"]) if said["ControlGroup"] else None
    job = any("import mmap" in words for words in manager.processes(name).values()) if place else False
    return Seen(_oom_kills(place), not job, said["ActiveState"], said["Result"])


def _oom_kills(place: Cgroup | None) -> int | None:
    lines = (_read(place, "memory.events") or "").splitlines() if place else []
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def _read(place: Cgroup, name: str) -> str | None:
    try:
        with open(f"{place.directory}/{name}", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None
