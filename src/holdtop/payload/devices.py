"""Who has the accelerator open: asked of an injected probe, at the end of a payload, and never waited for long.

An open device makes nobody a member. It decides two things only: which daemons ``--keep-daemons`` may spare, and
which processes outside the payload are named because they appeared during the hold (a container engine's child, a
service that the payload asked for).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from holdtop.lean import dataclass
from holdtop.payload.custody import Member, OtherHolds
from holdtop.payload.members import Scope, find, member
from holdtop.payload.process import Identity

#: How long the probe may take, in seconds.
PROBE_WAIT = 2.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """One look at all processes."""

    users: frozenset[Identity] = frozenset()
    #: Pids whose descriptors could not be read.
    unreadable: frozenset[int] = frozenset()


#: Gives ``None`` when it could not look.
Probe = Callable[[], DeviceUse | None]


def no_device() -> DeviceUse | None:
    """Nothing is known of any device."""
    return None


def ask(question: Callable[[], T], seconds: float) -> T | None:
    """The answer, or ``None`` when it does not come in time; the thread that waits for it is left alone."""
    answers: list[T] = []

    def answer() -> None:
        with contextlib.suppress(Exception):  # a probe is foreign code
            answers.append(question())

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def daemons(scope: Scope, probe: Probe, other_holds: OtherHolds) -> frozenset[Identity] | None:
    """Members that have left the root's session, and that neither themselves nor below have a device open.

    ``None`` when that could not be looked into: nobody may be kept on a guess.
    """
    use = ask(probe, PROBE_WAIT)
    if use is None:
        return None
    found = find(scope, other_holds)
    stats = found.table.stats
    session = scope.session(found.table)
    busy = {user.pid for user in use.users} | use.unreadable
    return frozenset(
        one.identity
        for one in found.members
        if one.identity != scope.root
        and stats[one.identity.pid].session != session
        and busy.isdisjoint((one.identity.pid, *found.table.descendants(one.identity.pid)))
    )


def suspects(scope: Scope, probe: Probe, other_holds: OtherHolds) -> tuple[Member, ...] | None:
    """Users of the device that appeared during the hold and belong to no hold's tree. ``None``: could not look."""
    use = ask(probe, PROBE_WAIT)
    if use is None:
        return None
    appeared = [user for user in use.users if user.start_ticks >= scope.root.start_ticks]
    if not appeared:
        return ()
    found = find(scope, other_holds)
    table = found.table
    holds = other_holds()
    ours = {one.identity.pid for one in found.members} | {left.member.identity.pid for left in found.spared}
    return tuple(
        member(table.stats[user.pid], "device")
        for user in appeared
        if user.pid not in ours and user.pid in table.stats and table.stats[user.pid].identity == user
        if not any(holds.among(table.ancestors(user.pid)))
    )
