"""Freeing a ghost: what its dead hold left is ended first, then its token goes. A living hold is never robbed."""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

from holdtop.errors import GoneError, RefusedError
from holdtop.hold import events, freeing, recovery, survivors
from holdtop.hold import token as tokens
from holdtop.hold.look import look
from holdtop.hold.others import other_holds
from holdtop.hold.places import Places, resolve
from holdtop.hold.stop import user_name
from holdtop.hold.ticket import INITIAL_PIDNS, namespace
from holdtop.hold.view import QueueView, TicketFile, TokenFile
from holdtop.model.values import Process, Snapshot
from holdtop.operator import select
from holdtop.operator.deed import Deed, Done, fates, returned
from holdtop.operator.proof import device_bytes, expected, target
from holdtop.operator.remove import mark
from holdtop.operator.values import Plan, Target
from holdtop.payload.custody import Left
from holdtop.payload.members import real_uid
from holdtop.payload.process import Identity, is_alive, read_stat


def plan(snapshot: Snapshot, resource: str, state_dir: str | None) -> Plan:
    """Raises ``GoneError`` (nothing lies there) or ``RefusedError`` (somebody holds, or may hold)."""
    places = resolve(resource, state_dir)
    with _pinned(places) as pinned:
        view = look(places)
        token = _judged(view, snapshot)
    targets = _leftovers(view, token, map(target, _shown(snapshot)))
    kept = places.token_parent + "/" + freeing.kept_name(places, token) if token.kind == "garbled" else None
    authors = {token.uid, *(ticket.uid for ticket in _dead_holds(view, token))}
    return Plan(
        verb="recover",
        resource=resource,
        ticket=token.ticket_id,
        nonce=pinned,
        lane=token.lane,
        how=f"the token cannot be read ({token.why}): it is kept as {kept}, and the way is free"
        if kept
        else "what the dead hold left is ended, TERM and KILL, then its token is removed",
        targets=targets,
        weak=(),
        spared=("the waiting tickets: the next one takes over", "every process that is not proven to be left"),
        expected_bytes=expected(targets),
        needs_typing=token.kind != "holdtop" or authors != {os.getuid()},
        typed=token.ticket_id or resource,
        means="recover",
        state_dir=state_dir,
        uid=token.uid,
    )


def still_ghost(plan: Plan, places: Places) -> tuple[Target, ...]:
    """Raises ``GoneError`` or ``RefusedError``."""
    with _pinned(places, plan.nonce):
        view = look(places)
        return _leftovers(view, _judged(view, None), plan.targets)


def recover(deed: Deed) -> Done:
    """End what is proven to be left, then free the token; with living leftovers it stays."""
    with _pinned(deed.places, deed.plan.nonce):
        return _recover(deed, look(deed.places))


def _recover(deed: Deed, view: QueueView) -> Done:
    token = _judged(view, None)
    left = _end(deed, view, token)
    steps = fates(deed.targets, {f.member.identity.pid: f.ended_by for f in left.fates}, left.left)
    for step in steps:
        deed.progress(step)
    if text := _why_kept(token, left):
        return Done(5, text, steps, returned(deed.targets, steps))
    dead = _dead_holds(view, token)
    if stuck := left.unkillable:
        survivors.record(deed.queue, dead[0], stuck)
    if not freeing.free(deed.places, deed.queue, token, keep=token.kind == "garbled"):
        raise RefusedError(f"{view.token_path} is another token now: look again")
    for ticket in dead:
        recovery.forget(deed.queue, ticket, left)
    events.record(deed.queue, "recovered", token.ticket_id or "", by="operator", lane=token.lane, ended=len(left.fates))
    return Done(5 if stuck else 0, _freed(view, stuck), steps, returned(deed.targets, steps))


@contextlib.contextmanager
def _pinned(places: Places, wanted: str | None = None) -> Iterator[str]:
    """Keep the token's inode from being used again while it is judged and exchanged; gives its mark.

    Raises ``GoneError``, or ``RefusedError`` when it is not the ``wanted`` one.
    """
    with contextlib.ExitStack() as stack:
        try:
            directory = stack.enter_context(places.open_token_dir())
            pin = stack.enter_context(tokens.pinned(directory, places.token_name))
        except OSError as error:
            raise RefusedError(f"{places.token_path}: {error.strerror}") from error
        if pin is None:
            raise GoneError(f"{places.token_path} does not exist: {places.resource} is free, nothing was done")
        found = mark(pin)
        if wanted not in (None, found):
            raise RefusedError(f"{places.token_path} is not the token that was shown: look again")
        yield found


def _freed(view: QueueView, stuck: list[Left]) -> str:
    names = ", ".join(f"pid {one.member.identity.pid} ({one.member.name})" for one in stuck)
    return f"{view.token_path} is free" + (f"; {names} cannot be killed and is on record as survivor" if stuck else "")


def _judged(view: QueueView, snapshot: Snapshot | None) -> TokenFile:
    """The token, if it may be freed. Raises ``GoneError`` or ``RefusedError`` saying why not."""
    token = view.token
    if token is None:
        if view.problems:
            raise RefusedError(f"the state cannot be read: {view.problems[0]}")
        raise GoneError(f"{view.token_path} does not exist: {view.resource} is free, nothing was done")
    if token.ghost:
        return token
    if token.kind == "holdtop":
        assert token.ticket is not None
        _refuse_living(token.ticket, "holds it: end it with holdtop kill")
        raise RefusedError(
            f"whether the hold of {token.ticket_id} is alive cannot be known from here: ask on its own host "
            f"({token.ticket.host}), as root and outside of containers, or in its own as long as that runs"
        )
    if token.locked:
        raise RefusedError(f"whoever holds {view.token_path} lives: the life lock is taken ({token.why or token.kind})")
    for ticket in view.ran:
        _refuse_living(ticket, "is running: end it first with holdtop kill")
    if token.kind == "shell":
        _refuse_living_shell(view, token, snapshot)
    return token


def _refuse_living(ticket: TicketFile, what: str) -> None:
    if ticket.locked is not False or ticket.identity_alive:
        raise RefusedError(f"the hold of ticket {ticket.id} (pid {ticket.pid}, lane {ticket.lane}) {what}")


def _refuse_living_shell(view: QueueView, token: TokenFile, snapshot: Snapshot | None) -> None:
    """A shell's token is a ghost when its pid is gone, seen from where all pids are, and no device use is open."""
    assert token.pid is not None
    if namespace("pid") != INITIAL_PIDNS:
        raise RefusedError("a shell token can only be judged from the initial pid namespace, not from a container")
    try:
        os.close(os.pidfd_open(token.pid))
    except ProcessLookupError:
        pass
    except OSError as error:
        raise RefusedError(f"whether pid {token.pid} of the shell token is alive cannot be known: {error}") from error
    else:
        stat = read_stat(token.pid)
        raise RefusedError(f"pid {token.pid} ({stat.name if stat else '?'}) of the shell token is alive")
    if snapshot is not None and not _proven_shell_ghost(snapshot, token):
        raise RefusedError(
            f"the holder (pid {token.pid}) is gone, but its payload may live: something uses the device, or could not "
            "be looked into (holdtop status names or counts it; root sees most); if it is certain that nobody uses the "
            f"device: rm {shlex.quote(view.token_path)}"
        )


def _proven_shell_ghost(snapshot: Snapshot, token: TokenFile) -> bool:
    """The look that the plan was made from saw all processes and no use of the device."""
    return any(
        resource.state == "ghost" and resource.holder is not None and resource.holder.pid == token.pid
        for resource in snapshot.resources
    )


def _dead_holds(view: QueueView, token: TokenFile) -> list[TicketFile]:
    """Whose leftovers are meant: the token's own hold, and those that ran and whose tokens somebody removed."""
    ran = [ticket for ticket in view.ran if ticket.dead and ticket.id != token.ticket_id]
    return [*([token.ticket] if token.ticket else []), *ran]


def _end(deed: Deed, view: QueueView, token: TokenFile) -> recovery.Leftovers:
    ended = [_end_one(deed, ticket) for ticket in _dead_holds(view, token)]
    return recovery.Leftovers(
        tuple(fate for one in ended for fate in one.fates),
        tuple(left for one in ended for left in one.left),
        tuple(identity for one in ended for identity in one.not_ours),
    )


def _end_one(deed: Deed, ticket: TicketFile) -> recovery.Leftovers:
    return recovery.end_leftovers(
        deed.queue, ticket, deed.bounds(), time.sleep, lambda: other_holds(deed.places), deed.tell
    )


def _why_kept(token: TokenFile, left: recovery.Leftovers) -> str | None:
    """Why the token has to stay."""
    if not left.denied:
        return None
    return f"the token stays: pids {left.denied} still run, and only {user_name(token.uid)} or root may end them"


def _shown(snapshot: Snapshot) -> Iterator[Process]:
    for ticket in select.tickets(snapshot):
        yield from ticket.payload.processes if ticket.payload else ()
    yield from snapshot.leftovers


def _leftovers(view: QueueView, token: TokenFile, seen: Iterable[Target]) -> tuple[Target, ...]:
    """The recorded members that live and are their author's own, with the figures of those that were seen."""
    known = {(one.pid, one.start_ticks): one for one in seen}
    left = (one for ticket in _dead_holds(view, token) for one in _members(view, ticket))
    return tuple(_with_figures(one, known.get((one.pid, one.start_ticks), one)) for one in left)


def _with_figures(one: Target, seen: Target) -> Target:
    size = one.device_bytes if seen.device_bytes is None else seen.device_bytes
    return replace(one, command=seen.command, device_bytes=size)


def _members(view: QueueView, ticket: TicketFile) -> Iterator[Target]:
    user = user_name(ticket.uid)
    for identity in recovery.recorded_identities(view.records.get(ticket.id), ticket):
        stat = read_stat(identity.pid) if is_alive(identity) else None
        if stat and real_uid(identity.pid) == ticket.uid:
            memory = _memory(view, stat.identity)
            yield Target(stat.pid, stat.start_ticks, ticket.uid, user, stat.name, (), "record", memory)


def _memory(view: QueueView, identity: Identity) -> int | None:
    for published in view.records.values():
        for one in published.members:
            if (one.pid, one.start_ticks) == (identity.pid, identity.start_ticks):
                return device_bytes(one.gtt_bytes, one.vram_bytes)
    return None
