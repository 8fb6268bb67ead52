"""Limits on what a sensor says: the payload is paused or ended when a value stays bad for several samples in a row.

The sensors are injected and read in threads of their own: a read that never returns ages its value and stops nothing.
One bad sample never ends anything, and a missing value is neither plenty nor zero: it counts for nothing and, when it
lasts, is said aloud.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from holdtop.lean import dataclass
from holdtop.payload.custody import End, Turn

#: Seconds between two samples.
PERIOD = 1.0
#: This many samples in a row decide.
IN_A_ROW = 3
#: A value older than this many seconds is no value any more, and two samples further apart are not in a row.
STALE = 5.0
#: How long the first sample may take, and from when on any other is called missing, in seconds.
FIRST_WAIT = 2.0
#: A paused payload goes on this many degrees below the threshold. A pause cools by more within seconds; with less
#: distance the payload would be paused and resumed for ever at the same temperature.
HYSTERESIS = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    #: In the sensor's unit; ``None`` with the reason in ``said``.
    value: float | None
    #: The sensor's path, or why there is no value.
    said: str


@dataclass(frozen=True, slots=True)
class Known:
    """A sample with a value. ``at``: CLOCK_BOOTTIME, which a suspend does not stop, before it was read."""

    value: float
    at: float


@dataclass(slots=True)
class Sensor:
    """One probe. Asked once in the hold's first process, sampled in the keeper."""

    #: What is measured, ``MemAvailable``, and its unit, ``GiB``.
    what: str
    unit: str
    read: Callable[[], Sample]
    #: By the kernel's number of the clock.
    clock: Callable[[int], float] = time.clock_gettime
    #: The path that answered first; empty before.
    source: str = ""
    newest: Known | None = None
    #: Why the newest sample has no value; empty when it has one.
    _why: str = ""
    #: When the newest read, and the newest that gave a value, began. CLOCK_MONOTONIC: a suspend makes nobody blind.
    _asked_at: float = 0.0
    _known_at: float = 0.0
    _told_blind: bool = False

    def first(self) -> Sample:
        """One sample, waited for so long at most: is there a sensor at all?"""
        found: list[Sample] = []
        thread = threading.Thread(target=lambda: found.append(self.sample()), daemon=True)
        thread.start()
        thread.join(FIRST_WAIT)
        if not found:
            return Sample(None, f"the sensor did not answer within {FIRST_WAIT:g} s")
        self.source = "" if found[0].value is None else found[0].said
        return found[0]

    def start(self) -> None:
        """Read for ever, in a thread that nobody waits for."""
        self._known_at = self._asked_at = self.clock(time.CLOCK_MONOTONIC)
        threading.Thread(target=self._sample_for_ever, daemon=True).start()

    def _sample_for_ever(self) -> None:
        while True:
            self.sample()
            time.sleep(PERIOD)

    def sample(self) -> Sample:
        """Read once. A value that took too long, through a suspend perhaps, is of another time and none of ours."""
        self._asked_at, at = self.clock(time.CLOCK_MONOTONIC), self.clock(time.CLOCK_BOOTTIME)
        try:
            sample = self.read()
        except Exception as error:  # noqa: BLE001  a probe is foreign code, and its thread must go on
            sample = Sample(None, f"{type(error).__name__}: {error}")
        if sample.value is not None and not math.isfinite(sample.value):
            sample = Sample(None, f"{sample.said} says {sample.value}")
        if self.clock(time.CLOCK_BOOTTIME) - at > STALE:
            sample = Sample(None, f"it took more than {STALE:g} s to answer")
        if sample.value is None:
            self._why = sample.said
        else:
            self._why, self._known_at, self.newest = "", self._asked_at, Known(sample.value, at)
        return sample

    def fresh(self) -> Known | None:
        """The newest sample with a value, while it is one of now."""
        known = self.newest
        return known if known and self.clock(time.CLOCK_BOOTTIME) - known.at <= STALE else None

    def blind(self) -> str | None:
        """Why there has been no value for so long that none can be assumed."""
        now = self.clock(time.CLOCK_MONOTONIC)
        if now - self._known_at <= STALE:
            return None
        waited = now - self._asked_at
        return f"no answer for {waited:.0f} s" if waited > FIRST_WAIT else self._why or "its answers come too late"

    def news(self) -> str | None:
        """That the sensor is blind, and why, or back, each time that changes."""
        why = self.blind()
        if (why is not None) == self._told_blind:
            return None
        self._told_blind = why is not None
        return "the sensor is back" if why is None else f"the sensor is blind: {why}"


@dataclass(slots=True, kw_only=True)
class _Rule:
    """One armed limit."""

    #: As in the flag, ``mem-abort-gib``.
    name: str
    threshold: float
    sensor: Sensor
    _counted_at: float = -math.inf
    _row: int = 0

    def armed(self) -> str:
        return f"{self.threshold:g}{self.sensor.unit}"

    def _in_a_row(self, counts: Callable[[float], bool]) -> float | None:
        """The newest value, when with it ``IN_A_ROW`` samples that count have followed each other.

        Each sample is seen once. One without a value neither counts nor breaks the row, a gap in time does.
        """
        known = self.sensor.fresh()
        if known is None or known.at == self._counted_at:
            return None
        if known.at - self._counted_at > STALE:
            self._row = 0
        self._counted_at = known.at
        self._row = self._row + 1 if counts(known.value) else 0
        return known.value if self._row >= IN_A_ROW else None

    def _finding(self, value: float, relation: str) -> str:
        return f"{self.sensor.what} {value:.1f} {self.sensor.unit} is {relation}"


@dataclass(slots=True, kw_only=True)
class Limit(_Rule):
    """What ends the payload."""

    #: True for a ceiling, False for a floor.
    ceiling: bool
    #: The exit status that goes with it.
    status: int

    def check(self) -> End | None:
        value = self._in_a_row(self._is_bad)
        if value is None:
            return None
        relation = "at or above" if self.ceiling else "below"
        return End(self.name, self.status, self._finding(value, f"{relation} --{self.name} {self.threshold:g}"))

    def _is_bad(self, value: float) -> bool:
        return value >= self.threshold if self.ceiling else value < self.threshold


@dataclass(slots=True, kw_only=True)
class PauseLimit(_Rule):
    """What pauses the payload until it has cooled down.

    A sensor that is blind resumes it: paused for ever, it would keep the accelerator from everybody, and what ends
    payloads stands beside this one.
    """

    paused: bool = False

    def check(self) -> Turn | None:
        below = self.threshold - HYSTERESIS
        if self.paused and (why := self.sensor.blind()):
            return self._turn(None, f"::warning::--{self.name} is blind, the payload goes on: {why}")
        value = self._in_a_row(
            (lambda value: value < below) if self.paused else (lambda value: value >= self.threshold)
        )
        if value is None:
            return None
        if self.paused:
            return self._turn(value, f"{self._finding(value, f'below {below:g}')}: the payload goes on")
        text = self._finding(value, f"at or above --{self.name} {self.threshold:g}")
        return self._turn(value, f"{text}: the payload is paused")

    def _turn(self, value: float | None, text: str) -> Turn:
        self.paused, self._row = not self.paused, 0
        return Turn(self.paused, text, self.name, self.threshold, value)


@dataclass(slots=True)
class Limits:
    """All that are armed for one payload."""

    armed: Sequence[Limit | PauseLimit] = ()

    @property
    def sensors(self) -> list[Sensor]:
        """Several limits may share one."""
        return list({id(rule.sensor): rule.sensor for rule in self.armed}.values())

    def flags(self, sensor: Sensor) -> str:
        return ", ".join(f"--{rule.name}" for rule in self.armed if rule.sensor is sensor)

    def start(self) -> None:
        for sensor in self.sensors:
            sensor.start()

    def check(self) -> End | None:
        ends = (rule.check() for rule in self.armed if isinstance(rule, Limit))
        return next(filter(None, ends), None)

    def turn(self) -> Turn | None:
        turns = (rule.check() for rule in self.armed if isinstance(rule, PauseLimit))
        return next(filter(None, turns), None)

    def news(self) -> Iterator[str]:
        """What has to be said about lost sensors."""
        for sensor in self.sensors:
            if news := sensor.news():
                yield f"::warning::{self.flags(sensor)}: {news}"
