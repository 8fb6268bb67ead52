"""Which ``gpu-hold`` and ``npu-hold`` each account would run, and where that copy looks for the state.

Nothing is run to find out: a copy is read as the account that would run it, and judged by its text. One that does not
name the shared directory goes on queueing in its home when everybody else has left it.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from typing import Literal

from holdtop.errors import HoldError
from holdtop.host.accounts import Account
from holdtop.lean import dataclass
from holdtop.payload.members import real_uid
from holdtop.payload.powers import with_powers_of
from holdtop.payload.process import scan

NAMES = ("gpu-hold", "npu-hold")
#: Below a home, where login shells of the common systems put programs first.
OWN_DIRECTORIES = (".local/bin", "bin")
SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
#: A tool is not read beyond this, in bytes; nor a process's environment.
SIZE_LIMIT = 1 << 20

_RUNS = r"exec\s+(\S*holdtop|\S*python[0-9.]*\s+(-[A-Za-z]+\s+)*-m\s+holdtop)\s+run\b"
_OURS = re.compile(rf"^(?!\s*#)(.*\bholdtop\.cli\.main\b|\s*{_RUNS})", re.MULTILINE)
_HOME = re.compile(r"(HOME\b|~/)")


#: ``ours``: holdtop's own. ``fleet``: another's, which names the shared directory. ``home``: it knows the home only.
#: ``unknown``: its text does not tell, or could not be read.
Resolves = Literal["ours", "fleet", "home", "unknown"]


@dataclass(frozen=True, slots=True)
class Tool:
    account: Account
    name: str
    path: str
    resolves: Resolves

    @property
    def stale(self) -> bool:
        """Whether it may queue where the others do not."""
        return self.resolves in ("home", "unknown")

    @property
    def said(self) -> str:
        where = {
            "ours": "by holdtop's own rule",
            "fleet": "in the shared directory, as its text says",
            "home": "in its account's home only",
            "unknown": "nobody can tell where",
        }[self.resolves]
        return f"{self.path}, which {self.account.name} would run, looks for the state {where}"


def tools(account: Account, state_dir: str) -> list[Tool]:
    """Each copy that this account would run: by its usual path, and by those of its processes that can be read."""
    return [
        Tool(account, os.path.basename(path), path, _read(account, path, state_dir)) for path in sorted(copies(account))
    ]


def copies(account: Account) -> set[str]:
    """Paths of all that it might run under these names."""
    found: set[str] = set()
    own = [os.path.join(account.home, name) for name in OWN_DIRECTORIES]
    for name in NAMES:
        found.update(path for one in own if os.path.lexists(path := os.path.join(one, name)))
        for directories in ((*own, *SYSTEM_PATH), *paths_of(account.uid)):
            candidates = (os.path.join(one, name) for one in directories if os.path.isabs(one))
            if first := next(filter(_runnable, candidates), None):
                found.add(first)
    return found


def _runnable(path: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        mode = os.stat(path).st_mode
        return stat.S_ISREG(mode) and bool(mode & 0o111)
    return False


def paths_of(uid: int) -> set[tuple[str, ...]]:
    """The search paths of an account's live processes, as far as their environments may be read."""
    return {
        tuple(value.split(":"))
        for pid in scan()
        if real_uid(pid) == uid
        for name, value in environment(pid)
        if name == "PATH"
    }


def environment(pid: int) -> Iterator[tuple[str, str]]:
    """The variables a process was started with (proc_pid_environ(5)); none when they may not be read."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        for entry in file.read(SIZE_LIMIT).split(b"\0"):
            name, equals, value = os.fsdecode(entry).partition("=")
            if equals:
                yield name, value


def _read(account: Account, path: str, state_dir: str) -> Resolves:
    try:
        return with_powers_of(account.uid, lambda: resolves(path, state_dir))
    except (OSError, HoldError):
        return "unknown"


def resolves(path: str, state_dir: str) -> Resolves:
    """Where the copy of that path looks for the state, by its text. Raises ``OSError``."""
    text = _text(path)
    if _OURS.search(text):
        return "ours"
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if state_dir in code:
        return "fleet"
    return "home" if _HOME.search(code) else "unknown"


def text_of(account: Account, path: str) -> str:
    """The script, as that account can read it; empty for what is no file. Raises ``OSError`` and ``HoldError``."""
    return with_powers_of(account.uid, lambda: _text(path))


def _text(path: str) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return file.read(SIZE_LIMIT).decode("utf-8", "replace")
