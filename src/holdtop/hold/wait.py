"""Waiting for one's turn, in the kernel: woken by the predecessor's end, the token's, a signal, or an eviction.

Everybody watches whoever is directly ahead: its process (a pidfd) and, near the head, its ticket, which goes a few
milliseconds earlier. One release wakes one waiter, besides the first in line, who watches the token. Subscribe, look
again, then sleep, and near the head never for more than two seconds; who then sees the same sleeps on, except the
first in line.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable
from itertools import cycle, islice
from signal import SIGCHLD, SIGCONT, SIGINT, Signals

from holdtop.errors import HoldError
from holdtop.hold import events, survivors, token
from holdtop.hold import queue as queues
from holdtop.hold.custody import Held
from holdtop.hold.files import Dir
from holdtop.hold.inotify import GOES, Watch
from holdtop.hold.narrate import Narrator
from holdtop.hold.places import Places, ensure, exposed
from holdtop.hold.queue import OwnTicket
from holdtop.hold.take import MovedElsewhere, Taker
from holdtop.hold.ticket import Wish
from holdtop.hold.view import TicketFile, TokenFile
from holdtop.lean import dataclass
from holdtop.payload.custody import End
from holdtop.payload.ending import Bounds
from holdtop.payload.process import Identity, Pinned, UnreadableProcess, is_alive
from holdtop.payload.signals import SignalInbox, ready
from holdtop.payload.starter import Starter
from holdtop.payload.terminal import in_foreground

#: The longest sleep between two looks, in seconds.
LONGEST_SLEEP = 2.0
#: The longest with more than ``FRONT`` ahead, in seconds: a cold Python costs more to wake than all that it then does.
#: An inotify instance tells of an eviction at once; who has none hears of it this much later, and was in nobody's way.
PATIENT_SLEEP = 12.0
FRONT = 4
#: After so many sleeps of five nobody's life is asked after: whoever is directly in our way wakes us by dying. What
#: is left is a holder that dies while the head is stopped.
SELDOM = 4
#: This near to the head a waiter has an inotify instance: of 128 that a user has by default, some are for others.
NEAR = 48
#: Where the sight may change and nothing that is asked after a sleep would show it, in seconds.
LOOK_AGAIN = 1.0
#: Where nothing can wake us, in seconds.
SHORT_SLEEP = 0.2
#: A free token is left to whoever is ahead for this long, in seconds; then the next may take it.
HEAD_PATIENCE = 3.0


class Leave(Exception):
    """The waiter leaves the queue without the token."""

    def __init__(self, status: int, reason: str, text: str, die_of: Signals | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.die_of = die_of


@dataclass(frozen=True, slots=True)
class Sight:
    """What a waiter sees: who is ahead without holding the token, and the token."""

    #: The nearest: one while somebody holds, else one more than have had their time.
    ahead: tuple[TicketFile, ...]
    token: TokenFile | None
    #: Nobody is ahead, or all who are have had their time to take what lies free.
    our_turn: bool

    @property
    def awaited(self) -> TicketFile | None:
        """Whose end brings our turn nearer."""
        return self.ahead[-1] if self.ahead else self.token.ticket if self.token else None


@dataclass(slots=True)
class Waiter:
    """One wait for one resource."""

    places: Places
    wish: Wish
    inbox: SignalInbox
    starter: Starter
    narrator: Narrator
    bounds: Bounds
    #: ``time.monotonic()`` at which the wait is given up (``-w``); ``None`` for never.
    until: float | None
    resolve_again: Callable[[], Places]
    #: Left open: to close an inotify instance takes the kernel 10 to 30 ms, which would be the successor's.
    watch: Watch
    after_survivor: survivors.Policy = "warn"
    #: Whether what this run already holds of other resources has to be given up; ``None`` where it holds nothing.
    also: Callable[[], End | None] | None = None
    _free_since: float | None = None

    def acquire(self) -> Held:
        """Queue, wait and take.

        Raises ``Leave``, ``MovedElsewhere`` or a ``HoldError``; nothing of ours is left in the queue then.
        """
        queue = ensure(self.places)
        token_dir = self.places.open_token_dir()
        lies = token.look(token_dir, self.places.token_name)
        own = self._join(queue, lies)
        self._event(own, "queued", lane=self.wish.lane, where=self.places.said)
        self.narrator.say(f"ticket {own.ticket.id}: {self.places.said}")
        for path, mend in exposed(self.places).items():
            self.narrator.warn(f"::warning::others may exchange what lies below {path}: chmod {mend} {path}")
        taker = Taker(
            self.places, self.wish, self.narrator, self.bounds, self.resolve_again, self._pause, self.after_survivor
        )
        try:
            return self._until_held(own, token_dir, taker)
        except BaseException as error:
            own.leave()
            reason = getattr(error, "reason", type(error).__name__)
            self._event(own, "evicted" if reason == "evicted" else "left", reason=reason)
            os.close(own.fd)
            raise

    def _join(self, queue: Dir, lies: TokenFile | None) -> OwnTicket:
        """Queue up. Raises ``MovedElsewhere`` when another queue has got the place of this one meanwhile."""
        try:
            own = queues.join(queue, self.wish, lies.ticket_id if lies else None)
        except HoldError as error:
            if not _is_there(queue, self.places):
                raise MovedElsewhere from error
            raise
        if not _is_there(queue, self.places):
            own.leave()
            os.close(own.fd)
            raise MovedElsewhere
        return own

    def _until_held(self, own: OwnTicket, token_dir: Dir, taker: Taker) -> Held:
        while True:
            self._heed(own)
            sight = self._look(own, token_dir)
            if self._may_try(sight):
                if self.narrator.once(f"head {own.ticket.id}", f"at the head of the queue: {self.places.said}"):
                    self._event(own, "head", where=self.places.said)
                if held := taker.attempt(own, token_dir, sight.token):
                    return held
            if self.until is not None and time.monotonic() >= self.until:
                raise Leave(121, "timeout", f"the -w limit is over: {self._in_the_way(own, sight)}")
            self._sleep(own, token_dir, sight)

    def _heed(self, own: OwnTicket) -> None:
        """Signals, the starter's end, eviction."""
        for signum in self.inbox.drain():
            if signum not in (SIGCHLD, SIGCONT):
                name = signum.name.removeprefix("SIG")
                by_key = signum == SIGINT and in_foreground()
                raise Leave(128 + signum, name, f"ended by SIG{name} while waiting", SIGINT if by_key else None)
        fd = self.starter.fd
        end = self.starter.check() if fd is not None and (self.starter.ended or ready((fd,), 0)) else None
        if end:
            raise Leave(end.status or 125, end.reason, end.text)
        if self.also and (lost := self.also()):
            raise Leave(lost.status or 125, lost.reason, lost.text)
        if not own.present():
            raise Leave(120, "evicted", f"ticket {own.ticket.id} was evicted")

    def _look(self, own: OwnTicket, token_dir: Dir) -> Sight:
        found = token.look(token_dir, self.places.token_name)
        waiting = queues.ahead(own, found.ticket_id if found else None)
        held = found is not None and not found.ghost
        # Whoever waits for a survivor overtakes nobody: all wait until it is dead, and then in order.
        deterred = self.after_survivor == "wait" and survivors.lasting(own.queue)
        now = time.monotonic()
        self._free_since = None if held or deterred else self._free_since or now
        passed = int((now - (self._free_since or now)) / HEAD_PATIENCE)
        ahead = tuple(islice(waiting, passed + 1))[::-1]
        if not ahead:
            self._free_since = None
        return Sight(ahead, found, len(ahead) <= passed)

    def _may_try(self, sight: Sight) -> bool:
        """At the head; or the token lies free and those ahead have not taken it in their time.

        Order is a promise, the token is the exclusion: a stopped head must not stop everybody.
        """
        if sight.our_turn and sight.ahead:
            self.narrator.once("overtake", f"ticket {sight.ahead[0].id} does not take the free token; going first")
        return sight.our_turn

    def _in_the_way(self, own: OwnTicket, sight: Sight) -> str:
        if self.after_survivor == "wait" and (living := survivors.lasting(own.queue)):
            return f"{survivors.described(living)}, still live (--after-survivor wait)"
        if found := sight.token:
            return f"held by lane {found.lane}, pid {found.pid}" if found.pid else f"the token is {found.kind}"
        if sight.ahead:
            return f"ticket {sight.ahead[0].id} of lane {sight.ahead[0].lane} is ahead"
        return "the token could not be taken in time"

    def _pause(self, own: OwnTicket, seconds: float) -> None:
        """The taker's sleep: short, and ended by whatever ends the wait."""
        ready((self.inbox.fd,), seconds)
        self._heed(own)
        if self.until is not None and time.monotonic() >= self.until:
            raise Leave(121, "timeout", "the token could not be had within the -w limit")

    def _sleep(self, own: OwnTicket, token_dir: Dir, sight: Sight) -> None:
        fds = [self.inbox.fd]
        place = queues.place(own) if sight.ahead else 0
        deep = place > FRONT
        longest = PATIENT_SLEEP if deep and not self.also else LONGEST_SLEEP
        limits = [longest]
        if self.starter.ended:
            limits.append(SHORT_SLEEP)
        elif self.starter.fd is not None:
            fds.append(self.starter.fd)
        if not deep and (self._free_since is not None or (sight.token and sight.token.ghost)):
            limits.append(SHORT_SLEEP)
        if not deep and (sight.token is None or sight.token.kind == "garbled"):
            limits.append(LOOK_AGAIN)
        with contextlib.ExitStack() as stack:
            pin = _pin(sight.awaited, stack)
            if pin is not None:
                fds.append(pin)
            elif sight.awaited is not None:
                limits.append(SHORT_SLEEP)  # it is dead, or in another namespace
            if place <= NEAR:
                limits.append(self._subscribe(own, sight))
                fds.extend(self.watch.fds())
            until = math.inf if self.until is None else self.until
            seldom = cycle((True, *[False] * SELDOM))
            while self._unchanged(own, token_dir, sight) and (not next(seldom) or _all_there(own, sight)):
                left = until - time.monotonic()
                if ready(fds, min(*limits, left)) or min(*limits, left) < longest or (self.also and self.also()):
                    break
                if not sight.ahead or self._free_since is not None:
                    break  # whether the holder is stopped, and who has had his time, is seen by a whole look only
        self.watch.drain()

    def _subscribe(self, own: OwnTicket, sight: Sight) -> float:
        """Wake when our ticket goes, or what is in our way. Returns how long to sleep at most."""
        in_our_way = own.queue.of(sight.ahead[-1].id) if sight.ahead else self.places.token_path
        watched = self.watch.add(own.queue.of(own.ticket.id), GOES)
        watched = self.watch.add(in_our_way, GOES) and watched
        return math.inf if watched or sight.ahead else SHORT_SLEEP / 4

    def _unchanged(self, own: OwnTicket, token_dir: Dir, sight: Sight) -> bool:
        """The token and our ticket are as they were: asked between the look and the sleep, and after each sleep."""
        status = token_dir.status(self.places.token_name)
        now_there = status and (status.st_dev, status.st_ino)
        then_there = sight.token and (sight.token.device, sight.token.inode)
        return now_there == then_there and own.present()

    def _event(self, own: OwnTicket, name: str, **content: object) -> None:
        events.record(own.queue, name, own.ticket.id, resource=self.places.resource, **content)


def _is_there(queue: Dir, places: Places) -> bool:
    """Whether this open queue still has its name: whole ones are exchanged when another state is moved in."""
    try:
        return os.path.samestat(os.stat(places.queue_path), os.fstat(queue.fd))
    except FileNotFoundError:
        return False
    except OSError:
        return True  # it cannot be known, and what is open is a queue


def _all_there(own: OwnTicket, sight: Sight) -> bool:
    """The ticket ahead lies there, and who held the token lives."""
    if sight.ahead and own.queue.status(sight.ahead[-1].id) is None:
        return False
    holder = sight.token.ticket if sight.token else None
    return not (holder and holder.identity_alive) or is_alive(Identity(holder.pid, holder.start_ticks)) is not False


def _pin(ticket: TicketFile | None, stack: contextlib.ExitStack) -> int | None:
    """A descriptor that becomes readable when that ticket's process ends."""
    if ticket is None or ticket.identity_alive is not True:
        return None
    with contextlib.suppress(OSError, UnreadableProcess):
        return stack.enter_context(Pinned(Identity(ticket.pid, ticket.start_ticks))).fd
    return None
