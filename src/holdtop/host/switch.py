"""An old token while its queue is being left: held, so that no lane of either kind starts there meanwhile.

After the switch, lanes that queued in the last instant find the new place: ours when they get the token, which they
give back; one of the older tool knows no other place, so its ticket is removed, and it leaves (status 120).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator

from holdtop.errors import RefusedError
from holdtop.hold import freeing, recovery, token
from holdtop.hold import queue as queues
from holdtop.hold.files import writing
from holdtop.hold.look import look
from holdtop.hold.places import Places
from holdtop.hold.ticket import Wish
from holdtop.hold.token import OwnToken
from holdtop.hold.view import QueueEntry, QueueView, TicketFile
from holdtop.host.accounts import Account
from holdtop.host.homes import alive, exists, waiting
from holdtop.lean import dataclass
from holdtop.payload.powers import with_powers_of
from holdtop.payload.process import is_alive, read_stat

#: Seconds for those that queued in the last instant to leave; the older tool looks once a second or so.
PATIENCE = 30.0
_LOOK_AGAIN = 0.05


@dataclass(slots=True)
class Leaving:
    """One resource's queue in a home, and its token, which is ours."""

    whose: Account
    places: Places
    own: OwnToken | None

    def give_back(self) -> None:
        """Lanes there may take it again."""
        if (own := self.own) is not None:
            self.own = None
            with_powers_of(self.whose.uid, lambda: _give_back(self.places, own))

    def drain(self) -> None:
        """See to it that nobody waits there. Raises ``RefusedError`` when somebody stays."""
        self._evict_shells()
        if self._waiting():
            self.give_back()
            if not _in_time(lambda: not self._waiting()):
                raise RefusedError(f"{self._waiting()[0]} stays: end it, then run it again")

    def leave(self) -> None:
        """Remove the queue, then the token; who comes meanwhile finds no queue, and looks for its place anew.

        Raises ``RefusedError`` when somebody stays.
        """
        self.drain()
        while not with_powers_of(self.whose.uid, self._removed):
            self.drain()

    def _removed(self) -> bool:
        own, self.own = self.own or _take(self.places), None
        with own.directory, self.places.open_queue() as queue, queues.locked(queue, token_dir=own.directory):
            alone = not self._waiting()
            if alone:
                shutil.rmtree(self.places.queue_name, dir_fd=own.directory.fd)
            own.release()
            os.close(own.fd)
        return alone

    def _waiting(self) -> list[str]:
        return list(waiting(look(self.places)))

    def _evict_shells(self) -> None:
        shells = [entry for entry in look(self.places).entries if entry.pid is not None and exists(entry.pid)]
        with self.places.open_queue() as queue:
            for entry in shells:
                with_powers_of(self.whose.uid, lambda name=entry.name: queue.remove(name))  # type: ignore[misc]
        if not _in_time(lambda: not any(map(_runs, shells))):
            self.own = None  # it stays, as a ghost's: with the token free that lane would run beside the new holds
            raise RefusedError(
                f"pid {shells[0].pid} was told to leave {self.places.queue_path} and stays: end it, then free its "
                f"token {self.places.token_path} and run it again"
            )


def _runs(entry: QueueEntry) -> bool:
    """What is dead and not reaped takes no token."""
    stat = read_stat(entry.pid) if entry.pid else None
    return stat is not None and stat.state not in "ZX"


def _in_time(condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_AGAIN)
    return True


@contextlib.contextmanager
def held(whose: Account, places: Places) -> Iterator[Leaving]:
    """Have the old token until it is given back, at the latest at the block's end. Raises ``RefusedError``.

    A ghost's is taken over, and one that is empty or that nobody can read is set aside, as ``recover`` does.
    """
    leaving = Leaving(whose, places, with_powers_of(whose.uid, lambda: _take(places)))
    try:
        yield leaving
    finally:
        leaving.give_back()


def _take(places: Places) -> OwnToken:
    directory = places.open_token_dir()  # open as long as the token is ours
    with (
        places.open_queue(make=True) as queue,
        queues.locked(queue, token_dir=directory),
        writing(places.token_path, "take the token"),
        token.pinned(directory, places.token_name),
    ):
        found = token.look(directory, places.token_name)
        data = freeing.content_of(places, Wish(places.resource, "migrate", "holdtop state"))
        if found is None:
            own = token.take(directory, places.token_name, data)
        elif why := alive(found):
            raise RefusedError(f"{places.token_path} {why}; wait until that has ended")
        else:
            kept = freeing.kept_name(places, found) if found.kind == "garbled" else None
            own = token.exchange_for(directory, places.token_name, data, found, keep_as=kept)
    if own is None:
        raise RefusedError(f"{places.token_path} has been taken meanwhile; wait until that has ended")
    return own


def _give_back(places: Places, own: OwnToken) -> None:
    try:
        with places.open_queue() as queue, queues.locked(queue, token_dir=own.directory):
            own.release()
    finally:
        os.close(own.fd)
        own.directory.close()


def left_behind(view: QueueView) -> Iterator[str]:
    """Processes of dead holds that may live on: they have to be ended by ``recover`` first. Each a clause."""
    dead = {ticket.id: ticket for ticket in (*view.ran, *_of_token(view)) if ticket.dead}
    for ticket in dead.values():
        recorded = recovery.recorded_identities(view.records.get(ticket.id), ticket)
        pids = {one.pid for one in recorded if is_alive(one)} | view.grouped.get(ticket.id, frozenset())
        if pids:
            named = ", ".join(map(str, sorted(pids)))
            yield f"{view.queue_path}: the hold of lane {ticket.lane} is dead and pids {named} of it live"


def _of_token(view: QueueView) -> tuple[TicketFile, ...]:
    return (view.token.ticket,) if view.token and view.token.ghost and view.token.ticket else ()
