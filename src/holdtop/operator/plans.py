"""Plans: what would be done, to whom, and what would not be touched. Nothing is changed, whatever is refused."""

from __future__ import annotations

import os
import stat

from holdtop.errors import GoneError, RefusedError, UsageError
from holdtop.hold.look import look
from holdtop.hold.places import resolve
from holdtop.hold.stop import user_name
from holdtop.model.values import Process, Snapshot, Ticket
from holdtop.operator import select
from holdtop.operator.actor import refuse_unless_heeded, refuse_unless_same
from holdtop.operator.deed import GRACE, seconds
from holdtop.operator.proof import (
    current_file,
    dead_hold,
    expected,
    members,
    refuse_claims,
    refuse_dead_or_untouchable,
    refuse_foreign_survivor,
    target,
)
from holdtop.operator.record import refusals
from holdtop.operator.remove import mark
from holdtop.operator.values import Plan, Target, Verb
from holdtop.payload.process import Identity
from holdtop.render import counted


def plan_kill(
    snapshot: Snapshot,
    ticket_id: str | None = None,
    *,
    pid: int | None = None,
    subtree: int | None = None,
    state_dir: str | None = None,
    dry_run: bool = False,
) -> Plan:
    """End a payload: by its ticket, or by a member's ``pid`` (then all of it is meant too); of ``subtree`` that
    process and what is below it alone; or one flagged survivor or stray by its ``pid``.

    Raises ``RefusedError`` (on record, unless ``dry_run``) or ``GoneError``.
    """
    named = subtree if subtree is not None else pid
    if ticket_id is None and named is None:
        raise UsageError("kill needs a ticket, or --pid, or --subtree")
    with refusals("kill", ticket_id or f"pid {named}", _resource(snapshot, ticket_id), state_dir, dry_run):
        if named is None:
            assert ticket_id is not None
            return _payload(snapshot, select.ticket_of(snapshot, ticket_id), state_dir)
        refuse_dead_or_untouchable(named)
        seen = select.whose(snapshot, named)
        if seen is None:
            select.refuse_unread(snapshot)
        if seen is None or (ticket_id and (seen.ticket is None or seen.ticket.id != ticket_id)):
            where = f"in the payload of {ticket_id}" if ticket_id else "in any payload, nor flagged"
            raise RefusedError(f"pid {named} is not {where}: it is none of holdtop's business")
        if seen.process:
            refuse_unless_same(Identity(seen.process.pid, seen.process.start_ticks))
        if seen.ticket is None:
            return _flagged(snapshot, seen, named, state_dir)
        if subtree is not None and seen.process and subtree != _root_pid(seen.ticket):
            return _part(seen.ticket, seen.process, state_dir)
        return _payload(snapshot, seen.ticket, state_dir)


def plan_evict(snapshot: Snapshot, ticket_id: str, *, state_dir: str | None = None, dry_run: bool = False) -> Plan:
    """Remove a waiting ticket or a foreign entry; a running ticket is asked to stop.

    Raises ``RefusedError`` (on record, unless ``dry_run``) or ``GoneError``.
    """
    with refusals("evict", ticket_id, _resource(snapshot, ticket_id), state_dir, dry_run):
        if holder := select.entry_resource(snapshot, ticket_id):
            return _entry(holder.name, ticket_id, state_dir)
        ticket = select.ticket_of(snapshot, ticket_id)
        view = look(resolve(ticket.resource, state_dir))
        if view.token and view.token.ticket_id == ticket_id:
            return _payload(snapshot, ticket, state_dir, verb="evict")
        file = current_file(view, ticket)
        waiting = Target(file.pid, file.start_ticks, file.uid, user_name(file.uid), "", ticket.command, "record", None)
        return Plan(
            verb="evict",
            resource=ticket.resource,
            ticket=file.id,
            nonce=file.nonce,
            lane=file.lane,
            how=f"its file is removed from {view.queue_path}; the waiting hold leaves by itself with status 120",
            targets=(waiting,),
            weak=(),
            spared=(f"the processes of ticket {file.id}: none is signalled", "the holder, and all other tickets"),
            expected_bytes=0,
            needs_typing=file.uid != os.getuid(),
            typed=file.id,
            means="remove",
            state_dir=state_dir,
            uid=file.uid,
        )


def plan_recover(snapshot: Snapshot, resource: str, *, state_dir: str | None = None, dry_run: bool = False) -> Plan:
    """Free a token whose hold is dead, or that cannot be read.

    Raises ``RefusedError`` (on record, unless ``dry_run``) or ``GoneError``.
    """
    from holdtop.operator.recover import plan  # the only one that judges tokens

    with refusals("recover", resource, resource, state_dir, dry_run):
        return plan(snapshot, resource, state_dir)


def _payload(snapshot: Snapshot, ticket: Ticket, state_dir: str | None, verb: Verb = "kill") -> Plan:
    """The whole payload of a running ticket, by asking its hold."""
    if ticket.kind == "shell":
        return _shell(ticket, state_dir, verb)
    view = look(resolve(ticket.resource, state_dir))
    file = current_file(view, ticket)
    if view.token is None or view.token.ticket_id != ticket.id:
        raise RefusedError(f"ticket {ticket.id} is waiting and has no payload: remove it with holdtop evict")
    if file.dead:
        raise GoneError(dead_hold(file))
    refuse_unless_heeded(file.uid, file.id)
    strong, weak, suspects = members(ticket)
    waiting = len(select.resource_of(snapshot, ticket.resource).waiting)
    return Plan(
        verb=verb,
        resource=ticket.resource,
        ticket=file.id,
        nonce=file.nonce,
        lane=file.lane,
        how=f"the hold (pid {file.pid}) is asked to end its whole payload and releases the token; "
        "only if it does not answer is it signalled",
        targets=strong,
        weak=weak,
        spared=(*suspects, f"every process outside this payload, and what waits for {ticket.resource} ({waiting})"),
        expected_bytes=expected((*strong, *weak)),
        needs_typing=file.uid != os.getuid(),
        typed=file.id,
        state_dir=state_dir,
        uid=file.uid,
        hold=(file.pid, file.start_ticks),
    )


def _shell(ticket: Ticket, state_dir: str | None, verb: Verb) -> Plan:
    """A hold of the older shell tool knows no stop requests: its process is signalled, its trap releases."""
    view = look(resolve(ticket.resource, state_dir))
    token = view.token
    if token is None and view.problems:
        raise RefusedError(f"the state cannot be read: {view.problems[0]}")
    if token is None or token.kind != "shell" or token.pid != ticket.pid or ticket.pid is None:
        raise GoneError(f"the shell holder of {ticket.resource} is already gone, nothing was done")
    refuse_dead_or_untouchable(ticket.pid)
    if ticket.start_ticks is None:
        raise RefusedError(f"pid {ticket.pid} could not be looked at: whether it is the holder cannot be known")
    refuse_unless_same(Identity(ticket.pid, ticket.start_ticks))
    if ticket.uid != token.uid:
        raise RefusedError(
            f"{view.token_path} was written by {user_name(token.uid)} and names pid {ticket.pid} of another "
            "account: a claim, no proof"
        )
    holder = Target(ticket.pid, ticket.start_ticks, ticket.uid, ticket.user, "", ticket.command, "record", None)
    strong, weak, suspects = members(ticket)
    targets = (holder, *(one for one in strong if one.pid != ticket.pid and one.uid == token.uid))
    return Plan(
        verb=verb,
        resource=ticket.resource,
        ticket=view.token_path,
        nonce=f"{token.device}:{token.inode}",
        lane=ticket.lane,
        how="the shell tool's process and its tree are signalled: TERM, and KILL after the grace",
        targets=targets,
        weak=(),
        spared=(*suspects, *(f"pid {one.pid} ({one.name}): only marked" for one in weak)),
        expected_bytes=expected(strong),
        needs_typing=token.uid != os.getuid() or not token.authored,
        typed=str(ticket.pid),
        means="signal",
        state_dir=state_dir,
        uid=token.uid,
        with_descendants=True,
    )


def _part(ticket: Ticket, process: Process, state_dir: str | None) -> Plan:
    """One process of a payload and what is below it; the rest, and the hold, go on."""
    assert ticket.payload is not None
    part = select.below(ticket.payload.processes, process.pid)
    refuse_claims(part, ticket)
    rest = len(ticket.payload.processes) - len(part)
    targets = tuple(map(target, part))
    return Plan(
        verb="kill",
        resource=ticket.resource,
        ticket=ticket.id,
        nonce=None,
        lane=ticket.lane,
        how=f"only pid {process.pid} and what is below it: TERM, and KILL after the grace; the hold goes on",
        targets=targets,
        weak=(),
        spared=(f"{counted(rest, 'other process', 'other processes')} of the payload, the hold and its token",),
        expected_bytes=expected(targets),
        needs_typing=process.uid != os.getuid(),
        typed=ticket.id,
        means="signal",
        state_dir=state_dir,
        uid=ticket.uid,
        with_descendants=True,
        grace=seconds(ticket.limits.get("grace"), GRACE),
    )


def _flagged(snapshot: Snapshot, seen: select.Whose, pid: int, state_dir: str | None) -> Plan:
    """One survivor or stray, and nothing below it."""
    process = seen.process
    if process is None or process.uid is None:
        raise RefusedError(f"pid {pid} is flagged ({seen.flagged}), but whose it is could not be read")
    resource = seen.resource or snapshot.resources[0].name
    if process.found_by == "record":
        refuse_foreign_survivor(process, look(resolve(resource, state_dir)))
    foreign = process.uid != os.getuid() or process.found_by == "device"
    return Plan(
        verb="kill",
        resource=resource,
        ticket=None,
        nonce=None,
        lane=None,
        how=f"this {seen.flagged} alone is signalled: TERM, and KILL after the grace",
        targets=(target(process),),
        weak=(),
        spared=("its children, its group, and every payload",),
        expected_bytes=target(process).device_bytes,
        needs_typing=foreign,
        typed=str(pid),
        means="signal",
        state_dir=state_dir,
        uid=process.uid,
    )


def _entry(resource: str, name: str, state_dir: str | None) -> Plan:
    """An entry of the queue that is no ticket of ours: exactly this file."""
    places = resolve(resource, state_dir)
    with places.open_queue() as queue:
        status = queue.status(name)
        if status is None:
            raise GoneError(f"{queue.of(name)} is already gone, nothing was done")
        if stat.S_ISDIR(status.st_mode):
            raise RefusedError(f"{queue.of(name)} is a directory: remove it by hand if it is not wanted")
    return Plan(
        verb="evict",
        resource=resource,
        ticket=name,
        nonce=mark(status),
        lane=None,
        how=f"exactly this entry is removed from {places.queue_path}; another tool's waiter leaves at its next poll",
        targets=(),
        weak=(),
        spared=("every process, and every other entry",),
        expected_bytes=0,
        needs_typing=status.st_uid != os.getuid(),
        typed=name,
        means="remove",
        state_dir=state_dir,
        uid=status.st_uid,
    )


def _root_pid(ticket: Ticket) -> int | None:
    return ticket.payload.root_pid if ticket.payload else None


def _resource(snapshot: Snapshot, named: str | None) -> str:
    """In whose audit a refusal goes: the named ticket's or entry's resource, else the first one."""
    entry = select.entry_resource(snapshot, named) if named else None
    found = [entry.name] if entry else [one.resource for one in select.tickets(snapshot) if one.id == named]
    return next(iter((*found, *(resource.name for resource in snapshot.resources))), "gpu")
