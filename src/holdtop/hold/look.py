"""One look at a resource's state: everything the files say, changing and blocking nothing."""

from __future__ import annotations

import os

from holdtop.errors import HoldtopError
from holdtop.hold import claim, receipt, record, recovery, stop, survivors, token
from holdtop.hold import queue as queues
from holdtop.hold.places import Places, exposed
from holdtop.hold.view import QueueView


def look(places: Places, before: QueueView | None = None) -> QueueView:
    """What lies there. A missing queue is an empty one; what cannot be read is in ``problems``.

    ``before``: what lay there a moment ago; of a crowd not everything is read again.
    """
    base = {
        "resource": places.resource,
        "queue_path": places.queue_path,
        "token_path": places.token_path,
        "rule": places.rule,
        "exposed": exposed(places),
    }
    problems: list[str] = []
    found_token = None
    try:
        with places.open_token_dir() as directory:
            found_token = token.look(directory, places.token_name)
    except (HoldtopError, OSError) as error:
        problems.append(str(error))
    if not os.path.lexists(places.queue_path):
        return QueueView(**base, token=found_token, problems=tuple(problems))  # type: ignore[arg-type]
    try:
        with places.open_queue() as queue:
            tickets, entries = queues.look(queue, before.tickets if before else ())
            records = record.read_all(queue)
            return QueueView(
                **base,  # type: ignore[arg-type]
                tickets=tuple(tickets),
                ran=tuple(recovery.ran(queue)),
                entries=tuple(entries),
                token=found_token,
                records=records,
                grouped={t.id: recovery.grouped(records[t.id], t) for t in tickets if t.id in records},
                survivors=survivors.lasting(queue),
                stops=stop.pending(queue),
                claims=claim.pending(queue),
                receipts=receipt.newest(queue),
                problems=tuple(problems),
            )
    except (HoldtopError, OSError) as error:
        return QueueView(**base, token=found_token, problems=(*problems, str(error)))  # type: ignore[arg-type]
