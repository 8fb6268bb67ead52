"""Stop requests: how an operator ends another account's hold without a signal of their own.

``Q/.stop/ID`` names the ticket and its nonce; its author is the file's *owner*. A hold heeds its own account,
root, and the operators named in the system's configuration. Anybody else's request is a file and nothing more.
"""

from __future__ import annotations

import contextlib
import pwd
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdtop.errors import HoldtopError
from holdtop.hold import ticket as tickets
from holdtop.hold.files import STICKY_MODE, Dir, Untrusted, writing

STOP = ".stop"


@dataclass(frozen=True, slots=True)
class StopRequest:
    ticket_id: str
    nonce: str
    reason: str
    #: Uid of the file's owner.
    author: int


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def request(queue: Dir, ticket_id: str, nonce: str, reason: str) -> None:
    """Ask the hold of that ticket to end its payload. Raises ``PlaceError`` or ``StateWriteError``."""
    lines = {"v": tickets.FORMAT, "id": ticket_id, "nonce": nonce, "reason": reason, "at": tickets.now()}
    with writing(queue.of(STOP), "write a stop request"), queue.sub(STOP, make=STICKY_MODE) as stops:
        stops.replace(ticket_id, tickets.encode(lines))


def withdraw(queue: Dir, ticket_id: str) -> None:
    """Remove the request of a ticket that is over, if we may."""
    with contextlib.suppress(OSError, HoldtopError), queue.sub(STOP) as stops:
        stops.remove(ticket_id)


def find(queue: Dir, ticket_id: str, nonce: str) -> StopRequest | None:
    """The request for exactly this ticket, or ``None``."""
    with contextlib.suppress(OSError, Untrusted, HoldtopError), queue.sub(STOP) as stops:
        data, status = stops.read(ticket_id)
        lines = tickets.decode(data)
        if lines.get("id") == ticket_id and lines.get("nonce") == nonce:
            return StopRequest(ticket_id, nonce, lines.get("reason", ""), status.st_uid)
    return None


def heeded(found: StopRequest | None, own_uid: int, operators: Collection[int]) -> bool:
    """Whether that author may stop a hold of ``own_uid``."""
    return found is not None and (found.author in (own_uid, 0) or found.author in operators)


def pending(queue: Dir) -> Mapping[str, str]:
    """Ticket ids with a request, and who asks: for showing."""
    with contextlib.suppress(OSError, HoldtopError), queue.sub(STOP) as stops:
        return {
            name: user_name(status.st_uid)
            for name in stops.names()
            if not name.startswith(".") and (status := stops.status(name))
        }
    return {}
