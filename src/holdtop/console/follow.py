"""Follow a growing text file by its *name*, through rotation, truncation, replacement and deletion.

Each ``poll`` does a bounded amount of work whatever lies there: it never opens what could block (a FIFO, a
device), never gives more than ``BUDGET`` bytes, never keeps a line longer than ``LINE`` bytes. What it leaves out
it says.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

#: Bytes read at most in one poll; what a flood put in between is skipped, and that is said.
BUDGET = 256 * 1024
#: Bytes of the end that are shown when a file is first seen.
TAIL = 64 * 1024
#: Bytes of a line that are kept; the rest is counted.
LINE = 4096
#: Bytes searched backwards at most for the beginning of a line that is longer than what is shown of a file.
FAR = 256 * 1024 * 1024
#: Lines given back at most by one poll.
LINES = 2000
#: Bytes that are read at once of what lies before what is shown.
BACK = 256 * 1024
#: Bytes before the offset that are compared to notice a file rewritten in place.
PRINT = 64

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_NULS = re.compile(rb"\0{4,}")


class Place(NamedTuple):
    """Where a line begins."""

    #: Counts the files that have had the name, and the times one was rewritten: no offset is of two of them.
    generation: int
    offset: int


@dataclass(frozen=True, slots=True)
class Text:
    """One complete line, without its end; bytes that are no UTF-8 are kept as lone surrogates (PEP 383)."""

    text: str
    #: ``None`` where its beginning was not read.
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Open:
    """The last line while it has no end: a prompt, a progress bar. The next ``Open`` or ``Text`` takes its place.

    Empty when there is none any more.
    """

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that befell the file: ``rotated``, ``truncated``, ``missing``, ``skipped 12345 bytes``, …"""

    text: str
    #: Bytes of the file that are not shown because of it.
    left_out: int = 0


Said = Text | Open | Note


class _Line:
    """A line as it grows: its first ``LINE`` bytes, and how long it is."""

    def __init__(self) -> None:
        self._kept = b""
        #: Bytes of it that were dropped, and whether there are more before those.
        self._dropped = 0
        self._more = False

    def grow(self, part: bytes) -> None:
        """What follows a carriage return overwrites what was before it; a return at the very end waits for more."""
        body = part.rstrip(b"\r")
        if b"\r" in body or (body and self._kept.endswith(b"\r")):
            self.restart()
            part = part[body.rfind(b"\r") + 1 :]
        room = max(0, LINE - len(self._kept))
        self._kept += part[:room]
        self._dropped += max(0, len(part) - room)
        if self._dropped and part.endswith(b"\r"):
            self._kept = self._kept[:-1] + b"\r"

    def restart(self, unseen: int = 0, *, more: bool = False) -> None:
        """A new line, of which so many bytes (and, with ``more``, others before them) are not shown."""
        self._kept, self._dropped, self._more = b"", unseen, more

    def skip(self, count: int) -> None:
        """So many bytes of it were not looked at."""
        self._dropped += count

    @property
    def text(self) -> str:
        shown = _NULS.sub(lambda run: b"<%d NULs>" % len(run[0]), self._kept.rstrip(b"\r"))
        text = shown.decode("utf-8", "surrogateescape")
        length = len(self._kept) + self._dropped
        return f"({'more than ' if self._more else ''}{length} bytes) {text}…" if self._dropped else text


class Follower:
    """Follows one file, with one descriptor. Not to be shared between threads."""

    def __init__(self, path: str, *, links: bool = True, owner: int | None = None) -> None:
        """``links``: a link may lead to the file; where others can put one, it may not. ``owner``: whose it must be."""
        self.path = path
        self._links, self._owner = links, owner
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._print = b""
        self._line = _Line()
        self._generation = 0
        #: Where that line begins, if it was seen.
        self._line_at: int | None = 0
        #: The unfinished line as it was told last.
        self._told = ""
        self._trouble = ""
        self._ever = False

    def poll(self) -> list[Said]:
        """What is new since the last poll. Raises nothing."""
        said = self._look()
        if (unfinished := self._line.text) != self._told:
            said.append(Open(unfinished))
            self._told = unfinished
        return said

    def _look(self) -> list[Said]:
        said: list[Said] = []
        try:
            there = os.stat(self.path, follow_symlinks=self._links)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            self._say_trouble(said, _reason(error))
            return [*self._drain(), *said]
        if not stat.S_ISREG(there.st_mode):
            self._say_trouble(said, "is no regular file: not followed")
            return [*self._drain(), *said]
        if self._identity is not None and self._identity != (there.st_dev, there.st_ino):
            said += [*self._drain(), *self._end_line(), Note("rotated: a new file has this name")]
            self.close()
        if self._fd < 0 and not self._open(said):
            return said
        self._trouble = ""
        return [*said, *self._drain()]

    def before(self, place: Place) -> list[Said]:
        """The lines just before a place, oldest first, of at most ``BACK`` bytes; a ``Note`` where there is none."""
        if place.generation != self._generation or self._fd < 0:
            return [Note("what was before is no longer in this file")]
        if place.offset <= 0:
            return [Note("the file begins here")]
        start = max(0, place.offset - BACK)
        try:
            block = os.pread(self._fd, place.offset - start, start)
        except OSError as error:
            return [Note(_reason(error))]
        whole = block.find(b"\n", 0, len(block) - 1) + 1 if start else 0  # 0 too where one line fills the block
        parts = block[whole:].removesuffix(b"\n").split(b"\n")
        begin = place.offset - len(b"\n".join(parts[-LINES:])) - block.endswith(b"\n")
        return list(_placed(parts[-LINES:], self._generation, begin))

    def close(self) -> None:
        """Let the file go; the next poll begins with whatever has the name then."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._identity = -1, None
        self._begin()

    def _begin(self) -> None:
        self._offset, self._print = 0, b""
        self._generation += 1
        self._line_at = 0
        self._line.restart()

    def _open(self, said: list[Said]) -> bool:
        try:
            fd = os.open(self.path, _FLAGS if self._links else _FLAGS | os.O_NOFOLLOW)
            status = os.fstat(fd)
        except OSError as error:
            self._say_trouble(said, _reason(error))
            return False
        if not stat.S_ISREG(status.st_mode):  # replaced between the look and the opening
            os.close(fd)
            self._say_trouble(said, "is no regular file: not followed")
            return False
        if self._owner not in (None, status.st_uid):  # whoever named it could show what only we may read
            os.close(fd)
            self._say_trouble(said, "belongs to another account than its hold: not shown")
            return False
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)
        if not self._ever and status.st_size > TAIL:
            with contextlib.suppress(OSError):
                self._skip_to(status.st_size - TAIL)
            said.append(Note(f"what it had said before is not shown: {self._offset} bytes", self._offset))
        self._ever = True
        return True

    def _drain(self) -> list[Said]:
        if self._fd < 0:
            return []
        said: list[Said] = []
        try:
            size = os.fstat(self._fd).st_size
            if size < self._offset or not self._untouched():
                said += [*self._end_line(), Note("truncated or rewritten: shown from its beginning")]
                self._begin()
            if size - self._offset > BUDGET:
                skipped = -self._offset
                self._skip_to(size - BUDGET)
                skipped += self._offset
                said.append(Note(f"skipped {skipped} bytes: more is written than can be shown", skipped))
            block = os.pread(self._fd, BUDGET, self._offset) if size > self._offset else b""
        except OSError as error:
            self._say_trouble(said, _reason(error))
            return said
        if block:
            self._print = (self._print + block)[-PRINT:]
            said += self._lines(block, self._offset)
            self._offset += len(block)
        return said

    def _skip_to(self, target: int) -> None:
        """Go on at the first line that begins at ``target`` or behind it: half a line helps nobody.

        Of a line that reaches from before ``target`` to the end, the length is found. Raises ``OSError``.
        """
        self._print = b""
        block = os.pread(self._fd, BUDGET, target - 1)
        if (end := block.find(b"\n")) >= 0:
            self._offset = self._line_at = target + end
            self._line.restart()
            return
        floor = max(self._offset, target - FAR)
        begin = self._last_end(floor, target)
        if begin is not None or floor > self._offset:
            self._line.restart(target - (floor if begin is None else begin), more=begin is None)
            self._line_at = begin
        else:
            self._line.skip(target - self._offset)
        self._offset = target

    def _last_end(self, low: int, high: int) -> int | None:
        """Where the line that reaches ``high`` begins, if that is above ``low``."""
        while high > low:
            start = max(low, high - BUDGET)
            found = os.pread(self._fd, high - start, start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            high = start
        return None

    def _untouched(self) -> bool:
        """Whether the bytes before the offset are still those that were read."""
        return not self._print or (os.pread(self._fd, len(self._print), self._offset - len(self._print)) == self._print)

    def _lines(self, block: bytes, offset: int) -> list[Said]:
        *complete, rest = block.split(b"\n")
        said: list[Said] = []
        if len(complete) > LINES:
            bytes_ = sum(len(part) + 1 for part in complete[:-LINES])
            said.append(Note(f"skipped {len(complete) - LINES} lines: more is written than can be shown", bytes_))
            complete = complete[-LINES:]
            self._line.restart()
            offset += bytes_
            self._line_at = offset
        for part in complete:
            self._line.grow(part)
            offset += len(part) + 1
            said.append(self._complete(offset))
        self._line.grow(rest)
        return said

    def _complete(self, next_at: int | None = None) -> Text:
        """The line as it is now; the next one begins at ``next_at``."""
        at, self._line_at = self._line_at, next_at
        text = Text(self._line.text, None if at is None else Place(self._generation, at))
        self._line.restart()
        self._told = ""
        return text

    def _end_line(self) -> list[Said]:
        """The unfinished line, which nothing can follow any more."""
        return [self._complete()] if self._line.text else []

    def _say_trouble(self, said: list[Said], trouble: str) -> None:
        """Once, until it is another one."""
        if trouble != self._trouble:
            said.append(Note(trouble))
            self._trouble = trouble


def _placed(parts: Iterable[bytes], generation: int, offset: int) -> Iterator[Text]:
    """Lines that stand one after the other from ``offset`` on."""
    for part in parts:
        line = _Line()
        line.grow(part)
        yield Text(line.text, Place(generation, offset))
        offset += len(part) + 1


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "not there (yet): waiting for it"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) else 'no file can have this name'}"
