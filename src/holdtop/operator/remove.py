"""Evicting what waits: exactly one file of the queue is removed, and no process is signalled."""

from __future__ import annotations

import os

from holdtop.errors import GoneError, HoldtopError, RefusedError
from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir, Untrusted, writing
from holdtop.hold.places import Places
from holdtop.hold.ticket import TICKET_FORM
from holdtop.operator.deed import Deed, Done
from holdtop.operator.values import Plan, Step, Target


def still_there(plan: Plan, places: Places) -> tuple[Target, ...]:
    """Raises ``GoneError`` or ``RefusedError`` (something else has its name)."""
    with places.open_queue() as queue:
        _check(plan, queue)
    return plan.targets


def remove(deed: Deed) -> Done:
    """Unlink it, under the queue's lock, if it is still that very entry."""
    name = deed.plan.ticket
    assert name is not None
    path = deed.queue.of(name)
    with queues.locked(deed.queue), writing(path, "remove the entry"):
        _check(deed.plan, deed.queue)
        if not deed.queue.remove(name):
            raise GoneError(f"{path} is already gone, nothing was done")
    steps = tuple(Step(one.pid, "asked", "its ticket was removed: it leaves the queue") for one in deed.targets)
    for step in steps:
        deed.progress(step)
    return Done(0, f"{name} was removed from the queue", steps, 0)


def mark(status: os.stat_result) -> str:
    """What tells this very file from a later one of its name: inodes are used again at once, hence the time."""
    return f"{status.st_dev}:{status.st_ino}:{status.st_ctime_ns}"


def _check(plan: Plan, queue: Dir) -> None:
    name = plan.ticket
    assert name is not None
    status = queue.status(name)
    if status is None:
        raise GoneError(f"{queue.of(name)} is already gone, nothing was done")
    if plan.nonce in (mark(status), _nonce(queue, name)):
        return
    raise RefusedError(f"{queue.of(name)} is not the entry that was shown: look again")


def _nonce(queue: Dir, name: str) -> str | None:
    if not TICKET_FORM.fullmatch(name):
        return None
    try:
        return tickets.read(queue, name).nonce
    except (OSError, Untrusted, HoldtopError):
        return None
