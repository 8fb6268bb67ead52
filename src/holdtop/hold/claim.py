"""``Q/.claim/ID``: "being ended by …", so that two operators see each other. A claim binds nobody.

Its author is the file's owner. It expires by the clock that only this boot has (CLOCK_BOOTTIME,
clock_gettime(2)): a wall clock that is set neither keeps a claim alive nor ends it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from holdtop.errors import HoldtopError
from holdtop.hold import ticket as tickets
from holdtop.hold.files import DIRECTORY_MODE, Dir, Untrusted
from holdtop.hold.stop import user_name
from holdtop.hold.ticket import TICKET_FORM

CLAIM = ".claim"


def write(queue: Dir, ticket_id: str, seconds: float) -> None:
    """Claim a ticket for so many seconds. A claim that cannot be written is not shown; nothing is raised."""
    if not TICKET_FORM.fullmatch(ticket_id):
        return  # a shell's token or a foreign entry: there is nothing of ours to claim
    lines = {
        "v": tickets.FORMAT,
        "id": ticket_id,
        "boot": tickets.boot_id(),
        "until": f"{_clock() + seconds:.3f}",
    }
    with contextlib.suppress(OSError, HoldtopError), queue.sub(CLAIM, make=DIRECTORY_MODE) as claims:
        claims.replace(ticket_id, tickets.encode(lines))


def withdraw(queue: Dir, ticket_id: str) -> None:
    """Remove the claim on a ticket, if there is one."""
    if not TICKET_FORM.fullmatch(ticket_id):
        return
    with contextlib.suppress(OSError, HoldtopError), queue.sub(CLAIM) as claims:
        claims.remove(ticket_id)


def pending(queue: Dir) -> Mapping[str, str]:
    """Ticket ids with a claim that has not expired, and the name of the account whose it is."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, HoldtopError), queue.sub(CLAIM) as claims:
        for name in filter(TICKET_FORM.fullmatch, claims.names()):
            with contextlib.suppress(OSError, Untrusted, ValueError):
                data, status = claims.read(name)
                if _stands(tickets.decode(data), name):
                    found[name] = user_name(status.st_uid)
    return found


def _stands(lines: Mapping[str, str], ticket_id: str) -> bool:
    """Raises ``ValueError`` when the expiry is no number."""
    same = lines.get("id") == ticket_id and lines.get("boot") == tickets.boot_id()
    return same and float(lines.get("until", "")) > _clock()


def _clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
