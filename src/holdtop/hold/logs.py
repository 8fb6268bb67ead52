"""Logs of the state, one line an entry: written by every account of the group, bounded, and read from their end."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Collection

from holdtop.hold.files import SHARED_FILE_MODE, Dir, Naming, Untrusted, is_in_place, rename, write_all


def append(directory: Dir, name: str, data: bytes) -> None:
    """Append whole lines with one write; a torn last line of somebody else swallows nothing of ours.

    The file is for all members (mode 0660): each account appends to it. Raises as ``Dir.open`` does.
    """
    fd = directory.open_or_create(name, os.O_RDWR | os.O_APPEND, mode=SHARED_FILE_MODE)
    try:
        with Naming(directory, name):
            size = os.fstat(fd).st_size
            torn = size and os.pread(fd, 1, size - 1) != b"\n"
            write_all(fd, (b"\n" if torn else b"") + data)
    finally:
        os.close(fd)


def rotate(directory: Dir, name: str, old: str, beyond: int) -> None:
    """Rename a log of more bytes away, over the older one; of several processes that see it, one does."""
    status = directory.status(name)
    if status is None or status.st_size <= beyond:
        return
    fd = directory.open(name)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if is_in_place(fd, directory, name):
            rename(directory, name, old)
    except BlockingIOError:
        return
    finally:
        os.close(fd)


def tail(directory: Dir, names: Collection[str], most: int) -> bytes:
    """The last bytes of a log that goes on from file to file, the newest named first; a first line may be cut.

    Whatever their size, no more than that is read. A file that is not there, or not to be believed, is an empty one.
    """
    data = b""
    for name in names:
        with contextlib.suppress(OSError, Untrusted):
            fd = directory.open(name)
            try:
                left, size = most - len(data), os.fstat(fd).st_size
                data = os.pread(fd, left, max(0, size - left)) + data
            finally:
                os.close(fd)
        if len(data) >= most:
            break
    return data
