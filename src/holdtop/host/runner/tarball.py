"""The vendor's archive: checked against its checksums, then unpacked by the account itself, or refused as a whole."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from holdtop.errors import RefusedError, UsageError

#: Of the archive, in bytes; and of what it unpacks to, and in entries. The largest of the vendors' is a tenth of it.
LARGEST = 4 << 30
LARGEST_UNPACKED = 16 << 30
MOST_ENTRIES = 500_000
_SUM = re.compile(r"([0-9A-Fa-f]{64}) [ *](\S.*)")


@contextmanager
def checked(path: str, sums_path: str) -> Iterator[IO[bytes]]:
    """A private copy of the archive that has the checksum which ``sums_path`` (sha256sum(1)) gives for its name.

    What is checked is what is unpacked: the file itself may change meanwhile. Raises ``RefusedError``.
    """
    wanted = _wanted(path, sums_path)
    with tempfile.TemporaryFile() as copy:
        digest, size = hashlib.sha256(), 0
        with _opened(path) as file:
            while part := file.read(1 << 20):
                digest.update(part)
                size += copy.write(part)
                if size > LARGEST:
                    raise RefusedError(f"{path} is larger than {LARGEST} bytes: that is no runner's archive")
        if digest.hexdigest() != wanted:
            raise RefusedError(f"{path} has the checksum {digest.hexdigest()}, but {sums_path} says {wanted}")
        check_members(copy, path)
        yield copy


def check_members(archive: IO[bytes], path: str) -> None:
    """Raise ``RefusedError`` for an archive with any entry that would leave its directory, or be no plain file."""
    unpacked, links = 0, set[str]()
    archive.seek(0)
    try:
        with tarfile.open(fileobj=archive) as tar:
            for count, one in enumerate(tar, 1):
                unpacked += one.size
                if reason := _hostile(one, links):
                    raise RefusedError(f"{path}: {one.name!r} {reason}: not unpacked")
                if count > MOST_ENTRIES or unpacked > LARGEST_UNPACKED:
                    raise RefusedError(f"{path} unpacks to too much: {count} entries, {unpacked} bytes and more")
                if one.issym():
                    links.add(os.path.normpath(one.name))
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RefusedError(f"{path} is no archive that can be read: {error}") from error


def unpack(archive: IO[bytes], directory: str) -> None:
    """To be called as the account that will own it; ``check_members`` has looked at it."""
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        # Its absence (Python before 3.11.4) leaves the checks above, which are stricter.
        options: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        tar.extractall(directory, **options)


def _hostile(one: tarfile.TarInfo, links: set[str]) -> str | None:
    name = os.path.normpath(one.name)
    if one.name.startswith("/") or ".." in one.name.split("/"):
        return "leads out of the directory"
    if any(above in links for above in _above(name)):
        return "lies behind a link of the archive"
    if not (one.isreg() or one.isdir() or one.issym() or one.islnk()):
        return "is neither file, directory nor link"
    if one.mode & (stat.S_ISUID | stat.S_ISGID):
        return "would run with another's powers (setuid, setgid)"
    if one.issym() and (_leaves(os.path.join(os.path.dirname(name), one.linkname)) or _turns_back(one.linkname)):
        return f"is a link to {one.linkname!r}, outside"
    if one.islnk() and (_leaves(one.linkname) or any(above in links for above in _above(one.linkname))):
        return f"is a second name of {one.linkname!r}, outside"
    return None


def _above(name: str) -> Iterator[str]:
    """The name itself, and every directory above it."""
    while name not in ("", ".", "/"):
        yield name
        name = os.path.dirname(name)


def _leaves(path: str) -> bool:
    return path.startswith("/") or os.path.normpath(path).split("/")[0] == ".."


def _turns_back(target: str) -> bool:
    """``a/../b``: where that leads depends on whether ``a`` is itself a link."""
    parts = target.split("/")
    return any(part == ".." and before != ".." for before, part in itertools.pairwise(parts))


def _wanted(path: str, sums_path: str) -> str:
    with _opened(sums_path) as file:
        lines = file.read(1 << 20).decode("utf-8", "replace").splitlines()
    sums = [match for line in lines if (match := _SUM.fullmatch(line.strip()))]
    found = {one[1].lower() for one in sums if os.path.basename(one[2]) == os.path.basename(path)}
    if len(found) != 1:
        said = "says nothing of" if not found else "contradicts itself about"
        raise RefusedError(f"{sums_path} {said} {os.path.basename(path)}: it needs one line as sha256sum prints it")
    return found.pop()


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """A regular file. Raises ``UsageError``."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UsageError(f"{path} is no regular file")
        yield file
