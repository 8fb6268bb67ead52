"""Control groups, version 2: the kernel's own list of who belongs to a payload, which no fork escapes.

Source of all facts: cgroups(7) and the kernel's cgroup-v2 guide. What is called *delegated* here is the kernel's
sense of it: somebody gave us the right to write to the directory and its ``cgroup.procs``.
"""

from __future__ import annotations

import contextlib
import errno
import os
from functools import cache

from holdtop.lean import dataclass
from holdtop.payload import linux

#: Every cgroup made for a payload is named so.
PREFIX = "holdtop-"


@dataclass(frozen=True, slots=True)
class Cgroup:
    """One version 2 control group. Every call raises ``OSError`` unless it says otherwise."""

    #: As ``/proc/PID/cgroup`` shows it.
    path: str
    directory: str

    @classmethod
    def at(cls, path: str) -> Cgroup | None:
        """The group of that path, if the hierarchy is mounted here and shows it."""
        if (mount := _mount()) is None:
            return None
        root, point = mount[0].rstrip("/"), mount[1]
        if ".." in path.split("/") or not (path == root or path.startswith(f"{root}/")):
            return None  # outside of our cgroup namespace ("/../x") or of what is mounted
        return cls(path, point + path.removeprefix(root).rstrip("/"))

    @classmethod
    def of(cls, pid: int) -> Cgroup | None:
        """The group a process is in now; ``None`` when it is gone or there is no such hierarchy."""
        path = path_of(pid)
        return None if path is None else cls.at(path)

    def make(self, name: str) -> Cgroup:
        """A new group below this one."""
        below = Cgroup(f"{self.path.rstrip('/')}/{name}", f"{self.directory}/{name}")
        os.mkdir(below.directory)
        return below

    @property
    def writable(self) -> bool:
        """Delegated to us: groups can be made below, and processes moved there."""
        return all(os.access(self.directory + name, os.W_OK) for name in ("", "/cgroup.procs"))

    @property
    def ours(self) -> bool:
        """Made by a hold itself, to be removed by holds. Not so a scope: removed behind its manager's back, it stays
        on that one's list as active, for ever.
        """
        name = os.path.basename(self.path)
        return name.startswith(PREFIX) and not name.endswith(".scope")

    def inode(self) -> int:
        """The group's identity for as long as the machine is up (the kernel's cgroup id)."""
        return os.stat(self.directory).st_ino

    def put(self, pid: int) -> None:
        """Move a process here; its later children start here."""
        self._write("cgroup.procs", str(pid))

    def fork(self) -> int:
        """``os.fork`` with the child in here from its first instant."""
        fd = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return linux.fork_into_cgroup(fd)
        finally:
            os.close(fd)

    def procs(self) -> set[int]:
        """Pids of all processes here and below, zombie leaders with living threads included; never raises.

        0 stands for those outside of our pid namespace.
        """
        found: set[int] = set()
        waiting = [self.directory]
        while waiting:
            directory = waiting.pop()
            with contextlib.suppress(OSError):
                found |= _listed(directory)
                with os.scandir(directory) as entries:
                    waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        return found

    def populated(self) -> bool | None:
        """Whether any process lives here or below; a group that is gone is empty. ``None``: cannot be known."""
        try:
            with open(f"{self.directory}/cgroup.events", "rb") as file:
                return b"populated 1" in file.read()
        except OSError as error:
            return False if error.errno in (errno.ENOENT, errno.ENODEV) else None

    def kill(self) -> None:
        """SIGKILL to all in one step, forks in progress included; but not to a zombie leader's other threads."""
        self._write("cgroup.kill", "1")

    def freeze(self, frozen: bool) -> None:
        """Stop or continue all; a frozen process sees no signal but KILL."""
        self._write("cgroup.freeze", str(int(frozen)))

    def remove(self) -> None:
        """Remove it with all below, as far as nothing lives there; never raises."""
        directories = [self.directory]
        for directory in directories:
            with contextlib.suppress(OSError), os.scandir(directory) as entries:
                directories += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        for directory in reversed(directories):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def _write(self, name: str, text: str) -> None:
        fd = os.open(f"{self.directory}/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


def _listed(directory: str) -> set[int]:
    """Pids of the processes in this very group; of a *threaded* one the kernel lists threads only."""
    try:
        with open(f"{directory}/cgroup.procs", "rb") as file:
            return {int(word) for word in file.read().split()}
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    with open(f"{directory}/cgroup.threads", "rb") as file:
        return set(filter(None, map(_process_of, file.read().decode().split())))


def _process_of(thread: str) -> int | None:
    """The process of a thread (``Tgid`` in proc_pid_status(5)); ``None`` when it is gone."""
    with contextlib.suppress(OSError), open(f"/proc/{thread}/status", "rb") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(b"Tgid:")), None)
    return None


def path_of(pid: int) -> str | None:
    """The version 2 path of a process (the line ``0::`` of ``/proc/PID/cgroup``), ``None`` when it has none."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", "rb") as file:
        for line in file.read().splitlines():
            if line.startswith(b"0::/"):
                return os.fsdecode(line[3:])
    return None


@cache
def _mount() -> tuple[str, str] | None:
    """Root and mount point of the version 2 hierarchy (proc_pid_mountinfo(5)), hybrid hosts included."""
    with contextlib.suppress(OSError), open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            fields = line.split()
            if b"cgroup2" in fields[fields.index(b"-") + 1 :][:1]:
                return _unescape(fields[3]), _unescape(fields[4])
    return None


def _unescape(field: bytes) -> str:
    for code, char in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, char)
    return os.fsdecode(field)
