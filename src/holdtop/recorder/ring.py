"""A ring on the disk: segments that only grow; the oldest one goes when there are too many records or bytes."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from holdtop.errors import RecordingError
from holdtop.hold.files import Dir, Untrusted, write_all
from holdtop.recorder import frames
from holdtop.recorder.frames import Frame, Packer, Scan

#: A recording is for whoever made it: it says what every account ran.
FILE_MODE = 0o600
#: A ring's segments: what is dropped at once is a twelfth of it.
PARTS = 12
#: What a disk says that has no room.
FULL = (errno.ENOSPC, errno.EDQUOT)
_NAME = re.compile(r"(fine|coarse)-(\d{12})\.rec", re.ASCII)
#: No recorder of ours has ever come so far; the number behind a larger one could not be written down.
_LARGEST = 10**11


@dataclass(frozen=True, slots=True)
class Bounds:
    name: str
    #: Seconds between two records.
    period: float
    #: How many records are kept at least, as far as they fit, and how many bytes at most.
    records: int
    size: int


#: An hour at a second and a day at ten, with four more looks for each of those at which something happens.
FINE = Bounds("fine", 1.0, 3600, 16 << 20)
COARSE = Bounds("coarse", 10.0, 5 * 8640, 32 << 20)


@dataclass(frozen=True, slots=True)
class _Segment:
    name: str
    records: int
    size: int


def segment_names(directory: Dir) -> list[str]:
    """Of both rings, oldest first."""
    names = (name for name in directory.names() if _NAME.fullmatch(name) and parts(name)[1] < _LARGEST)
    return sorted(names, key=lambda name: parts(name)[1])


def parts(name: str) -> tuple[str, int]:
    """The ring of a segment's name, and the number of its first record."""
    form = _NAME.fullmatch(name)
    assert form is not None
    return form[1], int(form[2])


def read(directory: Dir, name: str, begin: int = 0, size: int = frames.LARGEST_BODY) -> bytes:
    """A segment's bytes, as many as there are. Raises as ``Dir.open`` does."""
    fd = directory.open(name)
    with open(fd, "rb") as file:
        file.seek(begin)
        return file.read(size)


def _last_body(found: Scan) -> bytes | None:
    whole = next((one for one in reversed(found.frames) if one.kind == frames.WHOLE), None)
    if whole is None:
        return None
    last = found.frames[-1]
    try:
        body = frames.unpack(whole.body)
        return body if last is whole else frames.unpack(last.body, body)
    except RecordingError:
        return None


class Ring:
    """One writer's. Each method raises ``OSError``, and leaves the ring as it was before."""

    def __init__(self, directory: Dir, bounds: Bounds, head: Mapping[str, object]) -> None:
        self.bounds = bounds
        self._directory = directory
        self._head = frames.head({**head, "ring": bounds.name})
        self._old: deque[_Segment] = deque()
        self._fd: int | None = None
        self._name, self._count, self._size = "", 0, 0
        self._packer = Packer()
        #: The newest record's number that is on the disk.
        self.seq = 0
        #: The body of the last record that was there before, as far as it can be read.
        self.newest: bytes | None = None

    def reopen(self) -> Iterator[str]:
        """Go on behind what is there. Yields what had to be cut off."""
        names = [name for name in segment_names(self._directory) if parts(name)[0] == self.bounds.name]
        found = None
        for name in names:
            self.seq = max(self.seq, parts(name)[1])  # whatever is in it: that name is taken
            found = self._take_in(name)
        if found is None:
            return
        self.newest = _last_body(found)
        if found.torn:
            yield self._cut(names[-1], found)
        if found.torn or found.why is None:
            self._go_on()

    def _take_in(self, name: str) -> Scan | None:
        """``None`` when it is none of ours: replay says what it is; it goes when it is the oldest, as others do."""
        try:
            found = frames.scan(read(self._directory, name))
        except (RecordingError, Untrusted, OSError):
            found = None
        status = self._directory.status(name)
        self._old.append(_Segment(name, len(found.frames) if found else 0, status.st_size if status else 0))
        if found is not None:
            self.seq = max(self.seq, *(one.seq for one in found.frames if one.seq < _LARGEST), 0)
        return found

    def _cut(self, name: str, found: Scan) -> str:
        """A crash has left a part of the last record: it would stand in the way of the next one.

        Anything else that is wrong stays as it is: behind it there may be records that somebody can still save.
        """
        fd = self._directory.open(name, os.O_RDWR)
        try:
            lost = os.fstat(fd).st_size - found.good
            os.ftruncate(fd, found.good)
        finally:
            os.close(fd)
        self._old[-1] = replace(self._old[-1], size=found.good)
        return f"{self._directory.of(name)}: cut off {lost} bytes at byte {found.good}: {found.why}"

    def _go_on(self) -> None:
        """In the last segment, while it has room and is of this format and box."""
        if self._has_room(self._old[-1]) and self._same(self._old[-1].name):
            last = self._old.pop()
            self._fd = self._directory.open(last.name, os.O_RDWR)
            self._name, self._count, self._size, self._packer = last.name, last.records, last.size, Packer()

    def _has_room(self, segment: _Segment) -> bool:
        return segment.records < self.bounds.records // PARTS and segment.size < self.bounds.size // PARTS

    def _same(self, name: str) -> bool:
        return read(self._directory, name).startswith(self._head)

    def append(self, seq: int, at_ms: int, side: bytes, body: bytes) -> None:
        """One record, whole or not at all."""
        if not self._has_room(_Segment(self._name, self._count, self._size)) or self._vanished():
            self._close_segment()
        kind, packed = self._packer.pack(body)
        data = frames.frame(Frame(kind, seq, at_ms, side, packed))
        try:
            if self._fd is None:
                self._begin(seq)
            self._write(data)
        except OSError:
            self._packer = Packer()  # nothing may be packed against what is not on the disk
            raise
        self._count, self._size, self.seq = self._count + 1, self._size + len(data), seq
        self._prune()

    def _begin(self, seq: int) -> None:
        name = f"{self.bounds.name}-{seq:012}.rec"
        self._fd = self._directory.create(name, self._head, mode=FILE_MODE)
        self._name, self._count, self._size = name, 0, len(self._head)

    def _write(self, data: bytes) -> None:
        assert self._fd is not None
        try:
            os.lseek(self._fd, self._size, os.SEEK_SET)
            write_all(self._fd, data)
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise

    def _vanished(self) -> bool:
        """Somebody has removed the file that is written."""
        return self._fd is not None and os.fstat(self._fd).st_nlink == 0

    def _prune(self) -> None:
        records, size = (
            self._count + sum(one.records for one in self._old),
            self._size + sum(one.size for one in self._old),
        )
        while self._old and (records - self._old[0].records >= self.bounds.records or size > self.bounds.size):
            records, size = records - self._old[0].records, size - self._old[0].size
            self.drop_oldest()

    def drop_oldest(self) -> bool:
        """False when there is none but the one that is written."""
        if not self._old:
            return False
        self._directory.remove(self._old[0].name)
        self._old.popleft()
        return True

    def _close_segment(self) -> None:
        if self._fd is not None:
            if not self._vanished():
                self._old.append(_Segment(self._name, self._count, self._size))
            os.close(self._fd)
        self._fd, self._count, self._size, self._packer = None, 0, 0, Packer()

    def close(self) -> None:
        self._close_segment()
