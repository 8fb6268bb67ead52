"""The process table: identity, tree, CPU and RSS of all processes in one cheap pass, the rest of those shown.

The pass reads ``/proc/PID/stat`` alone and parses it as if an enemy had written the name in it. Command lines and
accounts come from psutil, of the few processes that are shown.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping

import psutil

from holdtop.model.raw import Details, Stat, Table
from holdtop.sources.files import listing, read, read_long, read_text

#: ``PF_KTHREAD`` of the kernel's sched.h.
_KERNEL_THREAD = 0x00200000
#: Of the largest number that the kernel writes there.
_DIGITS = 20
#: The inode of the initial user namespace (include/linux/proc_ns.h).
_INITIAL_USERNS = 0xEFFFFFFD
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: psutil's root is a variable of its module: one root at a time.
_psutil_root = threading.Lock()


def parse_stat(raw: bytes) -> Stat:
    """One stat line. The name may hold anything, ``)`` and newlines too: the last ``)`` ends it.

    Raises ``ValueError`` when it is none.
    """
    opening, closing = raw.index(b"("), raw.rindex(b")")
    rest = raw[closing + 1 :].split()
    if len(rest) < 22 or len(rest[0]) != 1 or len(max(rest, key=len)) > _DIGITS:
        raise ValueError("no line of the kernel's")
    return Stat(
        pid=int(raw[:opening]),
        ppid=int(rest[1]),
        session=int(rest[3]),
        name=os.fsdecode(raw[opening + 1 : closing]),
        state=rest[0].decode("ascii"),
        threads=int(rest[17]),
        start_ticks=int(rest[19]),
        cpu_ticks=int(rest[11]) + int(rest[12]),
        rss_bytes=max(0, int(rest[21])) * _PAGE,
        kernel=bool(int(rest[6]) & _KERNEL_THREAD),
    )


def read_stat(proc: str, pid: int) -> Stat | None:
    """``None`` when the process is gone, hidden, or its line makes no sense."""
    try:
        stat = parse_stat(read(f"{proc}/{pid}/stat"))
    except OSError:
        return None if proc == "/proc" else _recorded(proc, pid)
    except ValueError:
        return None
    return stat if stat.pid == pid else None


def _recorded(proc: str, pid: int) -> Stat | None:
    """A recorded process without a stat line: its pid is known, and its name if that was kept."""
    if not os.path.isdir(f"{proc}/{pid}"):
        return None
    return Stat(pid, 0, 0, read_text(f"{proc}/{pid}/comm") or "?", "?", 1, 0, None, None)


def scan(proc: str) -> Table:
    """Every process that can be seen. One that ends meanwhile is simply missing."""
    found = (read_stat(proc, int(name)) for name in listing(proc) if name.isascii() and name.isdecimal())
    stats = {stat.pid: stat for stat in found if stat}
    return Table(stats, time.monotonic())


def hides_others() -> bool:
    """Whether processes of other accounts do not show themselves in ``/proc`` (``hidepid=2``, proc(5))."""
    if os.geteuid() == 0 and os.stat("/proc/self/ns/user").st_ino == _INITIAL_USERNS:
        return False  # root of another user namespace is nobody in this one
    options: list[str] = []
    for line in os.fsdecode(read_long("/proc/self/mountinfo")).splitlines():
        mount, _, rest = line.partition(" - ")
        if mount.split(" ")[4:5] == ["/proc"] and rest.startswith("proc "):
            options = rest.rpartition(" ")[2].split(",")  # the last one lies over the others
    given = dict(option.partition("=")[::2] for option in options)
    exempt = given.get("gid", "0")
    if exempt.isdecimal() and int(exempt) in os.getgroups() and exempt != "0":
        return False
    return given.get("hidepid", "0") in ("2", "4", "invisible", "ptraceable")


def details(proc: str, wanted: Iterable[tuple[int, int]]) -> Mapping[tuple[int, int], Details]:
    """Command line and account of those of the wanted (pid, start ticks) that are still the same process."""
    found: dict[tuple[int, int], Details] = {}
    with _psutil_root:
        psutil.PROCFS_PATH = proc
        for identity in wanted:
            said = _details(identity[0])
            stat = read_stat(proc, identity[0])
            if stat is not None and stat.identity == identity:
                found[identity] = said
    return found


def _details(pid: int) -> Details:
    command: tuple[str, ...] = ()
    uid: int | None = None
    with contextlib.suppress(psutil.Error, OSError, ValueError, IndexError, AttributeError):
        process = psutil.Process(pid)
        with contextlib.suppress(psutil.Error, OSError):
            command = tuple(process.cmdline())
        uid = process.uids().real
    return Details(command, uid, user_name(uid))


def user_name(uid: int | None) -> str | None:
    """The account's name; ``None`` when it has none. May ask a directory service, so never on a caller's thread."""
    import pwd

    if uid is None:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except (KeyError, OverflowError):
        return None
