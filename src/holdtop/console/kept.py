"""What is kept of the logs that are followed, bounded in every direction: what came, and what was read back."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdtop.console.events import LogLine, in_order
from holdtop.console.follow import Place

#: Lines of all event logs together that are kept as they come, and of each other file.
KEPT_LINES = 5000
KEPT_OF_FILE = 2000
#: Lines of one of them that are kept besides, of what was read back.
KEPT_BACK = 20_000


@dataclass
class Kept:
    """The lines by file; the events of all holds are the file without a name."""

    files: dict[str, deque[LogLine]] = field(default_factory=dict)
    #: Read back: older than all of ``files``.
    back: dict[str, list[LogLine]] = field(default_factory=dict)
    #: Last lines without an end, by log.
    unfinished: dict[str, LogLine] = field(default_factory=dict)
    #: By resource and ticket, as far as an event has said so.
    lanes: dict[tuple[str, str], str] = field(default_factory=dict)
    #: Bytes that are not shown, by file.
    left_out: Counter[str] = field(default_factory=Counter)

    def add(self, lines: Iterable[LogLine]) -> None:
        """What has just been said."""
        for line in lines:
            self.left_out[line.file] += line.left_out
            if line.kind != "note":
                self.unfinished.pop(line.log, None)
            if not line.unfinished:
                self._append(line)
            elif line.text:
                self.unfinished[line.log] = line
            self._note_lane(line)

    def _append(self, line: LogLine) -> None:
        kept = self._kept(line.file)
        if len(kept) == kept.maxlen and (back := self.back.get(line.file)):
            back.append(kept[0])  # no gap behind what was read back
            del back[:-KEPT_BACK]
        kept.append(line)

    def _note_lane(self, line: LogLine) -> None:
        if line.lane:
            self.lanes[line.resource, line.ticket] = line.lane
        if len(self.lanes) > KEPT_LINES:
            del self.lanes[next(iter(self.lanes))]

    def _kept(self, file: str) -> deque[LogLine]:
        return self.files.setdefault(file, deque(maxlen=KEPT_OF_FILE if file else KEPT_LINES))

    def lines(self, file: str = "") -> list[LogLine]:
        """Oldest first; unfinished lines are the last ones."""
        last = [line for line in self.unfinished.values() if line.file == file]
        return [*self.back.get(file, ()), *self._kept(file), *last]

    def lane_of(self, entry: LogLine) -> str:
        return self.lanes.get((entry.resource, entry.ticket), "")

    # Reading back

    def full(self, file: str) -> bool:
        """Whether as much was read back as is kept."""
        return len(self.back.get(file, ())) >= KEPT_BACK

    def oldest(self, file: str) -> dict[str, Place]:
        """Where the oldest line that is kept begins, by log."""
        found: dict[str, Place] = {}
        for line in self.lines(file):
            if line.place is not None:
                found.setdefault(line.log, line.place)
        return found

    def add_earlier(self, file: str, lines: Sequence[LogLine]) -> bool:
        """What stands before the oldest line; whether there is anything."""
        fresh = [line for line in lines if line.kind != "note"]
        if not fresh:
            return False
        before = self.oldest(file)
        self._forget_that_it_was_left_out(file)
        for line in fresh:
            self._note_lane(line)
        self.back[file] = in_order([*fresh, *self.back.get(file, ())])
        for log, place in self.oldest(file).items():
            self.left_out[file] -= before.get(log, place).offset - place.offset
        return True

    def _forget_that_it_was_left_out(self, file: str) -> None:
        """The notes at the beginning that said so."""
        if not self.back.get(file):
            kept = self._kept(file)
            notes = [line for line in list(kept)[:10] if line.kind == "note" and line.left_out]
            for line in notes:
                kept.remove(line)

    def forget(self, file: str) -> None:
        """Keep nothing of a file that is followed no more."""
        for kept in (self.files, self.back, self.unfinished, self.left_out):
            kept.pop(file, None)

    def let_go(self, file: str) -> None:
        """Keep no more what was read back."""
        if back := self.back.pop(file, None):
            first, oldest = next((line for line in back if line.place), None), self.oldest(file)
            if first is not None and first.place is not None and first.log in oldest:
                self.left_out[file] += oldest[first.log].offset - first.place.offset
