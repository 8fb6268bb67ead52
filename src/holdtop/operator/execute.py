"""Doing what a plan says: check again, intent on the disk, act, outcome on record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdtop.errors import GoneError, HoldtopError, RefusedError
from holdtop.hold import claim
from holdtop.hold.files import Dir
from holdtop.hold.places import Places, ensure, resolve
from holdtop.operator.ask import ask, still_held
from holdtop.operator.deed import Deed, Done
from holdtop.operator.record import INTERRUPTED, Ledger
from holdtop.operator.recover import recover, still_ghost
from holdtop.operator.remove import remove, still_there
from holdtop.operator.signals import signal_targets, still_same
from holdtop.operator.values import Means, Outcome, Plan, Step, Target
from holdtop.payload.process import UnreadableProcess

#: How long others see that somebody is at it, in seconds.
CLAIM_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Way:
    """One way of acting: a last look (what it returns is put on record and acted on), and the act."""

    check: Callable[[Plan, Places], tuple[Target, ...]]
    act: Callable[[Deed], Done]


_WAYS: dict[Means, Way] = {
    "ask": Way(still_held, ask),
    "signal": Way(still_same, signal_targets),
    "remove": Way(still_there, remove),
    "recover": Way(still_ghost, recover),
}


def execute(
    plan: Plan,
    *,
    reason: str,
    grace: float | None = None,
    progress: Callable[[Step], None] | None = None,
    read_only: bool = False,
    unaudited: bool = False,
) -> Outcome:
    """Do it, and say what became of it. Blocks until done, within the hold's own bound.

    ``grace``: seconds from TERM to KILL where this signals by itself (default: the hold's own, or 10).
    ``progress`` is called for each step, in this thread. Never raises a ``HoldtopError``: a refusal is an outcome
    of status 6, a target that is gone one of status 7, something left one of status 5.
    """
    try:
        places = resolve(plan.resource, plan.state_dir)
        with ensure(places) as queue:
            ledger = Ledger(queue, plan, reason, unaudited)
            try:
                return _execute(plan, places, queue, ledger, grace, progress or (lambda _step: None), read_only)
            except RefusedError as error:
                ledger.refused(str(error))
                return Outcome(6, str(error), (), None, tuple(ledger.records))
    except GoneError as error:
        return Outcome(7, str(error), (), None, ())
    except HoldtopError as error:
        return Outcome(6, str(error), (), None, ())


def _execute(
    plan: Plan,
    places: Places,
    queue: Dir,
    ledger: Ledger,
    grace: float | None,
    progress: Callable[[Step], None],
    read_only: bool,
) -> Outcome:
    _refuse(ledger.reason, read_only)
    way = _WAYS[plan.means]
    targets = way.check(plan, places)
    deed = Deed(plan, places, queue, targets, ledger.reason, plan.grace if grace is None else grace, progress)
    done = Done(5, INTERRUPTED)
    try:
        ledger.intent(targets)
        with _claimed(queue, plan):
            done = _attempt(way, deed)
    finally:
        ledger.outcome(done.status, done.text, done.steps, done.returned_bytes)
    text = "; ".join((done.text, *(f"NOT in the audit: {gap}" for gap in ledger.gaps)))
    return Outcome(done.status, text, done.steps, done.returned_bytes, tuple(ledger.records))


@contextlib.contextmanager
def _claimed(queue: Dir, plan: Plan) -> Iterator[None]:
    """Others see that a hold is being ended, or a ticket removed; of a part of a payload that would not be true."""
    if plan.ticket is None or plan.means == "signal":
        yield
        return
    claim.write(queue, plan.ticket, CLAIM_SECONDS)
    try:
        yield
    finally:
        claim.withdraw(queue, plan.ticket)


def _attempt(way: Way, deed: Deed) -> Done:
    """The act; what stops it after the intent is its outcome."""
    try:
        return way.act(deed)
    except GoneError as error:
        return Done(7, str(error))
    except HoldtopError as error:
        return Done(6, str(error))
    except (OSError, UnreadableProcess) as error:
        return Done(5, f"failed on the way, what had been signalled by then may have ended: {error}")


def _refuse(reason: str, read_only: bool) -> None:
    """Raises ``RefusedError``."""
    if read_only:
        raise RefusedError("read-only: nothing is ended, evicted or freed from here")
    if not reason.strip():
        raise RefusedError("an act needs a reason: --reason TEXT")
    if recorded := os.environ.get("HOLDTOP_PROC"):
        raise RefusedError(f"the process table is recorded (HOLDTOP_PROC={recorded}): nothing in it can be ended")
