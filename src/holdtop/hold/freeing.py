"""Freeing a token in nobody's place: an operator's recovery, which takes the token only to give it back.

For an instant the token is our own, complete and with a living holder, so that whoever looks meanwhile waits; should
this process die in that instant, what it leaves is an ordinary ghost.
"""

from __future__ import annotations

import os

from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold import token
from holdtop.hold.files import Dir, writing
from holdtop.hold.places import Places
from holdtop.hold.ticket import Wish
from holdtop.hold.view import TokenFile


def free(places: Places, queue: Dir, seen: TokenFile, *, keep: bool) -> bool:
    """Exchange the token ``seen`` for our own and release that; False when something else lies there now.

    ``keep``: what lay there is kept beside it for inspection (see ``kept_name``). The caller has proven that
    nobody holds by it. Raises ``HoldError`` where the file system cannot exchange, ``StateDenied`` and the like.
    """
    content = content_of(places, Wish(places.resource, "recover", "holdtop recover"))
    kept = kept_name(places, seen) if keep else None
    with (
        places.open_token_dir() as directory,
        queues.locked(queue, token_dir=directory),
        writing(places.token_path, "free the token"),
    ):
        own = token.exchange_for(directory, places.token_name, content, seen, keep_as=kept)
        if own is None:
            return False
        try:
            own.release()
        finally:
            os.close(own.fd)
    return True


def content_of(places: Places, wish: Wish) -> bytes:
    """A token of this process for somebody who never queued."""
    lines = tickets.describe(wish, sequence=0)
    data = tickets.encode(lines)
    ticket = tickets.parse(data, uid=os.geteuid(), name=lines["id"], locked=True)
    return token.content(ticket, data, places.queue_path)


def kept_name(places: Places, seen: TokenFile) -> str:
    """Where a token that could not be read is kept; hidden, so that it names no resource."""
    return f".{places.token_name}.kept-{seen.inode}"
