"""Run holds in forks of this process, and make one of their system calls fail.

Reads a JSON object a line (``argv``, ``state``: the directory, ``stderr``: a file, ``limits`` of the process, and to
make something fail ``role``, ``at``, ``errno``, ``lasting``), runs ``holdtop`` on ``argv`` and answers with one:
``status``, ``calls`` of each role that could have failed so, ``hit``: the call that did, and ``left``: processes that
did not end. Everything is imported once, so that a life takes a tenth of a second.

``role`` is the process that meets the fault, ``at`` counts its calls. With ``lasting`` every call that can fail so
does from then on, in each process of the hold, as on a full disk; else only that one.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from holdtop.cli import main, run  # noqa: F401  the verb is imported when it is named
from holdtop.hold import queue
from holdtop.payload import linux

#: How long the orphans of a hold that is over may take to end, in seconds.
PATIENCE = 5.0
ROLES = ("supervisor", "keeper", "root")
#: Calls by what makes them fail.
_MAKE = {"create", "mkdir", "link", "rename", "rename_special"}
_CHANGE = {*_MAKE, "unlink", "fchmod", "chmod", "fchown", "ftruncate", "open for writing"}
_LOOK = {"open", "stat", "listdir"}
_OPEN = {"open", "open for writing", "create", "listdir"}
_LOCK = {"flock", "fcntl"}
#: What can fail so: on the disk of the state (see ``_on_state``) …
ON_STATE = {
    "ENOSPC": {*_MAKE, "write"},
    "EDQUOT": {*_MAKE, "write"},
    "EFBIG": {"write"},
    "EROFS": {*_CHANGE, "write"},
    "EACCES": {*_CHANGE, *_LOOK},
    "EIO": {*_CHANGE, *_LOOK, *_LOCK, "write", "read", "pread"},
    "ENOLCK": _LOCK,
    "ENOSYS": _LOCK,
    "ESTALE": {*_CHANGE, *_LOOK, *_LOCK, "write", "read", "pread"},
}
#: … and anywhere.
ANYWHERE = {
    "EMFILE": {*_OPEN, "pipe2", "pidfd_open", "socketpair", "dup", "inotify_open"},
    "ENFILE": {*_OPEN, "pipe2", "pidfd_open", "socketpair", "dup", "inotify_open"},
    "ENOMEM": {*_OPEN, *_CHANGE, "pipe2", "pidfd_open", "socketpair", "inotify_open", "inotify_watch", "fork"},
    "EAGAIN": {"fork"},
}

#: Shared by all processes of a hold: calls of each role, whether the fault has struck, and where.
board = mmap.mmap(-1, 4096)
_COUNTS = struct.Struct("3ib")
role = ROLES[0]
case: dict[str, Any] = {}
reach: set[str] = set()
everywhere = False
real_fork, real_readlink = os.fork, os.readlink


def strike(call: str, path: str) -> bool:
    """Whether this call, about to be made, fails."""
    *counts, struck = _COUNTS.unpack_from(board)
    counts[ROLES.index(role)] += 1
    now = not struck and (role, counts[ROLES.index(role)]) == (case.get("role"), case.get("at"))
    _COUNTS.pack_into(board, 0, *counts, struck or now)
    if now:
        text = f"{role}: {call} {path}".encode()[:1000]
        board[100 : 100 + len(text)] = text
    return now or bool(struck and case.get("lasting"))


def failing(module: Any, name: str, path_of: Callable[..., str], kind: Callable[..., str] | None = None) -> None:
    real = getattr(module, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        what = kind(*args, **kwargs) if kind else name
        if what in reach:
            path = path_of(*args, **kwargs)
            if (everywhere or _on_state(path)) and strike(what, path):
                number = getattr(errno, case["errno"])
                raise OSError(number, os.strerror(number))
        return real(*args, **kwargs)

    setattr(module, name, call)


def _on_state(path: str) -> bool:
    return path == case["state"] or path.startswith(case["state"] + os.sep)


def _of_fd(fd: int, *_: Any, **__: Any) -> str:
    try:
        return real_readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return "?"


def _of_path(path: Any, *_: Any, **kwargs: Any) -> str:
    if isinstance(path, int):
        return _of_fd(path)
    below = kwargs.get("dir_fd") or kwargs.get("src_dir_fd")
    return os.path.join(_of_fd(below) if below is not None else os.getcwd(), os.fsdecode(path))


def _kind_of_open(_path: Any, flags: int = 0, *_: Any, **__: Any) -> str:
    if flags & os.O_CREAT:
        return "create"
    return "open" if flags & os.O_ACCMODE == os.O_RDONLY else "open for writing"


def _nothing(*_: Any, **__: Any) -> str:
    return ""


def _fork() -> int:
    global role
    pid = _fork_that_may_fail()
    if pid == 0:
        role = ROLES[min(ROLES.index(role) + 1, 2)]
    return pid


failing(os, "open", _of_path, _kind_of_open)
failing(builtins, "open", _of_path, lambda *_, **__: "open")
for name in ("mkdir", "link", "rename", "unlink", "chmod", "stat", "listdir"):
    failing(os, name, _of_path)
for name in ("write", "read", "pread", "fchmod", "fchown", "ftruncate"):
    failing(os, name, _of_fd)
for name in ("flock", "fcntl"):
    failing(fcntl, name, _of_fd)
failing(linux, "rename_special", lambda fd, old, *_: os.path.join(_of_fd(fd), old))
for module, name in (
    (os, "pipe2"),
    (os, "pidfd_open"),
    (os, "dup"),
    (os, "fork"),
    (socket, "socketpair"),
    (linux, "inotify_open"),
    (linux, "inotify_watch"),
):
    failing(module, name, _nothing)
_fork_that_may_fail = os.fork
os.fork = _fork


def live(told: dict[str, Any]) -> NoReturn:
    """In a fork: one hold, from its command line to its status."""
    global case, reach, everywhere
    status = 255
    try:
        with open(told["stderr"], "wb") as file:
            os.dup2(file.fileno(), 2)
        for name, limit in told.get("limits", {}).items():
            resource.setrlimit(getattr(resource, name), (limit, limit))
        case, everywhere = told, told.get("errno") in ANYWHERE
        reach = {**ON_STATE, **ANYWHERE}.get(told.get("errno", ""), set())
        status = main.main(told["argv"])
    finally:
        reach = set()
        sys.stderr.flush()
        os._exit(status)


def serve(told: dict[str, Any]) -> dict[str, Any]:
    board[:] = bytes(len(board))
    pid = real_fork()
    if pid == 0:
        live(told)
    _, waited = os.waitpid(pid, 0)
    *counts, _ = _COUNTS.unpack_from(board)
    return {
        "status": os.waitstatus_to_exitcode(waited),
        "calls": dict(zip(ROLES, counts, strict=True)),
        "hit": board[100:1200].rstrip(b"\0").decode(),
        "left": stragglers(),
    }


def stragglers() -> list[int]:
    """Orphans of the hold, which fall to us, that do not end by themselves; they are ended then."""
    deadline = time.monotonic() + PATIENCE
    left: list[int] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return left
        if pid == 0 and time.monotonic() > deadline:
            with open(f"/proc/self/task/{os.getpid()}/children") as file:
                orphans = [int(number) for number in file.read().split()]
            left += orphans
            for orphan in orphans:
                os.kill(orphan, signal.SIGKILL)  # an unreaped child of ours: the number is nobody else's
        if pid == 0:
            time.sleep(0.005)


if __name__ == "__main__":
    linux.become_subreaper()
    queue.locked.__wrapped__.__defaults__ = (0.2, None)  # type: ignore[attr-defined]  # in vain, it is waited for often
    for line in sys.stdin:
        print(json.dumps(serve(json.loads(line))), flush=True)
