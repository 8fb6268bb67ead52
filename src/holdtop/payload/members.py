"""Who belongs to a payload: its cgroup first, descent from a subreaper, then this run's own mark in the environment.

A mark alone is weak: others may inherit it. It counts only with this run's nonce, the hold's uid and a start
after the payload's. A process below which *another* live hold runs may serve others (a tmux server started inside
a hold does): such a detached branch is spared and named.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from itertools import chain

from holdtop.lean import dataclass, field
from holdtop.payload.cgroup import Cgroup, path_of
from holdtop.payload.custody import FoundBy, Left, LeftWhy, Member, OtherHolds, SeenCgroup
from holdtop.payload.process import (
    WANTS,
    Identity,
    ProcessTable,
    Stat,
    UnreadableProcess,
    ancestry,
    born,
    is_alive,
    own_stat,
    read_at_once,
    read_stat,
)

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
    own: frozenset[int] = frozenset()
    #: Made for this payload: every process in them is a member.
    cgroups: tuple[Cgroup, ...] = ()
    #: Members on record: they and whatever is below them are members.
    known: tuple[Identity, ...] = ()
    #: An operator's choice: members by themselves, without what is below them.
    chosen: tuple[Identity, ...] = ()
    #: Spared on request, with whatever is below them.
    kept: frozenset[Identity] = frozenset()
    #: The session in which the payload was started, as recorded: for when its root is dead and nobody is above it.
    recorded_session: int | None = None
    #: Paths of all other cgroups in which a member was ever seen. Grows with each look.
    wandered: set[str] = field(default_factory=set)

    def session(self, table: ProcessTable) -> int | None:
        """The session in which the payload was started; ``None`` when nobody of it is left to tell.

        The root shares it with the hold: a group's leader, which the root is, cannot leave (setsid(2)).
        """
        stat = table.stats.get(self.reaper or self.root.pid)
        return stat.session if stat and (self.reaper or stat.identity == self.root) else self.recorded_session

    def groups(self) -> list[Cgroup]:
        """Every cgroup that has to be empty in the end."""
        return [*self.cgroups, *filter(None, map(Cgroup.at, sorted(self.wandered)))]

    def seen(self, members: Collection[Member]) -> tuple[SeenCgroup, ...]:
        """The same, for the record; ``sole``: it holds members only."""
        pids = {member.identity.pid for member in members}
        found = []
        for group in self.groups():
            with contextlib.suppress(OSError):
                sole = group in self.cgroups or group.procs() <= pids
                found.append(SeenCgroup(group.path, group.inode(), sole))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Found:
    members: tuple[Member, ...]
    spared: tuple[Left, ...]
    table: ProcessTable
    #: Cgroups that hold members only: they may be killed in one step.
    sole: tuple[Cgroup, ...] = ()


def find(scope: Scope, other_holds: OtherHolds) -> Found:
    """One look. An empty answer is no proof: a fork chain can be faster than any scan."""
    listed = {group: group.procs() for group in scope.groups()}
    table = ProcessTable()
    mine = {os.getpid(), *scope.own, *table.ancestors(os.getpid())}
    ways: dict[int, FoundBy] = dict.fromkeys(_recorded(scope, table), "record")
    ways |= dict.fromkeys(table.descendants(scope.reaper) if scope.reaper else (), "descent")
    ways |= dict.fromkeys((pid for group in scope.cgroups for pid in listed[group] if pid in table.stats), "cgroup")
    inside = [pid for pid in ways if pid not in mine]
    spared = _spared(scope, table, inside, other_holds) if inside else {}
    living = [table.stats[pid] for pid in inside if not table.stats[pid].dead]
    members = [member(stat, ways[stat.pid]) for stat in living if stat.pid not in spared]
    members += [member(stat, "marker") for stat in _marked(scope, table, mine, inside, other_holds)]
    _remember(scope, members, set().union(*(listed[group] for group in scope.cgroups)))
    # Who died since the group was read is nobody's: of a fork chain there is always one.
    strangers = {pid for pid, stat in table.stats.items() if not stat.dead} - {one.identity.pid for one in members}
    sole = (
        group
        for group, pids in listed.items()
        if pids.isdisjoint(mine | strangers) and (group in scope.cgroups or not _hidden(pids, table))
    )
    return Found(
        tuple(members),
        tuple(Left(member(stat, ways[stat.pid]), spared[stat.pid]) for stat in living if stat.pid in spared),
        table,
        tuple(sole),
    )


def _hidden(pids: Collection[int], table: ProcessTable) -> bool:
    """Whether one of them lives and ``/proc`` does not show it: another account's, or outside of our pid namespace."""
    return any(is_alive(Identity(pid, 0)) is None for pid in pids if pid not in table.stats)


def alone(scope: Scope, inside: Collection[int], other_holds: OtherHolds) -> bool:
    """Whether a step may end all of these that asks nobody else: none is ourselves, another hold, or above one."""
    mine = {os.getpid(), *scope.own, *(above.pid for above in ancestry(own_stat()))}
    if not mine.isdisjoint(inside):
        return False
    holds, passed = other_holds(), set(mine)
    return not any(_leads_into(hold, inside, passed) and holds.proven(hold) for hold in {*holds.claimed} - mine)


def _leads_into(pid: int, inside: Collection[int], passed: set[int]) -> bool:
    """Whether the process or one above it is inside. ``passed``: of whom it is known that neither is; grows."""
    line: list[int] = []
    with contextlib.suppress(UnreadableProcess):
        stat = read_stat(pid)
        for one in chain((stat,), ancestry(stat)) if stat else ():
            if one.pid in passed:
                break
            if one.pid in inside:
                return True
            line.append(one.pid)
    passed.update(line)
    return False


def _recorded(scope: Scope, table: ProcessTable) -> Iterator[int]:
    """Members on record that are this very process still, and what those known have started since."""
    for identity in (*scope.known, *scope.chosen):
        stat = table.stats.get(identity.pid)
        if stat and stat.identity == identity:
            yield from (identity.pid, *(table.descendants(identity.pid) if identity in scope.known else ()))


def _remember(scope: Scope, members: Collection[Member], placed: Collection[int]) -> None:
    """Where members are that have left their place: the cgroups in which the hold itself lives do not count.

    ``placed``: pids that were listed in a cgroup that was made for them.
    """
    if scope.reaper is None:
        return
    home = (path_of(scope.reaper) or "/").rstrip("/") + "/"
    made = tuple(group.path.rstrip("/") + "/" for group in scope.cgroups)
    for path in filter(None, {path_of(pid) for pid in {one.identity.pid for one in members}.difference(placed)}):
        within = path.rstrip("/") + "/"
        if not home.startswith(within) and not within.startswith(made or ("\0",)):
            scope.wandered.add(path)


def real_uid(pid: int) -> int | None:
    """The real uid from ``/proc/PID/status`` (the owner of ``/proc/PID`` is root for undumpable processes)."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        status = read_at_once(f"/proc/{pid}/status")
        return int(status[status.index(b"\nUid:") + 5 :].split(None, 1)[0])
    return None


def member(stat: Stat, found_by: FoundBy) -> Member:
    return Member(stat.identity, stat.name, real_uid(stat.pid), found_by, stat.state)


def _marked(
    scope: Scope, table: ProcessTable, mine: Collection[int], inside: Collection[int], other_holds: OtherHolds
) -> Iterator[Stat]:
    """Processes that nothing better has found and that carry this run's mark.

    ``mine``: a hold above us is no other's, its payload we are as well.
    """
    known = {*mine, *inside}
    hits = [stat for stat in table.stats.values() if stat.pid not in known and _is_marked(scope, stat)]
    if not hits:
        return
    others = other_holds()
    for stat in hits:
        line = {stat.pid, *table.ancestors(stat.pid), *table.descendants(stat.pid)}
        if not any(others.among(line.difference(mine))):
            yield stat


def _is_marked(scope: Scope, stat: Stat) -> bool:
    return (
        stat.start_ticks >= scope.root.start_ticks
        and not stat.dead
        and has_mark(stat.pid, scope.run)
        and real_uid(stat.pid) == scope.uid
    )


def newborn(scope: Scope, found: Found, until: float, other_holds: OtherHolds) -> Iterator[Member]:
    """Members that start before ``until``, told while they live: a link of a fork chain is gone after a whole look."""
    spared = {left.member.identity.pid for left in found.spared}
    holds, mine = other_holds(), {*found.table.ancestors(os.getpid())}
    for stat in born(until):
        line = {stat.pid, *(above.pid for above in ancestry(stat))}
        theirs = not spared.isdisjoint(line - mine) or any(holds.among(line - mine))
        if not theirs and (scope.reaper in line or _is_marked(scope, stat)):
            yield member(stat, "descent" if scope.reaper in line else "marker")


def has_mark(pid: int, run: str) -> bool:
    """True when the environment that the process was started with names this run (of several: any of them)."""
    name = f"{RUN_MARK}=".encode()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            marks = (line for line in file.read(1 << 20).split(b"\0") if line.startswith(name))
            return any(not {*run.encode().split(b",")}.isdisjoint(mark[len(name) :].split(b",")) for mark in marks)
    except OSError as error:
        if error.errno in WANTS:
            raise
        return False


def _spared(scope: Scope, table: ProcessTable, inside: Collection[int], other_holds: OtherHolds) -> dict[int, LeftWhy]:
    """What is kept on request; and detached branches that carry another live hold, from their top down, with all below.

    Below the root itself, or left by it in its own session, a hold is part of the payload: it is asked to end like
    everybody else. Detached is what has a session of its own, as a server has. A server's fork that has executed
    nothing yet is the server: a TERM in it is written to the pipe that both read, and the server ends.
    """
    spared: dict[int, LeftWhy] = {}
    for pid in inside:
        if table.stats[pid].identity in scope.kept:
            spared |= dict.fromkeys((pid, *table.descendants(pid)), "kept")
    among = set(inside)
    for hold in other_holds().among(inside):
        branch = [hold, *(pid for pid in table.ancestors(hold) if pid in among)]
        if scope.root.pid not in branch and table.stats[branch[-1]].session != scope.session(table):
            forks = (pid for one in branch for pid in table.children.get(one, ()) if table.stats[pid].unexecuted)
            spared |= dict.fromkeys((*branch, *table.descendants(hold), *forks), "spared")
    return spared
