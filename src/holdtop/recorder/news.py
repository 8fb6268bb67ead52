"""What holds and operators wrote since the last look: their event logs and audits, followed by offset.

Anybody in the group writes there. Only whole lines are taken, so many at a time; each without its secrets.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdtop.errors import HoldtopError
from holdtop.hold import audit, events
from holdtop.hold.files import Dir, Untrusted, json_object
from holdtop.hold.redact import redact_text
from holdtop.model.values import Snapshot

#: Of a log that is seen for the first time, how much of its end is taken; and how much at one look, in bytes.
FIRST, MOST = 32 * 1024, 256 * 1024
#: A longer line is no line of ours, in bytes.
LONGEST = 16 * 1024


@dataclass(frozen=True, slots=True)
class News:
    """Foreign text."""

    #: Lines of the event logs by resource, oldest first.
    events: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: New records of all audits.
    acts: tuple[Mapping[str, Any], ...] = ()
    #: Those of them that were written while somebody looked.
    fresh: tuple[Mapping[str, Any], ...] = ()


class Reader:
    """Remembers how far each log was read."""

    def __init__(self) -> None:
        #: Device, inode and offset, by path.
        self._places: dict[str, tuple[int, int, int]] = {}
        #: Paths of the queues that were looked at before: what is new there was written meanwhile.
        self._queues: set[str] = set()

    def read(self, snapshot: Snapshot) -> News:
        """Raises nothing: a log that cannot be read has no news."""
        lines: dict[str, tuple[str, ...]] = {}
        acts: list[Mapping[str, Any]] = []
        fresh: list[Mapping[str, Any]] = []
        for resource in snapshot.resources:
            path = resource.queue_path
            # ValueError: a path that no file can have.
            with contextlib.suppress(OSError, ValueError, Untrusted, HoldtopError), Dir.root(path) as queue:
                if new := [*self._audits(queue)]:
                    acts += new
                    fresh += new if path in self._queues else ()
                if new_lines := tuple(map(_redacted, self._events(queue))):
                    lines[resource.name] = new_lines
        self._queues = {resource.queue_path for resource in snapshot.resources}
        return News(lines, tuple(acts), tuple(fresh))

    def _events(self, queue: Dir) -> list[bytes]:
        if queue.status(events.LOG) is None:
            return []
        with queue.sub(events.LOG) as log:
            rest = self._rest(log)
            return [*rest, *self._new(log, events.EVENTS, queue)] if log.status(events.EVENTS) else rest

    def _rest(self, log: Dir) -> list[bytes]:
        """What a log that has been rotated away since still had to say."""
        now, old = log.status(events.EVENTS), log.status(events.ROTATED)
        device, inode, offset = self._places.get(log.of(events.EVENTS), (0, 0, 0))
        if old is None or (device, inode) != (old.st_dev, old.st_ino) or (now and now.st_ino == inode):
            return []
        fd = log.open(events.ROTATED)
        try:
            return os.pread(fd, MOST, offset).split(b"\n")[:-1]
        finally:
            os.close(fd)

    def _audits(self, queue: Dir) -> Iterator[Mapping[str, Any]]:
        if queue.status(audit.AUDIT) is None:
            return
        with queue.sub(audit.AUDIT) as directory:
            for name in sorted(directory.names()):
                number = name.removesuffix(audit.SUFFIX)
                if name.endswith(audit.SUFFIX) and number.isdecimal():
                    lines = self._new(directory, name, queue, owner=int(number))
                    yield from (one for line in lines if (one := audit.parse(line)) and isinstance(one.get("uid"), int))

    def _new(self, directory: Dir, name: str, queue: Dir, owner: int | None = None) -> list[bytes]:
        """Its new whole lines. ``owner``: whose it has to be."""
        fd = directory.open(name)
        try:
            status = os.fstat(fd)
            if owner not in (None, status.st_uid):
                return []
            device, inode, offset = self._places.get(directory.of(name), (0, 0, 0))
            if (device, inode) != (status.st_dev, status.st_ino) or offset > status.st_size:
                offset = 0 if inode or queue.path in self._queues else max(0, status.st_size - FIRST)
            begin = max(offset, status.st_size - MOST)
            data = os.pread(fd, MOST, begin)
            torn = begin > 0 and os.pread(fd, 1, begin - 1) != b"\n"
        finally:
            os.close(fd)
        whole = data[: data.rfind(b"\n") + 1]
        self._places[directory.of(name)] = (status.st_dev, status.st_ino, begin + len(whole))
        return [line for line in whole.split(b"\n")[torn:-1] if len(line) <= LONGEST]


def _redacted(line: bytes) -> str:
    """One event on one line, its texts without secrets; a line that is none is a text itself."""
    said = json_object(line)
    if said is None:
        return redact_text(line.decode("utf-8", "backslashreplace"))
    return json.dumps({key: redact_text(value) if isinstance(value, str) else value for key, value in said.items()})
