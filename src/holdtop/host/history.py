"""What is moved from an old queue into another: what happened, who did what, who survived. Tickets are not."""

from __future__ import annotations

import os
import stat

from holdtop.errors import RefusedError
from holdtop.hold.audit import AUDIT
from holdtop.hold.events import EVENTS, LOG, ROTATED
from holdtop.hold.files import ASIDE, DIRECTORY_MODE, SHARED_FILE_MODE, Dir, Untrusted, write_all
from holdtop.hold.queue import SEQUENCE
from holdtop.hold.receipt import OLDER, RECEIPTS
from holdtop.hold.survivors import SHELL_LIST, SURVIVORS

#: No file is moved beyond its last so many bytes.
LIMIT = 32 * 1024 * 1024
#: Logs of everybody, by directory: lines of both, the old ones first.
_LOGS = {".": (OLDER, RECEIPTS, SHELL_LIST), LOG: (ROTATED, EVENTS)}
#: Files whose owner is their author, and stays it.
_AUTHORED = (AUDIT, SURVIVORS)


def merge(old: Dir, into: Dir, author: int) -> None:
    """Add an old queue's history to another queue, which nobody uses. Twice is as once.

    ``author``: of a home's queue only what that uid owns is taken: root would else pass on what others have put there.
    Raises ``OSError``, ``Untrusted`` and ``PlaceError``.
    """
    for below in filter(old.status, (*_LOGS, *_AUTHORED)):
        with old.sub(below) as source, into.sub(below, make=_mode(source)) as target:
            if below in _AUTHORED:
                _adopt(source, target, author)
            for name in _LOGS.get(below, ()):
                if data := _read(source, name, author):
                    _join(target, name, data)
    _count_on(old, into, author)


def copy(old: Dir, into: Dir) -> None:
    """A whole queue of the state as it is, with owners and modes. Raises ``RefusedError`` for what is no file."""
    for name in old.names():
        status = old.status(name)
        if status is None or name.startswith(ASIDE):
            continue
        if stat.S_ISDIR(status.st_mode):
            with old.sub(name) as source, into.sub(name, make=stat.S_IMODE(status.st_mode)) as target:
                os.fchown(target.fd, status.st_uid, status.st_gid)
                os.fchmod(target.fd, stat.S_IMODE(status.st_mode))
                copy(source, target)
        elif stat.S_ISREG(status.st_mode):
            _put(into, name, _read(old, name) or b"", status)
        else:
            raise RefusedError(f"{old.of(name)} is neither a file nor a directory: remove it first")


def _mode(old: Dir) -> int:
    """As in a shared queue: there a directory is sticky if it was at home."""
    return DIRECTORY_MODE | os.fstat(old.fd).st_mode & stat.S_ISVTX


def _read(directory: Dir, name: str, author: int | None = None) -> bytes | None:
    """The file's end, whole lines; ``None`` when it is not there or another's."""
    try:
        fd = directory.open(name)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if author not in (None, status.st_uid):
            return None
        file.seek(max(0, status.st_size - LIMIT))
        data = file.read(LIMIT)
        return data if status.st_size <= LIMIT else data.partition(b"\n")[2]


def _join(target: Dir, name: str, old: bytes) -> None:
    there = (_read(target, name) or b"").splitlines(keepends=True)
    known = set(there)
    lines = [line if line.endswith(b"\n") else line + b"\n" for line in old.splitlines(keepends=True)]
    target.remove(name)
    data = b"".join([*(line for line in lines if line not in known), *there])
    os.close(target.create(name, data, mode=SHARED_FILE_MODE))


def _adopt(source: Dir, target: Dir, author: int) -> None:
    """Another of that name, as one account's chain of acts in both queues, stays; ours then gets a second name."""
    for name in source.names():
        try:
            data = _read(source, name, author)
        except Untrusted:
            continue  # a link or the like: it was nobody's word there either
        status = source.status(name)
        if data is None or status is None or name.startswith(ASIDE):
            continue
        if target.status(name) is not None:
            if (_read(target, name) or b"").startswith(data):
                continue
            name = f"{name}.{author}"
            target.remove(name)
        _put(target, name, data, status)


def _put(directory: Dir, name: str, data: bytes, like: os.stat_result) -> None:
    fd = directory.create(name)
    try:
        write_all(fd, data)
        os.fchown(fd, like.st_uid, -1)
        os.fchmod(fd, stat.S_IMODE(like.st_mode))
    finally:
        os.close(fd)


def _count_on(old: Dir, into: Dir, author: int) -> None:
    """A number is never used again: the greater counter counts on."""
    counters = [_read(old, SEQUENCE, author), _read(into, SEQUENCE)]
    numbers = [int(text) for data in counters if data and (text := data.strip()).isdigit() and len(text) <= 10]
    if numbers:
        into.replace(SEQUENCE, f"{max(numbers)}\n".encode())
