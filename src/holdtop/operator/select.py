"""Finding what a person names: a ticket by its id, an unambiguous part of it, or its lane; and who a pid is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.errors import GoneError, UsageError
from holdtop.model.values import Process, Resource, Snapshot, Ticket

#: Flags whose pids an operator may end one by one.
ENDABLE = frozenset({"survivor", "unkillable", "stray"})


def tickets(snapshot: Snapshot) -> Iterator[Ticket]:
    """Every ticket of every resource, holders first."""
    for resource in snapshot.resources:
        if resource.holder:
            yield resource.holder
        yield from resource.waiting


def find_ticket(snapshot: Snapshot, named: str, *, foreign: bool = False) -> str:
    """The id that is meant by an id, a unique prefix or suffix of one, or a unique lane.

    With ``foreign`` also the exact name of an entry that is no ticket of ours. Raises ``GoneError`` when nothing
    is meant, ``UsageError`` when several are.
    """
    known = [(ticket.id, ticket.lane) for ticket in tickets(snapshot)]
    names = {name for resource in snapshot.resources for name in _entries(resource)} if foreign else set()
    if named in names or any(named == ticket_id for ticket_id, _ in known):
        return named
    parts = {i for i, _ in known if named and (i.startswith(named) or i.endswith(named))}
    found = parts or {ticket_id for ticket_id, lane in known if lane == named}
    if len(found) > 1:
        raise UsageError(f"{named!r} could be {', '.join(sorted(found))}: name one")
    if not found:
        raise GoneError(f"there is no ticket {named!r}: already gone, nothing was done")
    return found.pop()


def ticket_of(snapshot: Snapshot, ticket_id: str) -> Ticket:
    """The ticket of exactly this id. Raises ``GoneError``."""
    for ticket in tickets(snapshot):
        if ticket.id == ticket_id:
            return ticket
    raise GoneError(f"ticket {ticket_id} is already gone, nothing was done")


def resource_of(snapshot: Snapshot, name: str) -> Resource:
    """Raises ``GoneError``: no state of that resource was seen."""
    for resource in snapshot.resources:
        if resource.name == name:
            return resource
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
