"""Processes that outlived their token: announced to the next taker, and kept on record until each is dead.

Two files: the older shell tool's list, which the next taker of either kind prints and empties, and our own lasting
record, from which flags come.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Collection
from typing import Literal

from holdtop.errors import HoldtopError
from holdtop.hold.files import DIRECTORY_MODE, Dir, Untrusted, json_object
from holdtop.hold.logs import append
from holdtop.hold.record import parse_processes, say_processes
from holdtop.hold.ticket import TICKET_FORM, now
from holdtop.hold.view import RecordedProcess, SurvivorRecord, TicketFile
from holdtop.payload.custody import Left
from holdtop.payload.members import real_uid
from holdtop.payload.process import Identity, UnreadableProcess, is_alive, read_stat

SHELL_LIST = ".gpu-hold-survivors"
SURVIVORS = ".survivors"
#: What a taker does while a survivor of an earlier release lives: start with a warning, wait, or refuse.
Policy = Literal["warn", "wait", "refuse"]
#: By how much two readings of one start time may differ, in seconds.
ROUNDING = 2
#: The least difference of two time zones, in seconds.
ZONE_STEP = 15 * 60
_SHELL_LINE = re.compile(r"pid=([1-9][0-9]{0,9}) start=(.{0,64}?) cmd=(.*)")


def record(queue: Dir, ticket: TicketFile, left: Collection[Left]) -> None:
    """Write both files. What cannot be written is lost to the next taker, never to the release."""
    said = {
        "ticket": ticket.id,
        "lane": ticket.lane,
        "released_at": now(),
        "why": sorted({entry.why for entry in left}),
        "processes": say_processes(entry.member for entry in left),
    }
    with contextlib.suppress(OSError, HoldtopError), queue.sub(SURVIVORS, make=DIRECTORY_MODE) as survivors:
        survivors.replace(f"{ticket.id}.json", json.dumps(said).encode())
    lines = "".join(_shell_line(entry.member.identity, entry.member.name) + "\n" for entry in left)
    with contextlib.suppress(OSError, Untrusted):
        append(queue, SHELL_LIST, lines.encode("utf-8", "surrogateescape"))


def _shell_line(identity: Identity, name: str) -> str:
    command = _command_line(identity.pid) or name
    one_line = "".join(c if c.isprintable() else "?" for c in command)
    return f"pid={identity.pid} start={_started_at(identity)} cmd={one_line}"


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsdecode(file.read(4096).rstrip(b"\0").replace(b"\0", b" "))
    except OSError:
        return ""


def _started_at(identity: Identity) -> str:
    """The start time as ``ps -o lstart`` prints it; empty when the boot time cannot be read."""
    with contextlib.suppress(OSError, ValueError, OverflowError, StopIteration), open("/proc/stat", "rb") as file:
        boot = next(int(line.split()[1]) for line in file if line.startswith(b"btime "))
        return time.ctime(boot + identity.start_ticks / os.sysconf("SC_CLK_TCK"))
    return ""


def announce(queue: Dir) -> list[str]:
    """What the previous holders left, one warning each; empties the shell tool's list, as that tool does.

    Whoever lives on is announced from our own records as well: to every taker, not only to the first.
    """
    listed: list[str] = []
    with contextlib.suppress(OSError, Untrusted):
        data, _ = queue.read(SHELL_LIST, shared=True)
        listed = data.decode("utf-8", "surrogateescape").splitlines()[:100]
        fd = queue.open(SHELL_LIST, os.O_RDWR)
        os.ftruncate(fd, 0)
        os.close(fd)
    known = (process for record in lasting(queue) for process in record.processes)
    listed += (_shell_line(Identity(one.pid, one.start_ticks), one.name) for one in known)
    # One process, one warning: its command line may read otherwise by now.
    forms = {form.group(1, 2): form for form in map(_SHELL_LINE.fullmatch, listed) if form}
    return [
        f"::warning::previous holder left pid={pid} start={start} cmd={form[3]} - {_condition(int(pid), start)}"
        for (pid, start), form in forms.items()
    ]


def _condition(pid: int, start: str) -> str:
    """A record whose process is dead is said to be dead."""
    with contextlib.suppress(UnreadableProcess):
        stat = read_stat(pid)
        if stat is None or stat.dead or _surely_another(start, _started_at(stat.identity)):
            return "it is dead now"
    return "that device may still hold its memory"


def _surely_another(said: str, start: str) -> bool:
    """Whether two start times cannot be one process's. ``ps`` counts from the uptime, which may differ by a second,
    and in the writer's time zone: zones are whole quarters of an hour apart. What cannot be read proves nothing.
    """
    try:
        apart = abs(time.mktime(time.strptime(said)) - time.mktime(time.strptime(start))) % ZONE_STEP
    except (ValueError, OverflowError):
        return False
    return ROUNDING < apart < ZONE_STEP - ROUNDING


def lasting(queue: Dir) -> tuple[SurvivorRecord, ...]:
    """Our own records of which at least one process lives (or cannot be ruled out)."""
    found = []
    with contextlib.suppress(OSError, HoldtopError), queue.sub(SURVIVORS) as survivors:
        for ticket_id in _recorded(survivors):
            with contextlib.suppress(OSError, Untrusted):
                found.append(_parse(*survivors.read(f"{ticket_id}.json")))
    return tuple(record for record in found if record and record.processes)


def _parse(data: bytes, status: os.stat_result) -> SurvivorRecord | None:
    said = json_object(data)
    if said is None:
        return None
    living = [one for one in parse_processes(said.get("processes")) if _lives(one, status.st_uid)]
    why = said.get("why")
    return SurvivorRecord(
        ticket_id=str(said.get("ticket", "")),
        lane=str(said.get("lane", "")),
        uid=status.st_uid,
        released_at=str(said.get("released_at", "")),
        why=", ".join(map(str, why)) if isinstance(why, list) else "",
        processes=tuple(living),
    )


def _lives(process: RecordedProcess, author: int) -> bool:
    """Also when it cannot be known. A survivor of root's word may be anybody's, else only its author's own."""
    alive = is_alive(Identity(process.pid, process.start_ticks))
    return alive is not False and (author == 0 or real_uid(process.pid) in (author, None))


def described(found: Collection[SurvivorRecord]) -> str:
    """Who lives on, whose they were, and since when nobody holds for them: one clause for each record."""
    return "; ".join(
        f"pids {[one.pid for one in record.processes]} of lane {record.lane}, whose token went at {record.released_at}"
        for record in found
    )


def forget_dead(queue: Dir) -> None:
    """Remove our records of which every process is dead, as far as we may."""
    living = {record.ticket_id for record in lasting(queue)}
    with contextlib.suppress(OSError, HoldtopError), queue.sub(SURVIVORS) as survivors:
        for ticket_id in _recorded(survivors):
            if ticket_id not in living:
                survivors.remove(f"{ticket_id}.json")


def _recorded(survivors: Dir) -> list[str]:
    """Ids of the tickets that have a record."""
    ids = (name.removesuffix(".json") for name in sorted(survivors.names()) if name.endswith(".json"))
    return list(filter(TICKET_FORM.fullmatch, ids))
