"""Cgroups of a test's own, and what lies in them: gone when the test is over."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup

NO_CGROUP = "needs cgroup v2: groups can be made below our own"


def own() -> Cgroup:
    """The cgroup of this test, if groups can be made below it; else the test is skipped."""
    home = Cgroup.of(os.getpid())
    if home is None or not home.writable:
        pytest.skip(NO_CGROUP)
    return home


@contextlib.contextmanager
def group(uid: int | None = None) -> Iterator[Cgroup]:
    """A fresh cgroup, delegated to ``uid``; whoever is left in it at the end is killed."""
    made = own().make(f"test-{os.getpid()}-{time.monotonic_ns()}")
    if uid is not None:
        for name in ("", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"):
            os.chown(made.directory + name, uid, -1)
    try:
        yield made
    finally:
        deadline = time.monotonic() + 5
        while made.populated() and time.monotonic() < deadline:
            made.kill()
            time.sleep(0.01)
        made.remove()


def inside(group: Cgroup) -> dict[str, Any]:
    """For ``Popen``: in that cgroup from the first."""
    return {"preexec_fn": lambda: group.put(os.getpid())}


def frozen(group: Cgroup) -> bool:
    with open(f"{group.directory}/cgroup.events", "rb") as file:
        return b"frozen 1" in file.read()


def holdtops_in(home: Cgroup) -> list[str]:
    """Names of the payloads' cgroups directly below."""
    return sorted(name for name in os.listdir(home.directory) if name.startswith("holdtop-"))
