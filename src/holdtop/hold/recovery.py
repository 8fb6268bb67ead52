"""Freeing a ghost: a token whose hold is dead. Its leftovers end first, and only what is proven to be one.

Proven is: the recorded (pid, start) of a record by the same author, or this very run's nonce in the environment;
in both cases a process of the author's own uid. Everything else may belong to somebody.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from holdtop.hold import record
from holdtop.hold.files import Dir
from holdtop.hold.view import Record, TicketFile, TokenFile
from holdtop.payload.custody import Fate, Left, Member
from holdtop.payload.ending import Bounds, Ending
from holdtop.payload.members import Scope, real_uid
from holdtop.payload.process import Identity, is_alive


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What became of a ghost's payload."""

    fates: tuple[Fate, ...] = ()
    left: tuple[Left, ...] = ()
    #: Recorded processes that live and are not ours to signal.
    not_ours: tuple[Identity, ...] = ()


def run_mark(ticket: TicketFile) -> str:
    """The part of ``HOLDTOP_RUN`` by which this ticket's payload is known."""
    return f"{ticket.id}:{ticket.nonce}"


def may_end(token: TokenFile) -> bool:
    """Only the author of a token, and root in the author's place, may end what it names."""
    return os.geteuid() in (token.uid, 0)


def recorded_identities(found: Record | None, ticket: TicketFile) -> tuple[Identity, ...]:
    """The processes a record names, if the record is this ticket's and its author is the ticket's."""
    if found is None or found.nonce != ticket.nonce or found.uid != ticket.uid:
        return ()
    return tuple(Identity(process.pid, process.start_ticks) for process in found.members)


def end_leftovers(
    queue: Dir,
    token: TokenFile,
    bounds: Bounds,
    sleep: Callable[[float], None],
    other_holds: Callable[[], Collection[int]],
    progress: Callable[[Member, str], None] = lambda _member, _signal: None,
) -> Leftovers:
    """End what a ghost left, as far as it is ours to end. ``sleep`` may raise to give up."""
    ticket = token.ticket
    assert ticket is not None, "only a hold's token has leftovers that can be known"
    published = record.read(queue, ticket.id)
    known = recorded_identities(published, ticket)
    if not may_end(token):
        return Leftovers(not_ours=tuple(identity for identity in known if is_alive(identity) is not False))
    ours = tuple(identity for identity in known if real_uid(identity.pid) == token.uid)
    scope = Scope(_root(published, ticket), run_mark(ticket), token.uid, reaper=None)
    ending = Ending(scope, bounds, None, other_holds, known=ours, progress=progress)
    fates, left, _ = ending.run(sleep)
    others = tuple(i for i in known if i not in ours and is_alive(i) and real_uid(i.pid) is not None)
    return Leftovers(fates, left, others)


def _root(published: Record | None, ticket: TicketFile) -> Identity:
    """The payload's root; without a record, the hold itself, which is older than all of its payload."""
    if published and published.root_pid and published.root_start_ticks is not None:
        return Identity(published.root_pid, published.root_start_ticks)
    return Identity(ticket.pid, ticket.start_ticks)
