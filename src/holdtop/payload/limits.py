"""Limits on what a sensor says: the tree is ended when a value stays bad for several samples in a row.

The sensors are injected and read in threads of their own: a read that never returns ages its value and stops nothing.
One bad sample never ends anything, and a missing value is neither plenty nor zero: it is said aloud.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from holdtop.payload.custody import End

#: Seconds between two samples.
PERIOD = 1.0
#: This many bad samples in a row end the payload.
IN_A_ROW = 3
#: A value older than this many seconds is no value any more.
STALE = 5.0
#: How long the first sample may take, in seconds.
FIRST_WAIT = 2.0


@dataclass(frozen=True, slots=True)
class Sample:
    #: In the limit's unit; ``None`` with the reason in ``said``.
    value: float | None
    #: The sensor's path, or why there is no value.
    said: str


@dataclass(slots=True)
class Limit:
    """One armed limit. Made in the hold's first process, watched in the keeper."""

    #: As in the flag, ``mem-abort-gib`` or ``tctl-abort``.
    name: str
    threshold: float
    #: What is measured, ``MemAvailable``, and its unit, ``GiB``.
    what: str
    unit: str
    #: True for a ceiling, False for a floor.
    ceiling: bool
    #: The exit status that goes with it.
    status: int
    read: Callable[[], Sample]
    #: The sensor that answered first; empty before.
    source: str = ""
    _newest: tuple[Sample, float] | None = None
    _counted_at: float = 0.0
    _bad: int = 0
    _missing: bool = False
    _started: float = field(default_factory=time.monotonic)

    def first(self) -> Sample:
        """One sample, waited for so long at most: is there a sensor at all?"""
        found: list[Sample] = []
        thread = threading.Thread(target=lambda: found.append(self.read()), daemon=True)
        thread.start()
        thread.join(FIRST_WAIT)
        self.source = found[0].said if found and found[0].value is not None else ""
        return found[0] if found else Sample(None, f"the sensor did not answer within {FIRST_WAIT:g} s")

    def start(self) -> None:
        """Read for ever, in a thread that nobody waits for."""
        self._started = time.monotonic()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        while True:
            self._newest = (self.read(), time.monotonic())
            time.sleep(PERIOD)

    def check(self) -> End | None:
        """The end, when the newest samples were bad in a row; each sample counts once."""
        if self._newest is None or self._newest[1] == self._counted_at:
            return None
        sample, self._counted_at = self._newest
        if sample.value is None:
            return None  # unknown is not bad; ``missing`` says it
        bad = sample.value >= self.threshold if self.ceiling else sample.value < self.threshold
        self._bad = self._bad + 1 if bad else 0
        if self._bad < IN_A_ROW:
            return None
        relation = "at or above" if self.ceiling else "below"
        text = f"{self.what} {sample.value:.1f} {self.unit} is {relation} --{self.name} {self.threshold:g}"
        return End(self.name, self.status, text)

    def missing(self) -> str | None:
        """A sentence each time the sensor is lost or comes back."""
        sample, at = self._newest or (None, self._started)
        lost = time.monotonic() - at > STALE or (sample is not None and sample.value is None)
        if lost == self._missing:
            return None
        self._missing = lost
        if lost:
            why = sample.said if sample is not None and sample.value is None else f"no answer for {STALE:g} s"
            return f"::warning::--{self.name} is blind: {why}"
        return f"::warning::--{self.name} sees again"

    def armed(self) -> str:
        return f"{self.threshold:g}{self.unit}"


@dataclass(slots=True)
class Limits:
    """All that are armed for one payload."""

    armed: Sequence[Limit] = ()

    def start(self) -> None:
        for limit in self.armed:
            limit.start()

    def check(self) -> End | None:
        return next(filter(None, (limit.check() for limit in self.armed)), None)

    def news(self) -> Iterator[str]:
        """What has to be said about lost sensors."""
        return filter(None, (limit.missing() for limit in self.armed))
