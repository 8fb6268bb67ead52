"""One resource: its token's state, its holder with the payload, and who waits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdtop.hold.view import QueueView, Record, RecordedProcess, TicketFile, TokenFile
from holdtop.model import clock, trees
from holdtop.model.attribution import together, total
from holdtop.model.facts import Facts
from holdtop.model.raw import Look, Stat
from holdtop.model.values import (
    Foreign,
    FoundBy,
    NotTicket,
    Payload,
    Pool,
    Process,
    Resource,
    ResourceState,
    Ticket,
    TicketState,
)

#: As nearly all commands are; to split by the shell's rules takes thirty times as long.
_UNQUOTED = re.compile(r"[\w@%+=:,./-]+(?: [\w@%+=:,./-]+)*", re.ASCII)
#: A stamp may lie this many seconds ahead of our clock, or before the process it belongs to, and be believed.
CLOCK_SLACK = 2.0


@dataclass(frozen=True, slots=True)
class Seen:
    """A resource, with what it was made from."""

    resource: Resource
    look: Look
    #: The pids of the token's payload, and of any live hold's that lost its token.
    payload: frozenset[int] = frozenset()
    #: The hold's own processes.
    own: frozenset[int] = frozenset()

    @property
    def view(self) -> QueueView | None:
        return self.look.view


@dataclass(frozen=True, slots=True)
class Company:
    """The processes of a resource's holder."""

    #: The ticket behind the token, and what its hold says; ``None`` for a shell's, and for nobody's.
    ticket: TicketFile | None
    record: Record | None
    members: Mapping[int, FoundBy]
    #: The hold's own.
    own: frozenset[int]

    @classmethod
    def of(cls, view: QueueView, facts: Facts) -> Company:
        held = holder_ticket(view)
        if held is not None:
            record = trees.believed(held, view.records)
            members = trees.members(held, record, facts.forest, view.grouped.get(held.id, ()))
            return cls(held, record, members, trees.hold_pids(held, record, facts.forest))
        token = view.token
        if token and token.kind == "shell" and token.pid and token.pid in facts.forest.stats:
            own = frozenset({token.pid})
            return cls(None, None, dict.fromkeys(facts.forest.below(own), "descent"), own)
        return cls(None, None, {}, frozenset())


def pids_of(look: Look, facts: Facts) -> set[int]:
    """Who is shown of a resource: its payloads, survivors, and a shell that holds: of a hold of ours, its file says."""
    if look.view is None:
        return set()
    company = Company.of(look.view, facts)
    shell = company.own if company.ticket is None else frozenset()
    recorded = (process for left in look.view.survivors for process in left.processes)
    outlived = (one.pid for one in recorded if facts.forest.alive(one.pid, one.start_ticks))
    return {*company.members, *shell, *_without_token(look.view, company.ticket, facts), *outlived}


def see(look: Look, facts: Facts) -> Seen:
    view = look.view
    if view is None:
        why = look.problem or facts.raw.looks_why or "its state has not been read"
        rule = "variables" if look.half_named else "home"
        return Seen(Resource(look.resource, "", "", rule, "unknown", None, (), (), (), None, (why,)), look)  # type: ignore[arg-type]
    company = Company.of(view, facts)
    held, record, members = company.ticket, company.record, company.members
    known = facts.raw.table is not None and (members or record)
    payload = _payload(members, record, facts) if known else None
    late = (facts.raw.looks_why,) if facts.raw.looks_why else ()
    resource = Resource(
        name=view.resource,
        queue_path=view.queue_path,
        token_path=view.token_path,
        rule=view.rule,
        state="unknown" if late else _state(view, record, facts),
        holder=_holder(view, held, record, payload, facts),
        waiting=tuple(_waiting(view, held, facts)),
        foreign=tuple(Foreign(entry.name, entry.pid, entry.why) for entry in view.entries if entry.foreign),
        not_tickets=(
            *(NotTicket(entry.name, entry.why) for entry in view.entries if not entry.foreign),
            *(NotTicket(t.id, "its hold is dead") for t in view.tickets if t.dead and t is not held),
        ),
        last_receipt=view.last_receipt,
        problems=(*view.problems, *late),
        receipts=view.receipts,
    )
    return Seen(resource, look, frozenset(members) | _without_token(view, held, facts), company.own)


def _without_token(view: QueueView, held: TicketFile | None, facts: Facts) -> frozenset[int]:
    """The payloads of live holds whose token is gone or another's: flagged as that, and no strays."""
    found: set[int] = set()
    for ticket in view.tickets:
        record = trees.believed(ticket, view.records)
        if ticket is not held and ticket.locked and record is not None:
            found.update(trees.members(ticket, record, facts.forest, view.grouped.get(ticket.id, ())))
    return frozenset(found)


def holder_ticket(view: QueueView) -> TicketFile | None:
    """The ticket behind the token: the queue's file, which has its life lock, else the token's own copy."""
    token = view.token
    if token is None or token.ticket is None:
        return None
    return next((t for t in view.tickets if t.id == token.ticket_id and t.nonce == token.nonce), token.ticket)


def shell_ghost(token: TokenFile, facts: Facts) -> bool:
    """A shell's token whose pid is gone for certain: in the initial pid namespace, with nothing on the device."""
    table, uses = facts.raw.table, facts.raw.uses
    return bool(
        token.kind == "shell"
        and facts.raw.initial_pidns
        and table is not None
        and 1 in table.stats  # nothing is hidden from us
        and token.pid not in table.stats
        and uses is not None
        and not uses.denied
        and not any(not held.whole or held.least_bytes for held in facts.held.values())
    )


def _state(view: QueueView, record: Record | None, facts: Facts) -> ResourceState:
    token = view.token
    if token is None:
        return "unknown" if view.problems else "free"
    if token.ghost or shell_ghost(token, facts):
        return "ghost"
    if record is not None and record.state == "ending":
        return "ending"
    if token.kind == "holdtop" and token.locked is not True and token.ticket and token.ticket.identity_alive is None:
        return "unknown"  # of another host or namespace: neither alive nor dead can be said
    return "held"


def _payload(members: Mapping[int, FoundBy], record: Record | None, facts: Facts) -> Payload:
    said: dict[tuple[int, int], RecordedProcess] = (
        {(process.pid, process.start_ticks): process for process in record.members} if record else {}
    )
    processes = tuple(
        facts.process(pid, found_by, said.get(facts.forest.stats[pid].identity)) for pid, found_by in members.items()
    )
    root = record.root_pid if record and record.root_pid in members else next(iter(members), None)
    quoted = any(process.memory_source == "record" for process in processes)
    return Payload(
        root_pid=root,
        process_count=len(processes),
        rss_bytes=total(process.rss_bytes for process in processes),
        gtt_bytes=_together(processes, "gtt", facts),
        vram_bytes=_together(processes, "vram", facts),
        source="record" if quoted else "read",
        processes=processes,
        said_at=record.at if record and quoted else None,
    )


def _together(processes: Collection[Process], pool: Pool, facts: Facts) -> int | None:
    """Of all of them, buffers that they share once as far as they were looked into."""
    quoted = [process.held(pool) for process in processes if process.memory_source == "record"]
    read = [process for process in processes if process.memory_source != "record"]
    claimed = total(quoted)
    if claimed is None or total(process.held(pool) for process in read) is None:
        return None
    clients = [one for process in read if process.pid in facts.held for one in facts.held[process.pid].clients]
    return claimed + together(clients, pool)[0]


def _holder(
    view: QueueView, held: TicketFile | None, record: Record | None, payload: Payload | None, facts: Facts
) -> Ticket | None:
    token, now = view.token, facts.raw.taken_at
    if token is None or token.kind == "garbled":
        return None
    taken_at = (record.taken_at if record else None) or token.taken_at
    # A shell's token says no start time: as far as anybody knows, the process of that number took it.
    stats = facts.forest.stats
    holder = facts.forest.alive(held.pid, held.start_ticks) if held else stats.get(token.pid) if token.pid else None
    held_seconds = plausible_age(clock.since(taken_at, now), holder, facts)
    if held is None:
        return _shell_ticket(view, token, held_seconds, payload, facts)
    return _ticket(
        view, held, facts, position=0,
        state=record.state if record else "running",
        keeper_pid=record.keeper_pid if record else None,
        held_seconds=held_seconds,
        deadline_at=record.deadline_at if record else None,
        limits=record.limits if record and record.limits else held.limits,
        containment=record.containment if record else (),
        log_path=record.log if record else None,
        payload=payload,
    )  # fmt: skip


def _shell_ticket(
    view: QueueView, token: TokenFile, held_seconds: float | None, payload: Payload | None, facts: Facts
) -> Ticket:
    """What a shell's token leaves out, from the process that it names: start, account and command are that one's."""
    stat = facts.forest.stats.get(token.pid) if token.pid else None
    seen = facts.process(stat.pid, "record") if stat else None
    return Ticket(
        id=view.token_path,
        resource=view.resource,
        kind="shell",
        lane=token.lane,
        pid=token.pid,
        keeper_pid=None,
        start_ticks=seen.start_ticks if seen else None,
        uid=seen.uid if seen else token.uid,
        user=seen.user if seen else facts.raw.users.get(token.uid),
        command=seen.command if seen else (),
        cwd=None,
        queued_at=None,
        position=0,
        waited_seconds=None,
        held_seconds=held_seconds,
        deadline_at=None,
        state="running",
        payload=payload,
    )


def _waiting(view: QueueView, held: TicketFile | None, facts: Facts) -> list[Ticket]:
    queue = [ticket for ticket in view.tickets if ticket is not held and not ticket.dead]
    return [_ticket(view, ticket, facts, position=place) for place, ticket in enumerate(queue, 1)]


def _ticket(
    view: QueueView,
    ticket: TicketFile,
    facts: Facts,
    *,
    position: int,
    state: TicketState = "waiting",
    keeper_pid: int | None = None,
    held_seconds: float | None = None,
    deadline_at: str | None = None,
    limits: Mapping[str, str] | None = None,
    containment: tuple[str, ...] = (),
    log_path: str | None = None,
    payload: Payload | None = None,
) -> Ticket:
    alive = facts.forest.alive(ticket.pid, ticket.start_ticks)
    since_queued = plausible_age(clock.since(ticket.queued_at, facts.raw.taken_at), alive, facts)
    waited = since_queued
    if position == 0 and since_queued is not None:
        waited = max(0.0, since_queued - held_seconds) if held_seconds is not None else None
    return Ticket(
        id=ticket.id,
        resource=view.resource,
        kind="holdtop",
        lane=ticket.lane or None,
        pid=ticket.pid,
        keeper_pid=keeper_pid,
        start_ticks=ticket.start_ticks,
        uid=ticket.uid,
        user=facts.raw.users.get(ticket.uid),
        command=split_command(ticket.command),
        cwd=ticket.cwd or None,
        queued_at=ticket.queued_at or None,
        position=position,
        waited_seconds=waited,
        held_seconds=held_seconds,
        deadline_at=deadline_at,
        state=state,
        being_ended_by=view.claims.get(ticket.id) or view.stops.get(ticket.id),
        limits=dict(ticket.limits if limits is None else limits),
        containment=containment,
        log_path=log_path,
        payload=payload,
    )


def plausible_age(seconds: float | None, alive: Stat | None, facts: Facts) -> float | None:
    """An age by two wall clocks, as far as the boot's own clock bears it out.

    Of a living hold nothing is older than its process, and nothing lies ahead: an age outside is the process's.
    Without that process (``alive``) there is nothing to hold it against, and a negative one is not known.
    """
    if alive is None:
        return max(0.0, seconds) if seconds is not None and seconds >= -CLOCK_SLACK else None
    oldest = clock.age_of(alive.start_ticks, facts.raw)
    if seconds is None or not -CLOCK_SLACK <= seconds <= oldest + CLOCK_SLACK:
        return oldest
    return min(max(0.0, seconds), oldest)


def split_command(command: str) -> tuple[str, ...]:
    """The words of a shell-quoted command; the whole as one word when it was cut short."""
    if _UNQUOTED.fullmatch(command):
        return tuple(command.split(" "))
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return (command,)
