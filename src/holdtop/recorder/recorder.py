"""Keeps the recording of a box: takes each snapshot, never raises, and never costs more than a hundredth of a core."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdtop import __version__
from holdtop.errors import HoldtopError, RecordingError, RefusedError
from holdtop.hold.files import Dir, Untrusted
from holdtop.model.clock import parse
from holdtop.model.standing import Standing
from holdtop.model.values import Snapshot
from holdtop.recorder import codec, frames
from holdtop.recorder.marks import Mark, later, marks
from holdtop.recorder.news import News, Reader
from holdtop.recorder.ring import COARSE, FINE, FULL, Bounds, Ring

DIRECTORY_MODE = 0o700
#: Seconds until a directory that could not be used is tried again.
AGAIN = 10.0
#: After a record the recorder rests so many times longer than it computed.
REST = 99.0
#: A tick that comes so much early still counts, in seconds.
_EARLY = 0.1
#: What is told beside a snapshot waits for a record that can be written; not more of it than this.
_MOST_WAITING = 2000


class Store:
    """The directory of a recording, locked: of two recorders one has it."""

    def __init__(self, path: str, bounds: Sequence[Bounds]) -> None:
        """Makes the directory when it is missing. Raises ``RecordingError``, also where others may write."""
        self.path = path
        try:
            os.makedirs(path, DIRECTORY_MODE, exist_ok=True)
            self._directory = Dir(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), path)
        except OSError as error:
            raise unusable(path, error) from error
        #: What had to be cut off at the start.
        self.cut: tuple[str, ...] = ()
        #: The body of the last look that was recorded before.
        self.newest: bytes | None = None
        self.rings: tuple[Ring, ...] = ()
        head = {"host": os.uname().nodename, "holdtop": __version__}
        try:
            refuse_others(os.fstat(self._directory.fd))
            fcntl.flock(self._directory.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # no file, which could be removed below it
            self.rings = tuple(Ring(self._directory, one, head) for one in bounds)
            self.cut = tuple(said for ring in self.rings for said in ring.reopen())
            self.newest = next((ring.newest for ring in self.rings if ring.newest), None)
        except BlockingIOError:
            self.close()
            raise RecordingError(f"{path}: another recorder keeps this recording; name another directory") from None
        except (OSError, Untrusted, HoldtopError) as error:
            self.close()
            raise unusable(path, error) from error

    def append(self, ring: Ring, seq: int, at_ms: int, side: bytes, body: bytes) -> None:
        """On a full disk the oldest segments make room, of whichever ring has any. Raises ``OSError``."""
        while True:
            try:
                return ring.append(seq, at_ms, side, body)
            except OSError as error:
                if error.errno not in FULL or not any(one.drop_oldest() for one in (ring, *self.rings)):
                    raise

    def close(self) -> None:
        for ring in self.rings:
            ring.close()
        self._directory.close()


class Keeper(Protocol):
    """Where records go: ``Store``, or a memory."""

    @property
    def cut(self) -> Sequence[str]: ...

    @property
    def newest(self) -> bytes | None: ...

    @property
    def rings(self) -> Sequence[Any]: ...

    def append(self, ring: Any, seq: int, at_ms: int, side: bytes, body: bytes) -> None: ...

    def close(self) -> None: ...


class Recorder:
    """One directory's. ``complain`` is told once each why nothing is recorded, and when it is again."""

    def __init__(
        self,
        path: str,
        complain: Callable[[str], None],
        bounds: Sequence[Bounds] = (FINE, COARSE),
        store: Callable[[str, Sequence[Bounds]], Keeper] = Store,
    ) -> None:
        self._path, self._complain, self._bounds = path, complain, bounds
        self._make = store
        self._store: Keeper | None = None
        self._said: str | None = None
        self._again = 0.0
        self._previous: Snapshot | None = None
        #: The last look of the recorder before, until ours.
        self._before: Snapshot | None = None
        self._standing, self._reader = Standing(), Reader()
        #: By ring: when the next record is due, and what is to be told beside it.
        self._due = dict.fromkeys((one.name for one in bounds), 0.0)
        self._waiting = {one.name: Waiting() for one in bounds}

    def open(self) -> None:
        """Use the directory now. Raises ``RecordingError``."""
        self._store = self._make(self._path, self._bounds)
        for said in self._store.cut:
            self._complain(said)
        if self._previous is None and self._store.newest is not None:
            with contextlib.suppress(RecordingError):
                self._before = codec.decode(self._store.newest)

    def take(self, snapshot: Snapshot) -> None:
        """Record what is due. Raises nothing: whoever watches goes on watching."""
        began = time.thread_time()
        try:
            self._take(snapshot)
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not end the watch, and is told
            self._fail(error, snapshot.at)
        rest = snapshot.at + REST * (time.thread_time() - began)
        self._due = {name: max(due, rest) for name, due in self._due.items()}

    def _take(self, snapshot: Snapshot) -> None:
        try:
            if self._store is None and snapshot.at >= self._again:
                self.open()
        finally:
            self._note(snapshot)
        due = [one for one in self._bounds if snapshot.at >= self._due[one.name] - _EARLY]
        if not due or self._store is None:
            return
        body = codec.encode(snapshot)
        seq = 1 + max(ring.seq for ring in self._store.rings)
        for ring in self._store.rings:
            waiting = self._waiting[ring.bounds.name]
            # The first ring has all that any has: so its numbers tell whether a look is missing.
            if ring.bounds is self._bounds[0] or ring.bounds in due or waiting.marks:
                self._store.append(ring, seq, milliseconds(snapshot.taken_at), waiting.side(), body)
                self._waiting[ring.bounds.name] = Waiting()
                self._due[ring.bounds.name] = snapshot.at + ring.bounds.period
        if self._said is not None:
            self._said = None
            self._complain(f"{self._path}: recording again")

    def _note(self, snapshot: Snapshot) -> None:
        """What happened is kept until it is on the disk, whatever becomes of the look that saw it."""
        news = self._reader.read(snapshot)
        new = self._happened(snapshot, news)
        self._previous = snapshot
        for waiting in self._waiting.values():
            waiting.add(new, news)

    def _happened(self, snapshot: Snapshot, news: News) -> tuple[Mark, ...]:
        notices = tuple(self._standing.compare(snapshot))
        if (before := self._before) is None:
            return marks(self._previous, snapshot, notices, news.fresh)
        # What was recorded has lost its secrets: so does what it is compared with.
        self._before, now, standing = None, codec.decode(codec.encode(snapshot)), Standing()
        deque(standing.compare(before), maxlen=0)
        meanwhile = [act for act in news.acts if later(act, before.taken_at)]
        return marks(before, now, standing.compare(now), meanwhile)

    def _fail(self, error: Exception, at: float) -> None:
        said = str(error) if isinstance(error, RecordingError) else str(unusable(self._path, error))
        if said != self._said:
            self._said = said
            self._complain(f"{said}; nothing is recorded until that is mended")
        if not (isinstance(error, OSError) and error.errno in FULL):
            self.close()
        self._again = at + AGAIN

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None


@dataclasses.dataclass(slots=True)
class Waiting:
    """What the next record of a ring tells beside its snapshot."""

    marks: list[Mark] = dataclasses.field(default_factory=list)
    events: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    acts: list[object] = dataclasses.field(default_factory=list)

    def add(self, new: Sequence[Mark], news: News) -> None:
        self.marks = [*self.marks, *new][-_MOST_WAITING:]
        self.acts = [*self.acts, *news.acts][-_MOST_WAITING:]
        for resource, lines in news.events.items():
            self.events[resource] = [*self.events.get(resource, ()), *lines][-_MOST_WAITING:]

    def side(self) -> bytes:
        said = {"marks": [dataclasses.asdict(mark) for mark in self.marks], "events": self.events, "acts": self.acts}
        return frames.pack_side({key: value for key, value in said.items() if value})


def refuse_others(status: os.stat_result) -> None:
    """Raise ``RefusedError`` for a directory in which somebody else could change what is recorded."""
    if status.st_uid != os.geteuid():
        raise RefusedError(f"it belongs to uid {status.st_uid}: record as that account, or elsewhere")
    if status.st_mode & 0o022:
        raise RefusedError("others may write there: chmod go-w it, or record elsewhere")


def milliseconds(instant: str) -> int:
    """Since 1970; 0 for what is no instant."""
    parsed = parse(instant)
    return round(parsed.timestamp() * 1000) if parsed else 0


def unusable(path: str, error: Exception) -> RecordingError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    why = why or type(error).__name__
    return RecordingError(f"cannot record in {path}: {why}")
