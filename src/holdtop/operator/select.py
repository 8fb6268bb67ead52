"""Finding what a person names: a ticket by its id, pid or lane, or an unambiguous part; and who a pid is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.errors import GoneError, RefusedError, UsageError
from holdtop.model.values import Process, Resource, Snapshot, Ticket

#: Flags whose pids an operator may end one by one.
ENDABLE = frozenset({"survivor", "unkillable", "stray"})
#: A part of an id shorter than this names nothing: a slip of the finger would.
SHORTEST_PART = 4


def tickets(snapshot: Snapshot) -> Iterator[Ticket]:
    """Every ticket of every resource, holders first."""
    for resource in snapshot.resources:
        if resource.holder:
            yield resource.holder
        yield from resource.waiting


def find_ticket(snapshot: Snapshot, named: str, *, evict: bool = False) -> str:
    """The id that is meant: a whole id, sequence number, pid or lane, or else a unique part at an id's either end.

    With ``evict`` also the exact name of an entry that is no ticket of ours, and a running ticket by its whole id
    alone. Raises ``GoneError`` when nothing is meant, ``UsageError`` when several are, ``RefusedError`` when the
    state could not be read or a running ticket is to be evicted by less than its id.
    """
    known = {ticket.id: ticket for ticket in tickets(snapshot)}
    names = {name for resource in snapshot.resources for name in _entries(resource)} if evict else set()
    if named in names or named in known:
        return named
    whole = [ticket_id for ticket_id, ticket in known.items() if named in _whole_names(ticket)]
    found = whole or [ticket_id for ticket_id in known if _is_part(named, ticket_id)]
    if len(found) > 1:
        raise UsageError(f"{named!r} could be {', '.join(sorted(found))}: name one")
    if not found:
        refuse_unread(snapshot)
        raise GoneError(f"no ticket {named!r} (ended, or mistyped); holdtop status lists them")
    if evict and known[found[0]].position == 0:
        raise RefusedError(f"ticket {found[0]} is running: to evict it, name it by its whole id")
    return found[0]


def refuse_unread(snapshot: Snapshot) -> None:
    """What could not be read is not gone. Raises ``RefusedError`` naming the path and why."""
    for resource in snapshot.resources:
        if resource.problems:
            raise RefusedError(f"the state of {resource.name} cannot be read: {resource.problems[0]}; nothing was done")


def _whole_names(ticket: Ticket) -> set[str]:
    """The lane, the pid, and the sequence number with its leading zeros and without."""
    names = {ticket.lane or "", str(ticket.pid)}
    if ticket.kind == "holdtop":
        sequence = ticket.id.partition("-")[0]
        names |= {sequence, sequence.lstrip("0")}
    return names - {""}


def _is_part(named: str, ticket_id: str) -> bool:
    return len(named) >= SHORTEST_PART and (ticket_id.startswith(named) or ticket_id.endswith(named))


def ticket_of(snapshot: Snapshot, ticket_id: str) -> Ticket:
    """The ticket of exactly this id. Raises ``GoneError``, or ``RefusedError`` where the state could not be read."""
    for ticket in tickets(snapshot):
        if ticket.id == ticket_id:
            return ticket
    refuse_unread(snapshot)
    raise GoneError(f"ticket {ticket_id} is already gone, nothing was done")


def resource_of(snapshot: Snapshot, name: str) -> Resource:
    """Raises ``GoneError``: no state of that resource was seen."""
    for resource in snapshot.resources:
        if resource.name == name:
            return resource
    refuse_unread(snapshot)
    raise GoneError(f"there is no state of resource {name!r} here, nothing was done")


def entry_resource(snapshot: Snapshot, name: str) -> Resource | None:
    """In whose queue an entry that is no ticket lies."""
    for resource in snapshot.resources:
        if name in _entries(resource):
            return resource
    return None


def _entries(resource: Resource) -> set[str]:
    return {entry.name for entry in resource.foreign} | {entry.name for entry in resource.not_tickets}


@dataclass(frozen=True, slots=True)
class Whose:
    """Where a pid was seen: in a ticket's payload (or as the hold itself), or as something flagged."""

    ticket: Ticket | None = None
    process: Process | None = None
    #: The flag's kind, and its resource, for a survivor or stray.
    flagged: str | None = None
    resource: str | None = None


def whose(snapshot: Snapshot, pid: int) -> Whose | None:
    """``None`` for a process that is neither in a payload, nor a hold, nor flagged."""
    for ticket in tickets(snapshot):
        members = ticket.payload.processes if ticket.payload else ()
        member = next((process for process in members if process.pid == pid), None)
        if member or pid in (ticket.pid, ticket.keeper_pid):
            return Whose(ticket, member, resource=ticket.resource)
    for flag in snapshot.flags:
        if pid in flag.pids and flag.kind in ENDABLE:
            seen = next((process for process in snapshot.leftovers if process.pid == pid), None)
            return Whose(None, seen, flag.kind, flag.resource)
    return None


def below(processes: tuple[Process, ...], pid: int) -> tuple[Process, ...]:
    """The process ``pid`` and everything below it, parents first, of a payload's processes."""
    kept: dict[int, Process] = {}
    for process in processes:
        if process.pid == pid or process.ppid in kept:
            kept[process.pid] = process
    return tuple(kept.values())
