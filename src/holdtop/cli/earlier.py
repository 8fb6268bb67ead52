"""What a console can show of the past: the watch's recording of this box, else what the console itself has seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdtop.errors import RecordingError
from holdtop.model.values import Snapshot

if TYPE_CHECKING:
    from holdtop.recorder.memory import Memory
    from holdtop.recorder.recording import Recording


class Earlier:
    """Takes each look on its way to the screen."""

    def __init__(self) -> None:
        self._memory: Memory | None = None
        self._looks = 0

    def on_the_way(self, on_snapshot: Callable[[Snapshot], None]) -> Callable[[Snapshot], None]:
        """``on_snapshot``, and then what is to be remembered: the first picture waits for nothing."""

        def both(snapshot: Snapshot) -> None:
            on_snapshot(snapshot)
            self._looks += 1
            if self._looks > 1:
                self._take(snapshot)

        return both

    def _take(self, snapshot: Snapshot) -> None:
        if self._memory is None:
            from holdtop.recorder.aside import Aside
            from holdtop.recorder.memory import Memory  # its packer is loaded once the first picture stands

            self._memory = Memory()
            self._aside = Aside(self._memory)
        self._aside.take(snapshot)

    def tape(self) -> Recording:
        """Blocks while it is read. Raises ``RecordingError`` while nothing was seen."""
        from holdtop.recorder import places

        if self._memory is None:
            raise RecordingError("nothing is recorded yet: there was one look so far")
        return self._memory.recording(tuple(places.candidates()))
