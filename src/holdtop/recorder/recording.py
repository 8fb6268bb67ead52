"""A recording as it is read again: its looks in their order, what was told beside them, and what is damaged.

It may come from another box and from anybody. Only what its checksums vouch for is opened, each part within a bound.
"""

from __future__ import annotations

import itertools
import os
import stat
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from holdtop.errors import RecordingError, UsageError
from holdtop.hold.files import Dir, Untrusted
from holdtop.model.clock import parse
from holdtop.model.values import Readings, Snapshot
from holdtop.recorder import codec, frames
from holdtop.recorder.frames import Frame
from holdtop.recorder.marks import Mark
from holdtop.recorder.ring import FINE, parts, read, segment_names
from holdtop.recorder.seeking import instant
from holdtop.render import counted

#: More segments, or more bytes of them, are no ring of ours: the newest are read. As much is unpacked of what was told.
MOST_SEGMENTS, MOST_BYTES = 1000, 256 << 20
#: A look that is further than so many seconds from an instant says nothing of it.
NEAR = 60
#: So many gaps are told one by one.
MOST_GAPS = 20


class Instant(NamedTuple):
    """One recorded look: where it lies in which segment, and where the whole one that it was packed against."""

    seq: int
    at_ms: int
    segment: str
    place: int
    whole: int


@dataclass(frozen=True, slots=True)
class Told:
    """Something that was told beside a look: one of the three."""

    #: The position of the first look that it was told beside.
    position: int
    mark: Mark | None = None
    #: A line of an event log, and of which resource.
    event: tuple[str, str] | None = None
    act: Mapping[str, Any] | None = None


class Segments:
    """A directory of them, or a single file."""

    def __init__(self, path: str) -> None:
        """Raises ``RecordingError``."""
        self.path = path
        #: Older segments that are not read.
        self.left_out = 0
        self._one: bytes | None = None
        #: Where each record begins, and the last one ends, by segment.
        self._places: dict[str, array[int]] = {}
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                with Dir(fd, path) as directory:
                    self.names = self._newest(directory, segment_names(directory))
            else:
                with open(fd, "rb") as file:
                    self._one = file.read(frames.LARGEST_BODY) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
                self.names = [""]
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from error

    def _newest(self, directory: Dir, names: list[str]) -> list[str]:
        found: list[str] = []
        left = MOST_BYTES
        for name in reversed(names[-MOST_SEGMENTS:]):
            status = directory.status(name)
            left -= status.st_size if status else 0
            if left < 0:
                break
            found.append(name)
        self.left_out = len(names) - len(found)
        return found[::-1]

    def of(self, name: str) -> str:
        return os.path.join(self.path, name) if name else self.path

    def scan(self, name: str) -> frames.Scan:
        """Raises ``RecordingError`` where nothing of it can be read."""
        found = frames.scan(self._read(name, 0, frames.LARGEST_BODY))
        self._places[name] = array("Q", (*found.places, found.good))
        return found

    def _read(self, name: str, begin: int, size: int) -> bytes:
        """The directory is opened for each reading: nobody says when a recording is read no more."""
        if self._one is not None:
            return self._one[begin : begin + size]
        try:
            with Dir(os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), self.path) as directory:
                return read(directory, name, begin, size)
        except (Untrusted, OSError) as error:
            raise RecordingError(str(error)) from error

    def frame(self, name: str, place: int) -> Frame:
        """That record alone is read. Raises ``RecordingError`` for a segment that was dropped meanwhile."""
        begin, end = self._places[name][place : place + 2]
        found = frames.read_frame(self._read(name, begin, end - begin), 0)
        if isinstance(found, str):
            raise RecordingError(f"{self.of(name)} is not what it was; open the recording again")
        return found[0]


class Source(Protocol):
    """Where records lie: ``Segments``, or a memory."""

    @property
    def names(self) -> Sequence[str]: ...

    @property
    def left_out(self) -> int: ...

    def of(self, name: str) -> str: ...

    def scan(self, name: str) -> frames.Scan: ...

    def frame(self, name: str, place: int) -> Frame: ...


class Recording:
    """All that can be read; ``position`` counts its looks from 0."""

    def __init__(self, path: str, source: Source | None = None) -> None:
        """Of what lies at ``path``, unless it is given. Raises ``RecordingError`` when nothing of it can be read."""
        self._path = path
        self._segments: Source = source or Segments(path)
        #: One sentence for each part that is not whole, with up to when it is good.
        self.damage: tuple[str, ...] = ()
        if number := self._segments.left_out:
            older = counted(number, "older segment is", "older segments are")
            self.damage = (f"{path}: it is too large, {older} left out",)
        #: Segments that are not whole.
        self._broken: set[str] = set()
        sides: dict[int, list[bytes]] = {}
        found: dict[int, Instant] = {}
        for name in self._segments.names:
            for look, side in self._read(name):
                if look.seq not in found or name.startswith(FINE.name):  # neighbours lie in one segment there
                    found[look.seq] = look
                if side:
                    sides.setdefault(look.seq, []).append(side)
        self.instants = tuple(found[seq] for seq in sorted(found))
        self._seqs = [look.seq for look in self.instants]
        #: By time: clocks are set back, too.
        self._times = sorted((look.at_ms, position) for position, look in enumerate(self.instants))
        self.damage += tuple(itertools.islice(_gaps(self.instants, self._broken), MOST_GAPS))
        #: In its order, each once: what happened is told in both rings.
        self.told = tuple(self._once(sides))
        self._whole: tuple[tuple[str, int], bytes] = (("", -1), b"")
        if not self.instants:
            why = "; ".join(self.damage) or f"{path}: nothing is recorded there"
            raise RecordingError(why)

    def _read(self, name: str) -> Iterator[tuple[Instant, bytes]]:
        where = self._segments.of(name)
        try:
            found = self._segments.scan(name)
        except RecordingError as error:
            self.damage += (f"{where}: {error}; nothing of it is shown",)
            self._broken.add(name)
            return
        whole, last = -1, None
        for place, one in enumerate(found.frames):
            whole = place if one.kind == frames.WHOLE else whole
            if whole < 0:
                continue  # packed against what is not there
            last = one
            yield Instant(one.seq, one.at_ms, name, place, whole), one.side
        if found.why is not None:
            until = f"good up to {clock(last.at_ms)}" if last else "nothing of it is shown"
            self.damage += (f"{where}: damaged at byte {found.good} ({found.why}); {until}",)
            self._broken.add(name)

    def _once(self, sides: Mapping[int, Iterable[bytes]]) -> Iterator[Told]:
        known: set[object] = set()
        left = MOST_BYTES
        for seq in sorted(sides):
            for side in sides[seq]:
                left -= frames.unpacked_size(side)
                if left < 0:
                    self.damage += (f"{self._path}: it tells too much, what was told later is left out",)
                    return
                try:
                    said = list(_said(frames.unpack_side(side)))
                except RecordingError as error:
                    self.damage += (f"{self._path}: {error}",)
                    continue
                for key, mark, event, act in said:
                    if key not in known:
                        known.add(key)
                        yield Told(bisect_left(self._seqs, seq), mark, event, act)

    def snapshot(self, position: int) -> Snapshot:
        """Raises ``RecordingError``."""
        return codec.decode(self.body(position))

    def readings(self, position: int) -> Readings:
        """Those of the look alone, for what becomes of a figure over time. Raises ``RecordingError``."""
        return codec.decode_readings(self.body(position))

    def body(self, position: int) -> bytes:
        """The same as JSON. Raises ``RecordingError``."""
        at = self.instants[position]
        packed = self._segments.frame(at.segment, at.place).body
        if at.place == at.whole:
            return frames.unpack(packed)
        wanted = (at.segment, at.whole)
        known, whole = self._whole  # at once: another thread may be looking elsewhere
        if known != wanted:
            whole = frames.unpack(self._segments.frame(*wanted).body)
            self._whole = (wanted, whole)
        return frames.unpack(packed, whole)

    def seek(self, text: str, shown: int) -> int:
        """The position of what ``text`` says while ``shown`` is looked at, by the clocks of the box that was recorded.

        Raises ``UsageError``, and ``RecordingError`` when nothing was recorded about then.
        """
        ends = {"start": 0, "end": len(self.instants) - 1}
        end = ends.get(text.strip())
        return self._near(self._meant(text, shown)) if end is None else end

    def between(self, begin: str | None, end: str | None) -> tuple[int, int]:
        """First and last position from one instant to another; ``None``: no bound.

        Raises ``UsageError``, and ``RecordingError`` when nothing was recorded between them.
        """
        last = len(self.instants) - 1
        low, high = (
            self._meant(text, last) if text else self._times[place][0] for text, place in ((begin, 0), (end, -1))
        )
        if high < low:
            raise UsageError(f"{clock(high)} is before {clock(low)}")
        within = [position for at_ms, position in self._times if low <= at_ms <= high]
        if not within:
            whole = " to ".join(clock(self._times[place][0]) for place in (0, -1))
            raise RecordingError(
                f"{self._path}: nothing is recorded from {clock(low)} to {clock(high)}; it has {whole}"
            )
        return min(within), max(within)

    def _meant(self, text: str, shown: int) -> int:
        """In milliseconds since 1970."""
        taken = parse(self.snapshot(shown).taken_at)
        zone = taken.tzinfo if taken else None
        known = (self.instants[shown].at_ms, self._times[0][0], self._times[-1][0])
        return round(instant(text, *(moment(at_ms).astimezone(zone) for at_ms in known)).timestamp() * 1000)

    def _near(self, at_ms: int) -> int:
        """Of the last look that is not after that instant, else of the first one after it."""
        place = bisect_right(self._times, (at_ms, len(self.instants)))
        beside = {"before": self._times[:place][-1:], "after": self._times[place:][:1]}
        for at, position in itertools.chain(*beside.values()):
            if abs(at - at_ms) <= 1000 * NEAR:
                return position
        words = (
            f"the {'last' if side == 'before' else 'first'} look {side} it is of {clock(at)}"
            for side, found in beside.items()
            for at, _ in found
        )
        raise RecordingError(f"{self._path}: nothing is recorded at {clock(at_ms)}; {', '.join(words)}")

    def marks(self) -> list[tuple[int, Mark]]:
        """Each with the position at which it was set, oldest first."""
        return [(one.position, one.mark) for one in self.told if one.mark is not None]


def _gaps(looks: Sequence[Instant], broken: Iterable[str]) -> Iterator[str]:
    """The fine ring numbers the looks one by one: where it lacks some, a segment was cut at a record's end, or removed.

    What a damaged segment lacks is told with its damage; what went before the first one was dropped in its turn.
    """
    known = [parts(name)[1] for name in broken if name.startswith(FINE.name)]
    fine = [(place, look) for place, look in enumerate(looks) if look.segment.startswith(FINE.name)]
    for (place, look), (next_place, after) in itertools.pairwise(fine):
        missing = after.seq - look.seq - (next_place - place)  # of those between them the day's ring may have some
        if missing and not any(parts(look.segment)[1] <= number <= after.seq for number in known):
            lacking = counted(missing, "look is", "looks are")
            yield f"{lacking} missing between {clock(look.at_ms)} and {clock(after.at_ms)}"


_Said = tuple[object, Mark | None, tuple[str, str] | None, Mapping[str, Any] | None]


def _said(side: Mapping[str, Any]) -> Iterator[_Said]:
    """What a side tells, each with what it is known by. What is not of our form is left out."""
    for mark in _list(side.get("marks")):
        if (made := codec.read_as(Mark, mark)) is not None:
            yield made, made, None, None
    events = side.get("events")
    for resource, lines in events.items() if isinstance(events, dict) else ():
        for line in _list(lines):
            if isinstance(line, str):
                yield (resource, line), None, (resource, line), None
    for act in _list(side.get("acts")):
        if isinstance(act, dict) and isinstance(act.get("uid"), int):
            yield ("act", str(act.get("hash"))), None, None, act


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def moment(at_ms: int) -> datetime:
    """The instant with this box's offset; of what is none, 1970."""
    try:
        return datetime.fromtimestamp(at_ms / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0).astimezone()


def clock(at_ms: int) -> str:
    """The same as RFC 3339, to the second."""
    return moment(at_ms).isoformat(timespec="seconds")
