"""Who belongs to a payload: descent from a subreaper first, then this run's own mark in the environment.

A mark alone is weak: others may inherit it. It counts only with this run's nonce, the hold's uid and a start
after the payload's. A process below which *another* live hold runs may serve others (a tmux server started inside
a hold does): such a detached branch is spared and named.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from holdtop.payload.custody import Member
from holdtop.payload.process import Identity, ProcessTable, Stat, is_alive

RUN_MARK = "HOLDTOP_RUN"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where to look for a payload's members."""

    #: The payload's root; its start time bounds what a mark may claim.
    root: Identity
    #: Ids and nonces of this run's tickets, as in the payload's ``HOLDTOP_RUN``: ``ID:NONCE[,ID:NONCE]``.
    run: str
    #: The hold's uid.
    uid: int
    #: A subreaper above the payload: everything below it is the payload. ``None`` when there is none any more.
    reaper: int | None
    #: Processes of the hold itself, never members.
    own: frozenset[int] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class Found:
    members: tuple[Member, ...]
    spared: tuple[Member, ...]
    table: ProcessTable


def find(scope: Scope, other_holds: Callable[[], Collection[int]]) -> Found:
    """One look. An empty answer is no proof: a fork chain can be faster than any scan."""
    table = ProcessTable()
    descent = [] if scope.reaper is None else [p for p in table.descendants(scope.reaper) if p not in scope.own]
    spared = _spared(scope, table, descent, other_holds) if descent else frozenset()
    found = [_member(table.stats[pid], "descent") for pid in descent if not table.stats[pid].dead]
    found += [_member(stat, "marker") for stat in _marked(scope, table, frozenset(descent), other_holds)]
    return Found(
        tuple(member for member in found if member.identity.pid not in spared),
        tuple(member for member in found if member.identity.pid in spared),
        table,
    )


def recorded(identities: Collection[Identity], table: ProcessTable) -> tuple[Member, ...]:
    """Those of a record's processes that are this very process still, and alive."""
    stats = (table.stats.get(identity.pid) for identity in identities if is_alive(identity))
    return tuple(_member(stat, "record") for stat in stats if stat and stat.identity in identities)


def real_uid(pid: int) -> int | None:
    """The real uid from ``/proc/PID/status`` (the owner of ``/proc/PID`` is root for undumpable processes)."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return None


def _member(stat: Stat, found_by: str) -> Member:
    return Member(stat.identity, stat.name, real_uid(stat.pid), found_by, stat.state)  # type: ignore[arg-type]


def _marked(
    scope: Scope, table: ProcessTable, descent: frozenset[int], other_holds: Callable[[], Collection[int]]
) -> Iterator[Stat]:
    """Processes outside the descent that carry this run's mark."""
    mine = {os.getpid(), *scope.own, *table.ancestors(os.getpid())}
    hits = [
        stat
        for stat in table.stats.values()
        if stat.start_ticks >= scope.root.start_ticks
        and stat.pid not in descent
        and stat.pid not in mine
        and not stat.dead
        and has_mark(stat.pid, scope.run)
        and real_uid(stat.pid) == scope.uid
    ]
    if not hits:
        return
    others = set(other_holds())
    for stat in hits:
        if not others.intersection((stat.pid, *table.ancestors(stat.pid), *table.descendants(stat.pid))):
            yield stat


def has_mark(pid: int, run: str) -> bool:
    """True when the environment that the process was started with names this run (of several: any of them)."""
    name = f"{RUN_MARK}=".encode()
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        marks = (line for line in file.read(1 << 20).split(b"\0") if line.startswith(name))
        return any(not {*run.encode().split(b",")}.isdisjoint(mark[len(name) :].split(b",")) for mark in marks)
    return False


def _spared(
    scope: Scope, table: ProcessTable, descent: list[int], other_holds: Callable[[], Collection[int]]
) -> frozenset[int]:
    """Detached branches that carry another live hold, from their top down to it, and all below it.

    Below the root itself a hold is part of the payload: it is asked to end like everybody else.
    """
    below = set(descent)
    spared: set[int] = set()
    for hold in below.intersection(other_holds()):
        branch = [hold, *(pid for pid in table.ancestors(hold) if pid in below)]
        if scope.root.pid not in branch:
            spared.update(branch, table.descendants(hold))
    return frozenset(spared)
