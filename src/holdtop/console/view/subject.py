"""What the keys act on: a ticket of a queue, or a flag with the processes it names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.model.values import Flag, Process, Resource, Snapshot, Ticket


@dataclass(frozen=True, slots=True)
class TicketKey:
    """A ticket's identity: it stays selected while rows move."""

    resource: str
    id: str


@dataclass(frozen=True, slots=True)
class FlagKey:
    kind: str
    resource: str | None
    ticket: str | None
    pids: tuple[int, ...]
    about: str | None = None


Subject = TicketKey | FlagKey


@dataclass(frozen=True, slots=True)
class Entry:
    """Something in a queue that is no ticket of ours, or none to be believed: shown apart, evicted by name."""

    resource: str
    id: str
    pid: int | None
    why: str


def ticket_key(ticket: Ticket) -> TicketKey:
    return TicketKey(ticket.resource, ticket.id)


def entry_key(entry: Entry) -> TicketKey:
    return TicketKey(entry.resource, entry.id)


def flag_key(flag: Flag) -> FlagKey:
    return FlagKey(flag.kind, flag.resource, flag.ticket, flag.pids, flag.about)


def tickets(snapshot: Snapshot) -> Iterator[Ticket]:
    """All tickets, each resource's holder first."""
    for resource in snapshot.resources:
        if resource.holder is not None:
            yield resource.holder
        yield from resource.waiting


def entries(snapshot: Snapshot) -> Iterator[Entry]:
    for resource in snapshot.resources:
        for foreign in resource.foreign:
            yield Entry(resource.name, foreign.name, foreign.pid, f"another tool's: {foreign.why}")
        for entry in resource.not_tickets:
            yield Entry(resource.name, entry.name, None, f"not believed: {entry.why}")


def find_entry(snapshot: Snapshot, subject: Subject | None) -> Entry | None:
    return next((entry for entry in entries(snapshot) if entry_key(entry) == subject), None)


def find_ticket(snapshot: Snapshot, subject: Subject | None) -> Ticket | None:
    """The ticket that is meant: a flag means the one it names, while that exists."""
    if subject is None:
        return None
    wanted = subject.id if isinstance(subject, TicketKey) else subject.ticket
    for ticket in tickets(snapshot):
        if ticket.id == wanted and subject.resource in (None, ticket.resource):
            return ticket
    return None


def find_resource(snapshot: Snapshot, subject: Subject | None) -> Resource | None:
    for resource in snapshot.resources:
        if subject is not None and resource.name == subject.resource:
            return resource
    return None


def find_flag(snapshot: Snapshot, subject: Subject | None) -> Flag | None:
    for flag in snapshot.flags:
        if flag_key(flag) == subject:
            return flag
    return None


def processes(snapshot: Snapshot, subject: Subject | None) -> tuple[Process, ...]:
    """The processes behind the subject: its payload, or the survivors and strays that the flag names."""
    if isinstance(subject, FlagKey) and subject.pids:
        named = set(subject.pids)
        if left := tuple(process for process in snapshot.leftovers if process.pid in named):
            return left
    ticket = find_ticket(snapshot, subject)
    return ticket.payload.processes if ticket is not None and ticket.payload is not None else ()


def ghost_of(snapshot: Snapshot, subject: Subject | None) -> str | None:
    """The resource whose ghost is meant: by its flag, or by the ticket that a dead hold has left in the token."""
    if isinstance(subject, FlagKey):
        return subject.resource if subject.kind == "ghost" else None
    resource, ticket = find_resource(snapshot, subject), find_ticket(snapshot, subject)
    ghost = resource is not None and resource.state == "ghost" and ticket is not None and ticket.position == 0
    return resource.name if resource is not None and ghost else None
