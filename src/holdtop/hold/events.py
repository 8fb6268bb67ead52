"""What every hold says about each of its steps: one JSON object a line in ``Q/.log/events.jsonl``.

A log that is full, blocked or read-only never stops a hold: writing an event raises nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from holdtop.errors import HoldtopError
from holdtop.hold import logs
from holdtop.hold.files import DIRECTORY_MODE, Dir, Untrusted, json_object
from holdtop.hold.ticket import boot_id, now

LOG = ".log"
EVENTS = "events.jsonl"
ROTATED = "events.1.jsonl"
#: The log is renamed away beyond this size, in bytes; one older file is kept.
ROTATE_AT = 16 * 1024 * 1024
#: How much of the log's end is read back, in bytes.
TAIL = 256 * 1024


def record(queue: Dir, event: str, ticket: str, **content: object) -> Exception | None:
    """Append one event. ``content`` is JSON-able; whatever its text contains, it stays one line.

    Gives why it could not be written, instead of raising it.
    """
    line = {
        "at": now(),
        "boot": boot_id(),
        "event": event,
        "ticket": ticket,
        "by_pid": os.getpid(),
        **content,
    }
    try:
        with queue.sub(LOG, make=DIRECTORY_MODE) as log:
            logs.rotate(log, EVENTS, ROTATED, ROTATE_AT)
            logs.append(log, EVENTS, (json.dumps(line, ensure_ascii=True, default=str) + "\n").encode())
    except (OSError, Untrusted, HoldtopError) as error:
        return error
    return None


def tail(queue: Dir) -> Iterator[dict[str, object]]:
    """The newest events, oldest first. Lines that are no JSON object are skipped."""
    try:
        with queue.sub(LOG) as log:
            data = logs.tail(log, (EVENTS,), TAIL)
    except HoldtopError:
        return
    for line in data.split(b"\n"):
        if parsed := json_object(line):
            yield parsed


def recent_tickets(queue: Dir) -> Iterator[str]:
    """Ticket ids in the newest events: a lost sequence counter restarts above them."""
    return (str(event.get("ticket", "")) for event in tail(queue))
