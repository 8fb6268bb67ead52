"""Real processes that resist their end, and nothing of them left when the test is over.

What even KILL does not end until it is let go: a frozen cgroup of the v1 freezer, and a write to a frozen file system
(state D; fsfreeze(8)). What TERM does not end: state D below a vfork, a main thread that has exited, a set-uid program.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.payload.process import Identity, is_alive
from tests.hold.lanes import identity, until

FREEZER = Path("/sys/fs/cgroup/freezer")

#: The parent sleeps in vfork (state D, all signals but KILL blocked) until its child, which opens a FIFO that nobody
#: writes, comes to its exec: posix_spawn(3) opens the child's files in between. The child outlives the parent.
VFORK = """
import os, sys
os.posix_spawn("/bin/true", ["true"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0)])
"""
#: The process shows state Z and has no command line, while a thread of it works on.
ZOMBIE_LEADER = """
import ctypes, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=time.sleep, args=(float(sys.argv[1]),)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
#: A dead child that is never reaped while its parent lives.
UNREAPING = """
import os, sys, time
if not os.fork():
    os._exit(0)
time.sleep(float(sys.argv[1]))
"""


def python(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code, *words]


class Freezer:
    """A cgroup of the v1 freezer: what is frozen in it shows state D, and a KILL stays pending."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def freeze(self, *pids: int) -> None:
        for pid in pids:
            (self._directory / "cgroup.procs").write_text(str(pid))
        (self._directory / "freezer.state").write_text("FROZEN")
        until(lambda: (self._directory / "freezer.state").read_text() == "FROZEN\n")

    def thaw(self) -> None:
        (self._directory / "freezer.state").write_text("THAWED")

    def procs(self) -> list[int]:
        return [int(pid) for pid in (self._directory / "cgroup.procs").read_text().split()]


@contextlib.contextmanager
def freezer() -> Iterator[Freezer]:
    """Whoever is in it at the end is killed."""
    if os.geteuid() != 0:
        pytest.skip("needs root: freezes with the v1 freezer")
    if not (FREEZER / "cgroup.procs").exists():
        pytest.skip("needs cgroup v1: its freezer alone makes KILL wait")
    directory = FREEZER / f"holdtop-test-{os.getpid()}-{time.monotonic_ns()}"
    directory.mkdir()
    made = Freezer(directory)
    try:
        yield made
    finally:
        made.thaw()
        for pid in made.procs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        until(lambda: not made.procs())
        directory.rmdir()


class FrozenFiles:
    """A file system of its own, in a mount namespace that no other process has to enter."""

    def __init__(self, mount: Path) -> None:
        self._mount = mount

    @property
    def path(self) -> str:
        """Writing below it is an uninterruptible sleep until the thaw."""
        return str(self._mount)

    def thaw(self) -> None:
        subprocess.run(["fsfreeze", "-u", self.path], stderr=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def frozen_files(directory: Path) -> Iterator[FrozenFiles]:
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a file system")
    image, mount = directory / "image", directory / "mount"
    image.write_bytes(bytes(8 << 20))
    mount.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    line = f"mount -o loop {image} {mount} && echo mounted && exec cat"
    holder = subprocess.Popen(
        ["unshare", "-m", "--propagation", "private", "sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin
    assert holder.stdout
    made = FrozenFiles(Path(f"/proc/{holder.pid}/root{mount}"))
    try:
        if holder.stdout.readline() != b"mounted\n":
            pytest.skip("needs a loop device: to mount a file system on")
        subprocess.run(["fsfreeze", "-f", made.path], check=True)
        yield made
    finally:
        made.thaw()
        holder.stdin.close()
        holder.stdout.close()
        holder.wait(10)


@contextlib.contextmanager
def set_uid_helper() -> Iterator[list[str]]:
    """Words before a command by which an ordinary account runs it as root in earnest: real, effective and saved uid."""
    top = Path(tempfile.mkdtemp(prefix="holdtop-set-uid-"))
    top.chmod(0o755)
    helper = top / "as-root"
    shutil.copyfile(shutil.which("setpriv") or "/usr/bin/setpriv", helper)
    helper.chmod(0o755 | stat.S_ISUID)
    try:
        yield [str(helper), "--reuid", "0", "--regid", "0", "--clear-groups"]
    finally:
        shutil.rmtree(top)


@contextlib.contextmanager
def finally_ended(*pids: int) -> Iterator[tuple[Identity, ...]]:
    """These very processes, killed at the end if they still live."""
    known = tuple(map(identity, pids))
    try:
        yield known
    finally:
        for one in known:
            if is_alive(one):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.pid, 9)
                until(lambda one=one: not is_alive(one))  # type: ignore[misc]
