"""How much of the device's memory a payload uses: measured beside it, in one thread that nobody waits for.

The level before it, its peak and the level after it make the receipt. Drivers free late, so a level that has not
come back yet says nothing; and what stays may be somebody else's, so the owners are looked at before anything is said.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Collection, Mapping
from typing import Literal, Protocol

from holdtop.lean import dataclass, field, replace
from holdtop.payload.custody import MemoryUse, Used
from holdtop.payload.devices import PROBE_WAIT, ask
from holdtop.payload.process import Identity

#: Seconds between two levels, and between two looks at the members' descriptors.
LEVEL_EVERY = 1.0
LOOK_EVERY = 5.0
#: How long the end of a payload waits for one level, in seconds.
ANSWER_WAIT = 0.5
#: How long memory may take to come back, in seconds: 5.4 were seen.
BACK_WAIT = 8.0
#: What was read of the members this long ago is no figure of now, in seconds.
STALE = 3 * LOOK_EVERY


@dataclass(frozen=True, slots=True)
class Level:
    """What all users of the device have of it together."""

    #: The card's PCI address.
    card: str
    pool: Literal["gtt", "vram"]
    #: ``None`` is not known.
    used_bytes: int | None
    #: Where it was read, or why it is not known.
    said: str


@dataclass(frozen=True, slots=True)
class Owners:
    """Whose the memory is, as far as this account may look."""

    held_bytes: int
    #: Why somebody may hold more than that; empty when everybody was looked into.
    closed: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """What members of a payload hold."""

    #: By process; who cannot be looked into is not in it.
    each: Mapping[Identity, Used] = field(default_factory=dict)
    #: Of the level's pool, with what they share counted once. ``None``: one of them is closed, or does not say all.
    together: int | None = None


class Gauge(Protocol):
    """Readers of one resource's device. Called in the meter's own thread: one that hangs stops nobody else."""

    @property
    def resource(self) -> str: ...

    @property
    def slack_bytes(self) -> int:
        """Device memory that belongs to nobody on any box, in bytes."""
        ...

    def level(self) -> Level | None:
        """``None``: there is no device memory to measure."""
        ...

    def look(self, members: Collection[Identity]) -> Looked:
        """What these hold."""
        ...

    def owners(self) -> Owners:
        """What all processes of the box hold."""
        ...


def unmeasured(gauge: Gauge | None) -> MemoryUse | None:
    """Of a payload whose meter was killed: the level after it is all that is known. Waits as the meter does."""
    level = ask(gauge.level, ANSWER_WAIT) if gauge else None
    if gauge is None or level is None:
        return None
    return MemoryUse(
        gauge.resource, level.pool, None, None, level.used_bytes, "unknown", "the process that measured it was killed"
    )


@dataclass(slots=True)
class Meter:
    gauge: Gauge | None
    #: Whose descriptors are read.
    members: Collection[Identity] = ()
    _answered: threading.Condition = field(default_factory=threading.Condition)
    _asked: threading.Event = field(default_factory=threading.Event)
    _before: Level | None = None
    _level: Level | None = None
    #: When the newest level began to be read, by CLOCK_MONOTONIC.
    _level_at: float = -math.inf
    _used: Mapping[Identity, Used] = field(default_factory=dict)
    _used_at: float = -math.inf
    #: The most that the members had together, and the most by which the level rose, in bytes.
    _own_peak: int | None = None
    _rise: int | None = None
    #: The rise at the last look at the members.
    _looked_at: int = 0
    _measuring: bool = False
    #: A member could not be looked into, or does not say what it has: the rise of the level alone tells of it.
    _blind: bool = False

    def start(self) -> None:
        """Measure until the process ends."""
        if self.gauge is not None:
            self._measuring = True
            threading.Thread(target=self._measure, args=(self.gauge,), daemon=True).start()

    def used(self) -> Mapping[Identity, Used]:
        """What the members hold, as last seen; empty when that is too old."""
        return self._used if time.monotonic() - self._used_at <= STALE else {}

    def after(self) -> MemoryUse | None:
        """The payload's use of memory, now that it has ended. ``None`` where there is none to measure."""
        now = time.monotonic()
        self._asked.set()
        with self._answered:
            came = self._answered.wait_for(lambda: self._level_at >= now or not self._measuring, ANSWER_WAIT)
            before, level = self._before, self._level
        if self.gauge is None or not self._measuring:
            return None
        begin, end = (one.used_bytes if one else None for one in (before, level if came else None))
        peak, source = self._peak(self.gauge.slack_bytes)
        pool = level.pool if level else "gtt"
        use = MemoryUse(self.gauge.resource, pool, begin, peak, end, "back", peak_source=source)
        if begin is None or end is None:
            reasons = (one.said for one in (before, level) if one and one.used_bytes is None)
            return replace(use, state="unknown", why=next(reasons, "the device did not answer in time"))
        return replace(use, state="falling") if end - begin > self.gauge.slack_bytes else use

    def _peak(self, slack: int) -> tuple[int | None, Literal["payload", "level"] | None]:
        """The payload's own, unless a member is closed to us or somebody who is no member has what is missing."""
        own, rise = self._own_peak, self._rise
        if own is not None and not self._blind and (own > slack or (rise or 0) <= slack):
            return own, "payload"
        if rise is None or (self._blind and rise <= slack):
            return None, None
        return rise, "level"

    def judge(self, use: MemoryUse) -> MemoryUse:
        """What is to be thought of memory that did not come back in its time: whose is it?"""
        if self.gauge is None or use.after_bytes is None or use.before_bytes is None:
            return use
        owners = ask(self.gauge.owners, PROBE_WAIT)
        if owners is None:
            return replace(use, state="unknown", why="nobody could look who holds it")
        if owners.closed:
            return replace(use, state="unknown", why=owners.closed)
        unowned = min(use.after_bytes - use.before_bytes, use.after_bytes - owners.held_bytes)
        return replace(use, state="left" if unowned > self.gauge.slack_bytes else "back")

    def _measure(self, gauge: Gauge) -> None:
        """For ever, or until there is no device: one that comes later is nothing that this payload was given."""
        while self._take_level(gauge):
            if self._look_is_due(gauge):
                self._look(gauge)
            self._asked.wait(LEVEL_EVERY)
            self._asked.clear()

    def _look_is_due(self, gauge: Gauge) -> bool:
        """At once when the level has risen: between two looks a payload may come and go."""
        risen = (self._rise or 0) - self._looked_at > gauge.slack_bytes
        return bool(self.members) and (risen or time.monotonic() - self._used_at >= LOOK_EVERY)

    def _take_level(self, gauge: Gauge) -> bool:
        at = time.monotonic()
        try:
            level = gauge.level()
        except Exception as error:  # noqa: BLE001  a probe is foreign code, and its thread must go on
            level = Level("", "gtt", None, f"{type(error).__name__}: {error}")
        before = self._before
        if before and level and before.card and (level.card, level.pool) != (before.card, before.pool):
            level = Level(level.card, before.pool, None, f"the pool is another one now: {level.pool} of {level.card}")
        with self._answered:
            self._before = self._before or level
            self._level, self._level_at, self._measuring = level, at, self._before is not None
            self._answered.notify_all()
        if self._before and level and self._before.used_bytes is not None and level.used_bytes is not None:
            self._rise = max(self._rise or 0, level.used_bytes - self._before.used_bytes)
        return self._measuring

    def _look(self, gauge: Gauge) -> None:
        try:
            looked = gauge.look(self.members)
        except Exception:  # noqa: BLE001  as above
            looked = Looked()
        self._used, self._used_at, self._looked_at = looked.each, time.monotonic(), self._rise or 0
        if looked.together is None:
            self._blind = True
        else:
            self._own_peak = max(self._own_peak or 0, looked.together)
