"""Stop requests: how an operator ends another account's hold without a signal of their own.

``Q/.stop/ID.…`` names the ticket and its nonce; its author is the file's *owner*. A hold heeds its own account,
root, and the operators named in the system's configuration. Anybody else's request is a file and nothing more.
"""

from __future__ import annotations

import contextlib
import os
import pwd
from collections.abc import Callable, Collection, Mapping

from holdtop.errors import HoldtopError
from holdtop.hold import ticket as tickets
from holdtop.hold.files import STICKY_MODE, Dir, Untrusted, writing
from holdtop.lean import dataclass

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
    """Ask the hold of that ticket to end its payload. Raises ``PlaceError`` or ``StateWriteError``.

    The file's name cannot be known beforehand: in a sticky directory nobody can be kept from asking by a file that
    was put there first.
    """
    lines = {
        "v": tickets.FORMAT,
        "id": ticket_id,
        "nonce": nonce,
        "queue": _identity(queue),
        "reason": reason,
        "at": tickets.now(),
    }
    with writing(queue.of(STOP), "write a stop request"), queue.sub(STOP, make=STICKY_MODE) as stops:
        stops.replace(f"{ticket_id}.{os.urandom(8).hex()}", tickets.encode(lines))


def withdraw(queue: Dir, ticket_id: str) -> None:
    """Remove the requests for a ticket that is over, as far as we may."""
    with contextlib.suppress(OSError, HoldtopError), queue.sub(STOP) as stops:
        for name in _names(stops, ticket_id):
            with contextlib.suppress(OSError):
                stops.remove(name)


def find(queue: Dir, ticket_id: str, nonce: str, authors: Callable[[int], bool]) -> StopRequest | None:
    """A request for exactly this ticket by somebody who may ask, or ``None``."""
    with contextlib.suppress(OSError, HoldtopError), queue.sub(STOP) as stops:
        for name in _names(stops, ticket_id):
            with contextlib.suppress(OSError, Untrusted):
                there = stops.status(name)
                if there is None or not authors(there.st_uid):
                    continue  # unread: anybody may have put thousands there
                data, status = stops.read(name)
                lines = tickets.decode(data)
                meant = lines.get("id"), lines.get("nonce"), lines.get("queue")
                if meant == (ticket_id, nonce, _identity(queue)) and authors(status.st_uid):
                    return StopRequest(ticket_id, nonce, lines.get("reason", ""), status.st_uid)
    return None


def may_ask(author: int, own_uid: int, operators: Collection[int]) -> bool:
    """Whether that account may stop a hold of ``own_uid``."""
    return author in (own_uid, 0) or author in operators


def pending(queue: Dir) -> Mapping[str, str]:
    """Ticket ids with a request, and who asks: for showing."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError, HoldtopError), queue.sub(STOP) as stops:
        for name in filter(lambda name: not name.startswith("."), stops.names()):
            with contextlib.suppress(OSError, Untrusted):
                found[name.partition(".")[0]] = user_name(stops.read(name)[1].st_uid)
    return found


def _identity(queue: Dir) -> str:
    """What a request is bound to besides its ticket: whoever has made a ticket of the same id and nonce elsewhere,
    for an operator to stop, must not move the request here."""
    return str(os.fstat(queue.fd).st_ino)


def _names(stops: Dir, ticket_id: str) -> list[str]:
    return [name for name in stops.names() if name.partition(".")[0] == ticket_id]
