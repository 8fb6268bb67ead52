"""All that the screen shows of one instant of a recording: the look, what had been told by then, and the past."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from holdtop.console.events import LogLine, parse_event
from holdtop.console.feeds import Acts
from holdtop.console.kept import KEPT_LINES, Kept
from holdtop.console.view.figures import History
from holdtop.console.world import World
from holdtop.model.values import Readings, Snapshot
from holdtop.recorder.marks import Mark
from holdtop.recorder.recording import Instant, Told

#: How many looks of the past are unpacked for the figures, and for how many seconds at once: the screen waits for it.
PAST, PATIENCE = 240, 0.2


class Tape(Protocol):
    """A recording."""

    @property
    def instants(self) -> Sequence[Instant]: ...

    @property
    def told(self) -> Sequence[Told]: ...

    def snapshot(self, position: int) -> Snapshot: ...

    def readings(self, position: int) -> Readings: ...

    def seek(self, text: str, shown: int) -> int: ...

    def marks(self) -> list[tuple[int, Mark]]: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """All that the screen shows of one instant."""

    position: int
    snapshot: Snapshot
    #: Of the looks before, oldest first.
    past: tuple[Readings, ...]
    lines: tuple[LogLine, ...]
    acts: Acts

    def become(self, world: World) -> None:
        """What somebody has chosen in it stays; all else is as it was then."""
        world.history = History()
        for readings in self.past:
            world.history.note(readings)
        world.kept = Kept()
        world.kept.add(self.lines)
        world.acts = self.acts
        world.take(self.snapshot)


class Moments:
    """Of one recording. Each costs some unpacking: for a thread of its own."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._past: dict[int, Readings] = {}
        self._parse = lru_cache(2 * KEPT_LINES)(parse_event)  # a week has many more than any moment shows
        #: In the order in which they were told: none is shown before its time.
        self._lines = [(one.position, one.event) for one in tape.told if one.event]

    def of(self, position: int) -> Moment:
        """Raises ``RecordingError``."""
        by_then = bisect_right(self._lines, position, key=lambda pair: pair[0])
        return Moment(
            position,
            self._tape.snapshot(position),
            self._history(position),
            tuple(self._parse(*event) for _, event in self._lines[:by_then][-KEPT_LINES:]),
            Acts(tuple(one.act for one in self._tape.told if one.act and one.position <= position), bad=None),
        )

    def _history(self, position: int) -> tuple[Readings, ...]:
        """As far back as there is time for: the newest are had first."""
        until, kept = time.monotonic() + PATIENCE, dict[int, Readings]()
        for one in range(position - 1, max(-1, position - PAST), -1):
            known = self._past.get(one)
            if known is None and time.monotonic() > until:
                break
            kept[one] = known if known is not None else self._tape.readings(one)
        self._past = kept
        return tuple(reversed(kept.values()))
