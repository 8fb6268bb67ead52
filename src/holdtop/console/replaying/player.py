"""Goes through a recording in a thread of its own: what it shows is unpacked there, so that no key waits for it."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable

from holdtop.console.replaying.moments import Moment, Moments, Tape
from holdtop.errors import HoldtopError
from holdtop.model.values import Snapshot
from holdtop.recorder.marks import Mark

SPEEDS = (1, 10, 60)
#: Between two looks while it plays, in seconds.
TICK = 0.25
#: Where nothing was recorded for longer, in seconds that somebody would wait, playing goes on behind it.
LONGEST_GAP = 3.0


class Player:
    """The feed of a replay. Whoever asks for a position is shown the newest one that was asked for."""

    def __init__(self, tape: Tape) -> None:
        self._tape, self._moments = tape, Moments(tape)
        #: Called in the player's thread; with words when something cannot be shown.
        self.hear: Callable[[Moment | str], None] = lambda _: None
        self._wake = threading.Condition()
        self._over = False
        self.position = self.last
        self._shown: int | None = None
        self.speed = SPEEDS[0]
        self._begun: tuple[float, int] | None = None

    def start(self) -> None:
        threading.Thread(target=self._run, name="holdtop replay", daemon=True).start()

    def stop(self) -> None:
        with self._wake:
            self._over = True
            self._wake.notify()

    @property
    def last(self) -> int:
        return len(self._tape.instants) - 1

    @property
    def playing(self) -> bool:
        return self._begun is not None

    def go(self, position: int) -> None:
        """Show that one, and go on from there if it plays."""
        with self._wake:
            self.position = min(max(position, 0), self.last)
            if self.playing:
                self._begun = self._now()
            self._wake.notify()

    def step(self, by: int) -> None:
        """By so many looks; whoever steps has stopped playing."""
        self._begun = None
        self.go(self.position + by)

    def jump(self, direction: int) -> list[Mark]:
        """To the next instant at which something happened, and what that was; nothing where there is none."""
        marks = self._tape.marks()
        at = [position for position, _ in marks]
        place = bisect_right(at, self.position) if direction > 0 else bisect_left(at, self.position) - 1
        if not 0 <= place < len(at):
            return []
        self._begun = None
        self.go(at[place])
        return [mark for position, mark in marks if position == at[place]]

    def seek(self, text: str) -> None:
        """Raises ``UsageError``."""
        self.go(self._tape.seek(text, self.position))

    def play(self) -> None:
        """Or pause; at the end from the start."""
        with self._wake:
            if self.playing:
                self._begun = None
            else:
                self.position = 0 if self.position == self.last else self.position
                self._begun = self._now()
            self._wake.notify()

    def faster(self) -> None:
        """The next speed, round the end."""
        with self._wake:
            self.speed = SPEEDS[(SPEEDS.index(self.speed) + 1) % len(SPEEDS)]
            if self.playing:
                self._begun = self._now()

    def snapshot(self, position: int) -> Snapshot:
        """Blocks for a moment. Raises ``RecordingError``."""
        return self._tape.snapshot(position)

    def _now(self) -> tuple[float, int]:
        return time.monotonic(), self._tape.instants[self.position].at_ms

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._over or self.playing or self.position != self._shown)
                if self.playing and self.position == self._shown:
                    self._wake.wait_for(lambda: self._over or self.position != self._shown, TICK)
                    self._play_on()
                if self._over:
                    return
                wanted = self.position
            if wanted != self._shown:
                self._shown = wanted
                try:
                    self.hear(self._moments.of(wanted))
                except HoldtopError as error:
                    self.hear(str(error))
                except Exception as error:  # noqa: BLE001  a file from anywhere: the next instant may be well
                    self.hear(f"{type(error).__name__}: {error}")

    def _play_on(self) -> None:
        """To where playing has come by now, by the clock of the recording; that may have been set back."""
        if self._begun is None:
            return
        since, at_ms = self._begun
        now_ms = at_ms + 1000 * self.speed * (time.monotonic() - since)
        instants, position = self._tape.instants, self.position
        while position < self.last and instants[position].at_ms <= instants[position + 1].at_ms <= now_ms:
            position += 1
        if position == self.position < self.last:
            wait = (instants[position + 1].at_ms - now_ms) / 1000 / self.speed
            if not 0 <= wait <= LONGEST_GAP:  # below 0: the clock was set back there
                self.position += 1
                self._begun = self._now()
                return
        self.position = position
        if position == self.last:
            self._begun = None
