"""Follow a growing text file by its *name*, through rotation, truncation, replacement and deletion.

Each ``poll`` does a bounded amount of work whatever lies there: it never opens what could block (a FIFO, a
device), never reads more than ``BUDGET`` bytes, never keeps a line longer than ``LINE`` bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass

#: Bytes read at most in one poll; what a flood put in between is skipped, and that is said.
BUDGET = 256 * 1024
#: Bytes of the end that are shown when a file is first seen.
TAIL = 64 * 1024
#: Bytes of a line that are kept; the rest is counted.
LINE = 4096
#: Lines given back at most by one poll.
LINES = 2000
#: Bytes before the offset that are compared to notice a file rewritten in place.
PRINT = 64

_NULS = re.compile(rb"\0{4,}")


@dataclass(frozen=True, slots=True)
class Text:
    """One complete line, without its end; bytes that are no UTF-8 are kept as lone surrogates (PEP 383)."""

    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """Something that befell the file: ``rotated``, ``truncated``, ``missing``, ``skipped 12345 bytes``, …"""

    text: str


class Follower:
    """Follows one file, with one descriptor. Not to be shared between threads."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._print = b""
        self._partial = b""
        #: Bytes of the unfinished line that were dropped.
        self._dropped = 0
        self._trouble = ""
        self._ever = False

    def poll(self) -> list[Text | Note]:
        """What is new since the last poll. Raises nothing."""
        said: list[Text | Note] = []
        try:
            there = os.stat(self.path)
        except (OSError, ValueError) as error:  # ValueError: a name that no file can have
            self._say_trouble(said, _reason(error))
            return [*self._drain(), *said]
        if not stat.S_ISREG(there.st_mode):
            self._say_trouble(said, "is no regular file: not followed")
            return [*self._drain(), *said]
        if self._identity is not None and self._identity != (there.st_dev, there.st_ino):
            said += self._drain()
            said.append(Note("rotated: a new file has this name"))
            self.close()
        if self._fd < 0 and not self._open(said):
            return said
        self._trouble = ""
        said += self._drain()
        return said

    def close(self) -> None:
        """Let the file go; the next poll begins with whatever has the name then."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._identity = -1, None
        self._offset, self._print, self._partial, self._dropped = 0, b"", b"", 0

    def _open(self, said: list[Text | Note]) -> bool:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
            status = os.fstat(fd)
        except OSError as error:
            self._say_trouble(said, _reason(error))
            return False
        if not stat.S_ISREG(status.st_mode):  # replaced between the look and the opening
            os.close(fd)
            self._say_trouble(said, "is no regular file: not followed")
            return False
        self._fd, self._identity = fd, (status.st_dev, status.st_ino)
        if not self._ever and status.st_size > TAIL:
            self._offset = status.st_size - TAIL
            self._skip_to_line()
        self._ever = True
        return True

    def _skip_to_line(self) -> None:
        """Begin after the first line end behind the offset: half a line helps nobody."""
        with contextlib.suppress(OSError):
            block = os.pread(self._fd, TAIL, self._offset)
            end = block.find(b"\n")
            self._offset += end + 1 if end >= 0 else 0

    def _drain(self) -> list[Text | Note]:
        if self._fd < 0:
            return []
        said: list[Text | Note] = []
        try:
            size = os.fstat(self._fd).st_size
            if size < self._offset or not self._untouched():
                said.append(Note("truncated or rewritten: shown from its beginning"))
                self._offset, self._print, self._partial, self._dropped = 0, b"", b"", 0
            if size - self._offset > BUDGET:
                skipped = size - self._offset - BUDGET
                said.append(Note(f"skipped {skipped} bytes: more is written than can be shown"))
                self._offset += skipped
                self._partial, self._dropped = b"", 0
            block = os.pread(self._fd, BUDGET, self._offset) if size > self._offset else b""
        except OSError as error:
            self._say_trouble(said, _reason(error))
            return said
        if block:
            self._offset += len(block)
            self._print = (self._print + block)[-PRINT:]
            said += self._lines(block)
        return said

    def _untouched(self) -> bool:
        """Whether the bytes before the offset are still those that were read."""
        return not self._print or (os.pread(self._fd, len(self._print), self._offset - len(self._print)) == self._print)

    def _lines(self, block: bytes) -> list[Text | Note]:
        *complete, rest = block.split(b"\n")
        said: list[Text | Note] = []
        if len(complete) > LINES:
            said.append(Note(f"skipped {len(complete) - LINES} lines: more is written than can be shown"))
            complete = complete[-LINES:]
            self._partial, self._dropped = b"", 0
        for part in complete:
            said.append(Text(self._finished(part)))
            self._partial, self._dropped = b"", 0
        kept = max(0, LINE - len(self._partial))
        self._partial += rest[:kept]
        self._dropped += max(0, len(rest) - kept)
        if b"\r" in rest:  # a progress bar: only its last state can still matter
            self._partial, self._dropped = rest.rsplit(b"\r", 1)[1][:LINE], 0
        return said

    def _finished(self, part: bytes) -> str:
        whole = self._partial + part
        length = len(whole) + self._dropped
        shown = whole.removesuffix(b"\r").rsplit(b"\r", 1)[-1]
        shown = _NULS.sub(lambda run: b"<%d NULs>" % len(run[0]), shown)
        text = shown[:LINE].decode("utf-8", "surrogateescape")
        return f"{text}… ({length} bytes)" if len(shown) > LINE or self._dropped else text

    def _say_trouble(self, said: list[Text | Note], trouble: str) -> None:
        """Once, until it is another one."""
        if trouble != self._trouble:
            said.append(Note(trouble))
            self._trouble = trouble


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "not there (yet): waiting for it"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) else 'no file can have this name'}"
