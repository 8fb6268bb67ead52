"""A recording in memory: what a console has seen since it was opened, packed as on a disk and gone with it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from holdtop.errors import RecordingError
from holdtop.model.values import Snapshot
from holdtop.recorder import frames
from holdtop.recorder.frames import Frame, Packer, Scan
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import Bounds

#: An hour at a second: some MiB.
BOUNDS = Bounds("memory", 1.0, 3600, 16 << 20)


class MemoryRing:
    """As ``Ring``. Segments are what stands for itself: a whole body and what was packed against it."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.seq = bounds, 0
        self._packer = Packer()
        self._segments: deque[list[Frame]] = deque()
        self._lock = threading.Lock()

    def append(self, seq: int, at_ms: int, side: bytes, body: bytes) -> None:
        kind, packed = self._packer.pack(body)
        with self._lock:
            if kind == frames.WHOLE:
                self._segments.append([])
            self._segments[-1].append(Frame(kind, seq, at_ms, side, packed))
            self.seq = seq
            while len(self._segments) > 1 and self._too_much():
                self._segments.popleft()

    def _too_much(self) -> bool:
        records = sum(map(len, self._segments)) - len(self._segments[0])
        size = sum(len(one.side) + len(one.body) for segment in self._segments for one in segment)
        return records >= self.bounds.records or size > self.bounds.size

    def copied(self) -> dict[str, tuple[Frame, ...]]:
        """By name, oldest first."""
        with self._lock:
            return {f"{segment[0].seq:012}": tuple(segment) for segment in self._segments}


class MemoryStore:
    """As ``Store``, of one ring."""

    cut: tuple[str, ...] = ()
    newest: bytes | None = None

    def __init__(self) -> None:
        self.ring = MemoryRing(BOUNDS)
        self.rings = (self.ring,)

    def append(self, ring: MemoryRing, seq: int, at_ms: int, side: bytes, body: bytes) -> None:
        ring.append(seq, at_ms, side, body)

    def close(self) -> None:
        """It stays for those who look at it."""


class MemorySegments:
    """As ``Segments``: the ring as it was when this was made."""

    path, left_out = "what this console has seen", 0

    def __init__(self, copied: dict[str, tuple[Frame, ...]]) -> None:
        self._copied = copied
        self.names = list(copied)

    def of(self, name: str) -> str:
        return f"{self.path}, from look {int(name)}"

    def scan(self, name: str) -> Scan:
        return Scan({}, self._copied[name], (), 0, None)

    def frame(self, name: str, place: int) -> Frame:
        return self._copied[name][place]


class Memory:
    """Takes looks as a recorder does, and gives them back as a recording."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self._recorder = Recorder("", lambda _: None, (BOUNDS,), lambda _path, _bounds: self._store)
        self.newest: Snapshot | None = None

    def take(self, snapshot: Snapshot) -> None:
        """Raises nothing."""
        self.newest = snapshot
        self._recorder.take(snapshot)

    def close(self) -> None:
        self._recorder.close()

    def recording(self, others: Sequence[str] = ()) -> Recording:
        """A recording of this very box that reaches until now, of those at ``others``; else what was taken.

        Blocks while it is read. Raises ``RecordingError`` when nothing was seen yet.
        """
        for path in others:
            try:
                found = Recording(path)
                last = found.snapshot(len(found.instants) - 1)
            except RecordingError:
                continue
            if self.newest is not None and _same(last, self.newest):
                return found
        return Recording(MemorySegments.path, MemorySegments(self._store.ring.copied()))


#: A recording that is older than so many seconds is not kept any more.
RECENT = 30.0


def _same(recorded: Snapshot, newest: Snapshot) -> bool:
    """Whether both are of one box, one state and about the same time."""
    if (recorded.host, recorded.boot_id, recorded.roots) != (newest.host, newest.boot_id, newest.roots):
        return False
    tokens = [{one.token_path for one in look.resources} for look in (recorded, newest)]
    return tokens[0] == tokens[1] and abs(newest.at - recorded.at) < RECENT
