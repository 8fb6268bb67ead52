"""Asking a live hold to end its payload, and what is done when it does not answer.

The hold ends its own payload better than anybody else can: it alone has the kernel's word that nothing is left.
Only a hold that does not even begin within its bound is signalled, and only with the powers of its own account.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from signal import SIGCONT, SIGKILL, SIGTERM, Signals

from holdtop.errors import GoneError, RefusedError
from holdtop.hold import events, record, stop, token
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Untrusted
from holdtop.hold.others import other_holds
from holdtop.hold.places import Places
from holdtop.hold.recovery import keeper_of, recorded_cgroups
from holdtop.hold.stop import user_name
from holdtop.hold.view import Record, TokenFile
from holdtop.operator.deed import GRACE, Deed, Done, fates, returned, seconds
from holdtop.operator.values import Fate, Plan, Step, Target
from holdtop.payload.ending import Ending
from holdtop.payload.members import Scope
from holdtop.payload.powers import with_powers_of
from holdtop.payload.process import Identity, Pinned

#: How much longer than its grace a hold may take to answer, or to end, in seconds.
SLACK = 3.0
#: A hold's own survive wait when it says none, in seconds.
SURVIVE_WAIT = 60.0
#: Between two looks, in seconds.
POLL = 0.05


def still_held(plan: Plan, places: Places) -> tuple[Target, ...]:
    """Raises ``GoneError`` when that very hold has not the token any more, ``RefusedError`` when it is dead."""
    found = _held(plan, places)
    if found is None:
        raise GoneError(f"ticket {plan.ticket} holds no more, nothing was done")
    if found.ghost:
        raise RefusedError(f"the hold of {plan.ticket} has died meanwhile: holdtop recover -r {plan.resource}")
    return plan.targets


def ask(deed: Deed) -> Done:
    """A stop request; signals when it is not answered. Returns when all is over, or at the bound."""
    plan = deed.plan
    assert plan.ticket is not None
    assert plan.nonce is not None
    grace, survive_wait = _bounds(deed)
    stop.request(deed.queue, plan.ticket, plan.nonce, deed.reason)
    for pid in (plan.hold[0] if plan.hold else None, *(one.pid for one in (*deed.targets, *plan.weak))):
        deed.progress(Step(pid, "asked", "asked to end" if pid else "the hold was asked to end"))
    patience = SLACK + (grace if deed.grace is None else deed.grace)
    said = "the hold ended its payload and released the token"
    if not _until(lambda: _answered(deed), patience):
        said = "the hold did not answer and was signalled"
        _signal_hold(deed)
    elif not _until(lambda: _over(deed), grace + survive_wait + SLACK):
        said = "the hold is still ending its payload"
    return _done(deed, said)


def _done(deed: Deed, said: str) -> Done:
    plan = deed.plan
    targets = (*deed.targets, *plan.weak)
    steps = fates(targets, _ended_by(deed))
    for step in steps:
        deed.progress(step)
    left = [step.text for step in steps if step.fate == "left"]
    held = _held(plan, deed.places)
    if held is not None:
        left.append(f"the token stays: holdtop recover -r {plan.resource}" if held.ghost else "the token is held still")
    return Done(5 if left else 0, "; ".join((said, *left)), steps, returned(targets, steps))


def _bounds(deed: Deed) -> tuple[float, float]:
    """The hold's own grace and survive wait in seconds, as its ticket says; foreign text, so bounded here."""
    found = _held(deed.plan, deed.places)
    limits = found.ticket.limits if found and found.ticket else {}
    return seconds(limits.get("grace"), GRACE), seconds(limits.get("survive-wait"), SURVIVE_WAIT)


def _held(plan: Plan, places: Places) -> TokenFile | None:
    """The token, while it is that very hold's."""
    with places.open_token_dir() as directory:
        found = token.look(directory, places.token_name)
    return found if found and (found.ticket_id, found.nonce) == (plan.ticket, plan.nonce) else None


def _answered(deed: Deed) -> bool:
    """The hold says that it is ending, or is over."""
    published = _published(deed)
    return (published is not None and published.state == "ending") or _over(deed)


def _published(deed: Deed) -> Record | None:
    """The hold's record, when it is this hold's and by its own account: anybody may write such a file."""
    assert deed.plan.ticket is not None
    published = record.read(deed.queue, deed.plan.ticket)
    ours = published is not None and (published.nonce, published.uid) == (deed.plan.nonce, deed.plan.uid)
    return published if ours else None


def _over(deed: Deed) -> bool:
    """The token is not the hold's any more and its processes have left; or the hold has died."""
    found = _held(deed.plan, deed.places)
    if found is not None:
        return found.ghost
    assert deed.plan.ticket is not None
    try:
        return tickets.read(deed.queue, deed.plan.ticket).nonce != deed.plan.nonce
    except (OSError, Untrusted):
        return True


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True


def _ended_by(deed: Deed) -> dict[int, str]:
    """How the hold says that each of its processes ended: pid -> TERM or KILL."""
    told: dict[int, str] = {}
    for event in events.tail(deed.queue):
        ended = event.get("ended")
        if event.get("event") == "ended" and event.get("ticket") == deed.plan.ticket and isinstance(ended, list):
            believable = (one for one in ended if isinstance(one, dict) and isinstance(one.get("pid"), int))
            told.update((one["pid"], str(one.get("ended_by"))) for one in believable)
    return told


def _signal_hold(deed: Deed) -> None:
    """TERM to the hold (continued, should it be stopped); then its payload; then the hold itself."""
    plan = deed.plan
    if plan.hold is None or os.geteuid() not in (plan.uid, 0):
        deed.progress(Step(None, "left", f"only {user_name(plan.uid or 0)} or root may signal it"))
        return
    hold = Identity(*plan.hold)
    keeper = keeper_of(_published(deed), hold)
    outer_first = [hold, *([keeper.identity] if keeper else [])]
    _send(deed, outer_first, SIGTERM, SIGCONT)
    if _until(lambda: _over(deed), deed.bounds().grace + SLACK):
        return
    own = frozenset(one.pid for one in outer_first)
    found, published = _held(plan, deed.places), _published(deed)
    scope = Scope(
        hold,
        f"{plan.ticket}:{plan.nonce}",
        plan.uid or 0,
        reaper=hold.pid,
        own=own,
        cgroups=recorded_cgroups(published, found.ticket) if found and found.ticket else (),
    )
    others = other_holds(deed.places, {hold.pid})
    Ending(scope, deed.bounds(), None, lambda: others, plan.uid, deed.tell).run(time.sleep)
    if not _until(lambda: _over(deed), SLACK):
        _send(deed, outer_first[::-1], SIGKILL)
        _until(lambda: _over(deed), 1.0)


def _send(deed: Deed, identities: Sequence[Identity], *signums: Signals) -> None:
    """To the hold's own processes, as their account."""

    refused: dict[Identity, str] = {}

    def send() -> None:
        for identity in identities:
            try:
                with Pinned(identity) as pinned:
                    for signum in signums:
                        pinned.send(signum)
            except (ProcessLookupError, PermissionError) as error:
                refused[identity] = str(error.strerror)

    with_powers_of(deed.plan.uid, send)
    fate: Fate = "killed" if SIGKILL in signums else "asked"
    for identity in identities:
        if why := refused.get(identity):
            deed.progress(Step(identity.pid, "left", f"{signums[0].name} was not sent: {why}"))
        else:
            deed.progress(Step(identity.pid, fate, f"the hold was sent {signums[0].name}"))
