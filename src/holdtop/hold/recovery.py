"""Freeing a ghost: a token whose hold is dead. Its leftovers end first, and only what is proven to be one.

Proven is: the recorded cgroup, the recorded (pid, start) and what is below it, of a record by the same author; or
this very run's nonce in the environment of a process of the author's own uid. Everything else may belong to somebody.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from signal import Signals

from holdtop.hold import receipt, record, stop
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir, Untrusted
from holdtop.hold.ticket import same_world
from holdtop.hold.view import Record, TicketFile
from holdtop.lean import dataclass, replace
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.custody import End, Fate, Left, Member, OtherHolds, Report
from holdtop.payload.ending import Bounds, Ending
from holdtop.payload.members import Scope, real_uid
from holdtop.payload.powers import with_powers_of
from holdtop.payload.process import Identity, Pinned, Stat, UnreadableProcess, is_alive, read_stat


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What became of a ghost's payload."""

    fates: tuple[Fate, ...] = ()
    left: tuple[Left, ...] = ()
    #: Recorded processes that live and are not ours to signal.
    not_ours: tuple[Identity, ...] = ()

    @property
    def denied(self) -> list[int]:
        """Pids of those that only others may end: while they run, the token stays."""
        tried = [entry.member.identity.pid for entry in self.left if entry.why == "not permitted"]
        return tried or [identity.pid for identity in self.not_ours]

    @property
    def unkillable(self) -> list[Left]:
        return [entry for entry in self.left if entry.why == "unkillable"]


def forget(queue: Dir, ghost: TicketFile, left: Leftovers) -> None:
    """Remove what a dead hold would have removed at its release, as far as it can be, and write its receipt.

    That one is never ``clean``: there was no subreaper whose word could prove it. A token's content may name
    anybody's ticket: only a dead one of the same nonce goes.
    """
    with contextlib.suppress(OSError, Untrusted):
        there = _ticket(queue, ghost.id)
        if there and not (there.dead and there.nonce == ghost.nonce):
            return
        queue.remove(ghost.id)
    record.remove(queue, ghost.id)
    stop.withdraw(queue, ghost.id)
    report = Report(End("recovered", None), None, left.fates, left.left, suspects=None)
    receipt.write(queue, ghost, report, released=True)


def run_mark(ticket: TicketFile) -> str:
    """The part of ``HOLDTOP_RUN`` by which this ticket's payload is known."""
    return f"{ticket.id}:{ticket.nonce}"


def may_end(ticket: TicketFile) -> bool:
    """Only the author of a ticket, and root in the author's place, may end what it names."""
    return os.geteuid() in (ticket.uid, 0)


def abandoned(queue: Dir) -> list[TicketFile]:
    """Tickets of dead holds that ran and whose token is gone: somebody removed, emptied or replaced it.

    Their payloads may live on, so they are not swept away like the ticket of a waiter that died.
    """
    return [ticket for ticket in ran(queue) if ticket.dead]


def ran(queue: Dir) -> list[TicketFile]:
    """Tickets with a record: their holds run, or have left somebody running, wherever their tokens are."""
    found = []
    for ticket_id in record.names(queue):
        with contextlib.suppress(OSError, Untrusted):
            if ticket := _ticket(queue, ticket_id):
                found.append(ticket)
    return found


def _ticket(queue: Dir, ticket_id: str) -> TicketFile | None:
    """A ticket that has run; by its record, if somebody has removed or replaced the file. Raises as ``tickets.parse``.

    A process of another account than the record's proves nothing.
    """
    try:
        return tickets.read(queue, ticket_id)
    except (FileNotFoundError, Untrusted):
        published = record.read(queue, ticket_id)
    if published is None:
        return None
    ticket = tickets.parse(published.lines.encode(), uid=published.uid, name=ticket_id, locked=False)
    if ticket.identity_alive and real_uid(ticket.pid) != ticket.uid:
        return replace(ticket, identity_alive=False)
    # A removed file shows no life lock; the keeper, who shared it, may live.
    keeper = published.keeper_pid and Identity(published.keeper_pid, published.keeper_start_ticks or 0)
    if keeper and same_world(ticket) and is_alive(keeper) is not False and real_uid(keeper.pid) == ticket.uid:
        return replace(ticket, locked=None)
    return ticket


def _believed(found: Record | None, ticket: TicketFile) -> Record | None:
    """The record, if it is this ticket's and its author is the ticket's.

    A pid and a start time mean nothing after a reboot, nor in another pid or time namespace.
    """
    same = found and (found.nonce, found.uid) == (ticket.nonce, ticket.uid) and same_world(ticket)
    return found if same else None


def recorded_identities(found: Record | None, ticket: TicketFile) -> tuple[Identity, ...]:
    """The processes that a believable record names."""
    believed = _believed(found, ticket)
    return tuple(Identity(one.pid, one.start_ticks) for one in believed.members) if believed else ()


def recorded_cgroups(found: Record | None, ticket: TicketFile) -> tuple[Cgroup, ...]:
    """The cgroups whose every process was the payload's, if they are the same still and the author's own.

    Whoever owns a cgroup's directory may kill what is in it: a record of that author asks for no more than that.
    """
    groups = []
    for said in believed.cgroups if (believed := _believed(found, ticket)) else ():
        with contextlib.suppress(OSError):
            group = Cgroup.at(said.path) if said.sole else None
            status = os.stat(group.directory) if group else None
            if group and status and (status.st_ino, status.st_uid) == (said.inode, ticket.uid):
                groups.append(group)
    return tuple(groups)


def grouped(found: Record | None, ticket: TicketFile) -> frozenset[int]:
    """Pids of all that is in those cgroups now."""
    return frozenset().union(*(group.procs() for group in recorded_cgroups(found, ticket)))


def keeper_of(published: Record | None, hold: Identity) -> Stat | None:
    """The inner process of a living hold, if what its record says is true: a child of the outer one."""
    with contextlib.suppress(UnreadableProcess):
        stat = read_stat(published.keeper_pid) if published and published.keeper_pid else None
        return stat if stat and stat.ppid == hold.pid and is_alive(hold) else None
    return None


def stopped(queue: Dir, holder: TicketFile) -> tuple[Identity, ...]:
    """The processes of a living hold, the outer first, when all are stopped and ours to signal; else none."""
    hold = Identity(holder.pid, holder.start_ticks)
    if not (holder.identity_alive and may_end(holder) and real_uid(hold.pid) == holder.uid):
        return ()
    with contextlib.suppress(UnreadableProcess):
        both = (read_stat(hold.pid), keeper_of(_believed(record.read(queue, holder.id), holder), hold))
        living = [stat for stat in both if stat]
        return tuple(stat.identity for stat in living) if all(stat.state == "T" for stat in living) else ()
    return ()


def signal_all(processes: Collection[Identity], signum: Signals) -> None:
    """To each that is still the same process."""
    for identity in processes:
        with contextlib.suppress(OSError, UnreadableProcess), Pinned(identity) as pinned:
            pinned.send(signum)


def end_leftovers(
    queue: Dir,
    ticket: TicketFile,
    bounds: Bounds,
    sleep: Callable[[float], None],
    other_holds: OtherHolds,
    progress: Callable[[Member, str], None] = lambda _member, _signal: None,
) -> Leftovers:
    """End what a dead hold left, as far as it is ours to end. ``sleep`` may raise to give up."""
    published = record.read(queue, ticket.id)
    known = recorded_identities(published, ticket)
    if not may_end(ticket):
        return Leftovers(not_ours=tuple(identity for identity in known if is_alive(identity) is not False))
    ours = tuple(identity for identity in known if real_uid(identity.pid) == ticket.uid)
    scope = Scope(
        _root(published, ticket),
        run_mark(ticket),
        ticket.uid,
        reaper=None,
        cgroups=recorded_cgroups(published, ticket),
        known=ours,
        recorded_session=believed.session if (believed := _believed(published, ticket)) else None,
    )
    fates, left, _ = Ending(scope, bounds, None, other_holds, ticket.uid, progress).run(sleep)
    for group in scope.cgroups:
        if group.ours:
            with_powers_of(ticket.uid, group.remove)
    others = tuple(i for i in known if i not in ours and is_alive(i) is not False)
    return Leftovers(fates, left, others)


def _root(published: Record | None, ticket: TicketFile) -> Identity:
    """The payload's root; without a record, the hold itself, which is older than all of its payload."""
    if published and published.root_pid and published.root_start_ticks is not None:
        return Identity(published.root_pid, published.root_start_ticks)
    return Identity(ticket.pid, ticket.start_ticks)
