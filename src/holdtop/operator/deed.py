"""What is handed to each way of acting, and what it hands back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from holdtop.hold.files import Dir
from holdtop.hold.places import Places
from holdtop.operator.values import Fate, Plan, Step, Target
from holdtop.payload.custody import Left, Member
from holdtop.payload.ending import Bounds
from holdtop.payload.process import Identity, is_alive

#: From TERM to KILL where neither the hold nor the operator says, in seconds.
GRACE = 10.0
#: From KILL until a process is called unkillable, in seconds: an operator waits for the answer.
SURVIVE_WAIT = 5.0


@dataclass(frozen=True, slots=True)
class Deed:
    plan: Plan
    places: Places
    queue: Dir
    #: The targets as they were at the last look.
    targets: tuple[Target, ...]
    reason: str
    #: Seconds from TERM to KILL; ``None`` when nobody said.
    grace: float | None
    progress: Callable[[Step], None]

    def bounds(self) -> Bounds:
        return Bounds(GRACE if self.grace is None else self.grace, SURVIVE_WAIT)

    def tell(self, member: Member, signal: str) -> None:
        """A signal was sent."""
        fate: Fate = "killed" if signal == "SIGKILL" else "asked"
        self.progress(Step(member.identity.pid, fate, f"{member.name} was sent {signal}"))


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an act, before it is on record."""

    status: Literal[0, 5, 6, 7]
    text: str
    steps: tuple[Step, ...] = ()
    returned_bytes: int | None = None


def seconds(text: str | None, default: float) -> float:
    """A limit as a ticket says it, ``10s``: foreign text, so bounded to an hour here."""
    with contextlib.suppress(ValueError):
        return min(max(0.0, float((text or "").removesuffix("s"))), 3600.0)
    return default


def fates(targets: Sequence[Target], ended_by: Mapping[int, str], left: Collection[Left] = ()) -> tuple[Step, ...]:
    """One step for each target. ``ended_by``: pid -> ``TERM`` or ``KILL``, where it is known."""
    why = {one.member.identity.pid: one.why for one in left}
    return tuple(_fate(one, ended_by.get(one.pid), why.get(one.pid)) for one in targets)


def _fate(target: Target, ended_by: str | None, why: str | None) -> Step:
    if is_alive(Identity(target.pid, target.start_ticks)) is not False:
        owner = target.user or target.uid
        return Step(target.pid, "left", f"{target.name} of {owner} is still there ({why or 'spared by its hold'})")
    if ended_by == "KILL":
        return Step(target.pid, "killed", f"{target.name} was killed")
    if ended_by:
        return Step(target.pid, "terminated", f"{target.name} has ended ({ended_by})")
    return Step(target.pid, "already gone", f"{target.name} has ended by itself")


def returned(targets: Sequence[Target], steps: Sequence[Step]) -> int | None:
    """Device memory in bytes that those had who are gone; ``None`` when it is not known of one of them.

    It is what they held, not a reading: the driver frees late.
    """
    kept = {step.pid for step in steps if step.fate == "left"}
    sizes = [one.device_bytes for one in targets if one.pid not in kept]
    return None if not sizes or None in sizes else sum(size for size in sizes if size is not None)
