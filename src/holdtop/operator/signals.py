"""Signalling processes that no hold ends for us: a part of a payload, a survivor, a stray, a shell holder's tree."""

from __future__ import annotations

import time

from holdtop.errors import GoneError
from holdtop.hold.places import Places
from holdtop.operator.actor import refuse_unless_same, refuse_untouchable
from holdtop.operator.deed import Deed, Done, fates, returned
from holdtop.operator.values import Plan, Target
from holdtop.payload.custody import Holds
from holdtop.payload.ending import Ending
from holdtop.payload.members import Scope, real_uid
from holdtop.payload.process import Identity, ProcessTable, is_alive
from holdtop.render import counted


def still_same(plan: Plan, _places: Places) -> tuple[Target, ...]:
    """The frozen targets, and what was started below the first one since, where the plan says so.

    Raises ``GoneError``, or ``RefusedError`` when the first target's pid is another process now.
    """
    first = plan.targets[0]
    refuse_untouchable(first.pid)
    refuse_unless_same(Identity(first.pid, first.start_ticks))
    if is_alive(Identity(first.pid, first.start_ticks)) is False:
        raise GoneError(f"pid {first.pid} ({first.name}) is already gone, nothing was done")
    if not plan.with_descendants:
        return plan.targets
    table = ProcessTable()
    frozen = {one.pid for one in plan.targets}
    fresh = [table.stats[pid] for pid in table.descendants(first.pid) if pid not in frozen]
    younger = (
        Target(stat.pid, stat.start_ticks, real_uid(stat.pid), None, stat.name, (), "descent", None)
        for stat in fresh
        if not stat.dead
    )
    return (*plan.targets, *younger)


def signal_targets(deed: Deed) -> Done:
    """TERM, and KILL after the grace, by pidfd; with the powers of the account whose processes they are."""
    chosen = tuple(Identity(one.pid, one.start_ticks) for one in deed.targets)
    # No mark is so young: nothing but the chosen is found.
    scope = Scope(Identity(0, 1 << 63), "", -1, reaper=None, chosen=chosen)
    ended, left, _ = Ending(scope, deed.bounds(), None, Holds, deed.plan.uid, deed.tell).run(time.sleep)
    steps = fates(deed.targets, {fate.member.identity.pid: fate.ended_by for fate in ended}, left)
    for step in steps:
        deed.progress(step)
    alive = [step for step in steps if step.fate == "left"]
    text = (
        "; ".join(step.text for step in alive)
        if alive
        else counted(len(steps), "process has", "processes have") + " ended"
    )
    return Done(5 if alive else 0, text, steps, returned(deed.targets, steps))
