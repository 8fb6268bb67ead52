"""Operators' acts on record: ``Q/.audit/UID.jsonl``, one file and one hash chain per account.

A record is one line of JSON, whatever its text contains; an act is two, intent and outcome, with one ``act``
id. Each carries the SHA-256 of itself and of the one before. The chain shows accidents, and edits by whoever
does not own the file; its owner could write it anew. Therefore each record also goes to the journal, which is
the authority.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from holdtop.errors import HoldtopError, RefusedError
from holdtop.hold import journal
from holdtop.hold.files import STICKY_MODE, Dir, Untrusted, write_all
from holdtop.hold.ticket import boot_id, now
from holdtop.lean import dataclass

AUDIT = ".audit"
#: No audit file is read beyond this, in bytes: it may have been made to be large.
READ_LIMIT = 16 * 1024 * 1024
#: No record is longer than this, in bytes.
LONGEST_LINE = 1024 * 1024
SUFFIX = ".jsonl"
#: What the first record of a file names as the one before it.
FIRST = "0" * 64
#: How long another process of the same account may be writing, in seconds.
LOCK_WAIT = 5.0
_UNSET_LOGIN = (1 << 32) - 1

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bad:
    """The first record of a file that is not as it was written."""

    file: str
    #: Counted from 1.
    line: int
    why: str


def actor() -> dict[str, int | None]:
    """Who acts: the uid and the login uid (``/proc/self/loginuid``, pam_loginuid(8)), never a variable."""
    login = None
    with contextlib.suppress(OSError, ValueError), open("/proc/self/loginuid", encoding="ascii") as file:
        login = int(file.read())
    return {"uid": os.getuid(), "login_uid": None if login == _UNSET_LOGIN else login}


def append(queue: Dir, content: Mapping[str, object]) -> Record:
    """Put one record on the disk (fsync) and send it to the journal. Returns it as written.

    Raises ``RefusedError`` when it cannot be written; then nothing of it is in the file.
    """
    said = {**content, **actor(), "at": now(), "boot": boot_id()}
    try:
        with queue.sub(AUDIT, make=STICKY_MODE) as audit:
            record = _append(audit, f"{os.geteuid()}{SUFFIX}", said)
    except (OSError, Untrusted, HoldtopError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise RefusedError(
            f"the audit in {queue.of(AUDIT)} cannot be written ({why}); nothing was done: "
            "mend it, or act without a record by --unaudited"
        ) from error
    to_journal(record)
    return record


def _append(audit: Dir, name: str, said: dict[str, object]) -> Record:
    fd = audit.open_or_create(name, os.O_RDWR | os.O_APPEND)
    try:
        _lock(fd)
        status = os.fstat(fd)
        size = status.st_size
        if status.st_uid != os.geteuid():
            raise Untrusted(f"{audit.of(name)} was made by uid {status.st_uid}, who could change what it says")
        torn, seq, prev = _last(fd, size)
        record = sealed({**said, "seq": seq + 1, "prev": prev})
        try:
            write_all(fd, (b"\n" if torn else b"") + canonical(record) + b"\n")
            os.fsync(fd)
        except OSError:
            os.ftruncate(fd, size)  # a half record would stand in the way of verify for ever
            raise
        if size == 0:
            os.fsync(audit.fd)
        return record
    finally:
        os.close(fd)


def _lock(fd: int) -> None:
    until = time.monotonic() + LOCK_WAIT
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise OSError(errno.EAGAIN, f"locked by another process for {LOCK_WAIT:g} s") from error
        time.sleep(0.01)


def _last(fd: int, size: int) -> tuple[bool, int, str]:
    """Whether the last line is torn; sequence and hash of the last whole record."""
    torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    span = 64 * 1024
    while True:
        start = max(0, size - span)
        lines = os.pread(fd, size - start, start).split(b"\n")
        for line in reversed(lines if start == 0 else lines[1:]):
            if record := parse(line):
                return torn, record["seq"], record["hash"]
        if start == 0:
            return torn, 0, FIRST
        if span > READ_LIMIT:
            raise Untrusted(f"its last {span >> 20} MiB hold no record")
        span *= 8


def canonical(record: Record) -> bytes:
    """The one spelling of a record: ASCII, no newline, keys in order."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"), default=str).encode("ascii")


def sealed(content: Record) -> Record:
    """The record with its hash, which covers everything else in it."""
    plain = json.loads(canonical(content))
    return {**plain, "hash": hashlib.sha256(canonical(plain)).hexdigest()}


def parse(line: bytes) -> Record | None:
    """One line as a record, if it has a record's form; whether it is genuine is for ``verify``."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("seq"), int):
        return None
    return record if isinstance(record.get("hash"), str) and isinstance(record.get("uid", 0), int) else None


def verify(queue: Dir) -> list[Bad]:
    """The first bad record of each account's file; empty when all chains are whole. Raises ``PlaceError``."""
    found = (_verify(name, lines) for name, lines in _files(queue))
    return [bad for bad in found if bad]


def _verify(name: str, lines: Iterator[bytes] | str) -> Bad | None:
    if isinstance(lines, str):
        return Bad(name, 0, lines)
    prev, seq = FIRST, 0
    for number, line in enumerate(lines, 1):
        record = parse(line)
        if record is None:
            return Bad(name, number, "it is no record: cut short or overwritten")
        if canonical(record) != line or sealed({k: v for k, v in record.items() if k != "hash"}) != record:
            return Bad(name, number, "it was changed: its hash does not fit")
        if record.get("prev") != prev or record["seq"] != seq + 1:
            return Bad(name, number, f"it does not follow record {seq}: something before it is missing")
        prev, seq = record["hash"], record["seq"]
    return None


def records(queue: Dir) -> list[Record]:
    """Everything on record of all accounts, by time; what is no record is left out (``verify`` names it)."""
    found = [
        record for _, lines in _files(queue) if not isinstance(lines, str) for line in lines if (record := parse(line))
    ]
    return sorted(found, key=instant)


def instant(record: Record) -> float:
    """When a record says that it was written, in seconds since 1970; 0 when it says nothing."""
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return datetime.datetime.fromisoformat(record.get("at", "")).timestamp()
    return 0.0


def _files(queue: Dir) -> Iterator[tuple[str, Iterator[bytes] | str]]:
    """Each account's file: its lines, one at a time (its owner may have made it to fill a memory), or why it cannot
    be read."""
    if queue.status(AUDIT) is None:
        return
    with queue.sub(AUDIT) as audit:
        for name in sorted(audit.names()):
            if not name.removesuffix(SUFFIX).isdigit():
                continue
            try:
                fd = audit.open(name)
            except (OSError, Untrusted) as error:
                yield audit.of(name), str(error)
                continue
            with open(fd, "rb") as file:
                owner, size = os.fstat(fd).st_uid, os.fstat(fd).st_size
                genuine = f"{owner}{SUFFIX}" == name
                yield (
                    audit.of(name),
                    (_lines(file, size) if size <= READ_LIMIT else f"it is larger than {READ_LIMIT} bytes")
                    if genuine
                    else f"it belongs to uid {owner}, not to its name's",
                )


def _lines(file: BinaryIO, size: int) -> Iterator[bytes]:
    """What is in the file now, whatever is added meanwhile. A line that is too long is cut, and no record then."""
    while size > 0 and (line := file.readline(min(size, LONGEST_LINE))):
        size -= len(line)
        yield line.removesuffix(b"\n")


def to_journal(record: Record) -> None:
    """The record, and what to find it by."""
    said = f"{record.get('verb')} {record.get('kind')} {record.get('ticket') or record.get('asked') or ''}"
    fields = {
        "MESSAGE": "".join(c if c.isprintable() else "?" for c in said),
        "PRIORITY": "5",
        "SYSLOG_IDENTIFIER": "holdtop",
        "HOLDTOP_ACT": str(record.get("act")),
        "HOLDTOP_HASH": str(record.get("hash")),
    }
    journal.send(fields, {"HOLDTOP_RECORD": canonical(record)})
