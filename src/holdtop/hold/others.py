"""Other live holds, whose processes no ending may touch."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from holdtop.errors import HoldtopError
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Untrusted
from holdtop.hold.places import Places, neighbours
from holdtop.hold.ticket import TICKET_FORM
from holdtop.payload.custody import Holds


def other_holds(places: Places, but: Collection[int] = ()) -> Holds:
    """All whose state lies beside this one's, of any resource, but those with the pids ``but``.

    One in another pid namespace has no number here: what it calls its own is somebody else's.
    """
    claims: dict[int, list[tuple[Places, str]]] = {}
    for beside in neighbours(places):
        with contextlib.suppress(HoldtopError, OSError), beside.open_queue() as queue:
            for name in filter(TICKET_FORM.fullmatch, queue.names()):
                claims.setdefault(int(name.partition("-")[2]), []).append((beside, name))
    return Holds(claims.keys() - but, lambda pid: any(_lives(*claim) for claim in claims.get(pid, ())))


def _lives(places: Places, name: str) -> bool:
    with contextlib.suppress(HoldtopError, OSError, Untrusted), places.open_queue() as queue:
        return tickets.proven_live(tickets.read(queue, name))
    return False
