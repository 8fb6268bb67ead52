"""What a plan is made of and how far each part of it is proven: believed is what was seen, or what a record's own
author could do anyway."""

from __future__ import annotations

from collections.abc import Sequence

from holdtop.errors import GoneError, RefusedError
from holdtop.hold.view import QueueView, TicketFile
from holdtop.model.values import Process, Ticket
from holdtop.operator.actor import refuse_untouchable
from holdtop.operator.values import Target
from holdtop.payload.process import UnreadableProcess, read_stat

#: How a member was found -> it is shown apart, since others may carry the mark too.
_WEAK = {"marker"}
#: An open device alone makes a suspect, never a member.
_SUSPECT = {"device"}


def target(process: Process) -> Target:
    """A process as it is frozen in a plan."""
    return Target(
        process.pid,
        process.start_ticks,
        process.uid,
        process.user,
        process.name,
        process.command,
        process.found_by,
        device_bytes(process.gtt_bytes, process.vram_bytes),
    )


def device_bytes(gtt: int | None, vram: int | None) -> int | None:
    """What one process has on the device; unknown when a part of it is."""
    return None if gtt is None or vram is None else gtt + vram


def expected(targets: Sequence[Target]) -> int | None:
    """Device memory of all of them in bytes; ``None`` when that of one is unknown, or there is none to ask."""
    sizes = [one.device_bytes for one in targets]
    return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)


def members(ticket: Ticket) -> tuple[tuple[Target, ...], tuple[Target, ...], tuple[str, ...]]:
    """Proven members, members known by their mark only, and one line for each mere suspect."""
    processes = ticket.payload.processes if ticket.payload else ()
    return (
        tuple(target(p) for p in processes if p.found_by not in _WEAK | _SUSPECT),
        tuple(target(p) for p in processes if p.found_by in _WEAK),
        tuple(
            f"pid {p.pid} ({p.name}): it has the device open, which makes it no member of the payload"
            for p in processes
            if p.found_by in _SUSPECT
        ),
    )


def current_file(view: QueueView, ticket: Ticket) -> TicketFile:
    """The ticket's file (or its copy in the token) as it lies there now. Raises ``GoneError``, ``RefusedError``."""
    files = [*view.tickets, view.token.ticket if view.token else None]
    for file in files:
        if file is not None and file.id == ticket.id:
            if (file.pid, file.start_ticks) != (ticket.pid, ticket.start_ticks):
                raise RefusedError(f"ticket {ticket.id} names another process than the one that was shown")
            return file
    if view.problems:
        raise RefusedError(f"the state cannot be read: {view.problems[0]}")
    raise GoneError(f"ticket {ticket.id} is already gone, nothing was done")


def refuse_claims(part: Sequence[Process], ticket: Ticket) -> None:
    """A ticket or record is believed about its author's own processes only: the hold that it names, below which the
    others were found, may be a stranger's. An open device or a mark proves no place."""
    for process in part:
        if process.found_by in _SUSPECT | _WEAK:
            raise RefusedError(f"pid {process.pid} was found by {process.found_by} only: it is no proven member")
        if process.uid != ticket.uid:
            raise RefusedError(
                f"pid {process.pid} is a member only by the word of {ticket.user or ticket.uid}, and belongs to "
                f"{process.user or process.uid}"
            )


def refuse_foreign_survivor(process: Process, view: QueueView) -> None:
    """What lies there now decides (``hold.survivors`` leaves out what is not to be believed)."""
    wanted = (process.pid, process.start_ticks)
    if wanted not in {(one.pid, one.start_ticks) for record in view.survivors for one in record.processes}:
        raise RefusedError(
            f"pid {process.pid} of {process.user or process.uid} is on no record of survivors by its own account "
            "or root: anybody else's word proves nothing"
        )


def refuse_dead_or_untouchable(pid: int) -> None:
    refuse_untouchable(pid)
    try:
        found = read_stat(pid)
    except UnreadableProcess as error:
        raise RefusedError(str(error)) from error
    if found is None:
        raise GoneError(f"pid {pid} is already gone, nothing was done")
    if found.dead:
        raise GoneError(f"pid {pid} is already dead; its parent {found.ppid} has not reaped it; nothing was done")


def dead_hold(file: TicketFile) -> str:
    said = f"the hold of ticket {file.id} is already dead"
    try:
        found = read_stat(file.pid)
    except UnreadableProcess:
        found = None
    if found and found.start_ticks == file.start_ticks:
        said += f" (its parent {found.ppid} has not reaped pid {file.pid})"
    return f"{said}; nothing was done: free its token with holdtop recover -r {file.resource}"
