"""Waiting for one's turn, in the kernel: woken by the predecessor's end, the token's, a signal, or an eviction.

Everybody watches whoever is directly ahead (a pidfd); only the first in line needs an inotify instance, so one
release wakes one waiter. Subscribe, look again, then sleep, and never for more than a second.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from signal import SIGCHLD, SIGCONT, SIGINT, Signals

from holdtop.hold import events, survivors, token
from holdtop.hold import queue as queues
from holdtop.hold.custody import Held
from holdtop.hold.files import Dir
from holdtop.hold.inotify import GOES, Watch
from holdtop.hold.narrate import Narrator
from holdtop.hold.places import Places, ensure
from holdtop.hold.queue import OwnTicket
from holdtop.hold.take import Taker
from holdtop.hold.ticket import Wish
from holdtop.hold.view import TicketFile, TokenFile
from holdtop.lean import dataclass, field
from holdtop.payload.custody import End
from holdtop.payload.ending import Bounds
from holdtop.payload.process import Identity, Pinned, UnreadableProcess
from holdtop.payload.signals import SignalInbox, ready
from holdtop.payload.starter import Starter
from holdtop.payload.terminal import in_foreground

#: The longest sleep between two looks, in seconds.
LONGEST_SLEEP = 1.0
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

    ahead: tuple[TicketFile, ...]
    token: TokenFile | None

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
    after_survivor: survivors.Policy = "warn"
    #: Whether what this run already holds of other resources has to be given up.
    also: Callable[[], End | None] = lambda: None
    _watch: Watch = field(default_factory=Watch)
    _free_since: float | None = None

    def acquire(self) -> Held:
        """Queue, wait and take.

        Raises ``Leave``, ``MovedElsewhere`` or a ``HoldError``; nothing of ours is left in the queue then.
        """
        queue = ensure(self.places)
        token_dir = self.places.open_token_dir()
        lies = token.look(token_dir, self.places.token_name)
        own = queues.join(queue, self.wish, lies.ticket_id if lies else None)
        self._event(own, "queued", lane=self.wish.lane, where=self.places.said)
        self.narrator.say(f"ticket {own.ticket.id}: {self.places.said}")
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
        finally:
            self._watch.close()

    def _until_held(self, own: OwnTicket, token_dir: Dir, taker: Taker) -> Held:
        while True:
            self._heed(own)
            sight = self._look(own, token_dir)
            if self._may_try(sight):
                if self.narrator.once("head", f"at the head of the queue: {self.places.said}"):
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
        if lost := self.also():
            raise Leave(lost.status or 125, lost.reason, lost.text)
        if not own.present():
            raise Leave(120, "evicted", f"ticket {own.ticket.id} was evicted")

    def _look(self, own: OwnTicket, token_dir: Dir) -> Sight:
        tickets, _ = queues.look(own.queue)
        found = token.look(token_dir, self.places.token_name)
        holder = found.ticket_id if found else None
        ahead = tuple(t for t in tickets if t.sequence < own.ticket.sequence and not t.dead and t.id != holder)
        # Whoever waits for a survivor overtakes nobody: all wait until it is dead, and then in order.
        deterred = self.after_survivor == "wait" and survivors.lasting(own.queue)
        if not ahead or deterred or (found is not None and not found.ghost):
            self._free_since = None
        elif self._free_since is None:
            self._free_since = time.monotonic()
        return Sight(ahead, found)

    def _may_try(self, sight: Sight) -> bool:
        """At the head; or the token lies free and those ahead have not taken it in their time.

        Order is a promise, the token is the exclusion: a stopped head must not stop everybody.
        """
        if not sight.ahead:
            return True
        if self._free_since is None:
            return False
        if time.monotonic() - self._free_since < HEAD_PATIENCE * len(sight.ahead):
            return False
        self.narrator.once("overtake", f"ticket {sight.ahead[0].id} does not take the free token; going first")
        return True

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
        limits = [LONGEST_SLEEP]
        if self.starter.ended:
            limits.append(SHORT_SLEEP)
        elif self.starter.fd is not None:
            fds.append(self.starter.fd)
        if self._free_since is not None or (sight.token and sight.token.ghost):
            limits.append(SHORT_SLEEP)
        if self.until is not None:
            limits.append(self.until - time.monotonic())
        with contextlib.ExitStack() as stack:
            pin = _pin(sight.awaited, stack)
            if pin is not None:
                fds.append(pin)
            elif sight.awaited is not None:
                limits.append(SHORT_SLEEP)  # it is dead, or in another namespace
            if not sight.ahead:
                limits.append(self._subscribe(own))
                fds.extend(self._watch.fds())
            if self._unchanged(own, token_dir, sight):
                ready(fds, min(limits))
        self._watch.drain()

    def _subscribe(self, own: OwnTicket) -> float:
        """First in line: wake when the token or our ticket goes. Returns how long to sleep at most."""
        watched = self._watch.add(own.queue.of(own.ticket.id), GOES)
        watched = self._watch.add(self.places.token_path, GOES) and watched
        return LONGEST_SLEEP if watched else SHORT_SLEEP / 4

    def _unchanged(self, own: OwnTicket, token_dir: Dir, sight: Sight) -> bool:
        """Nothing moved between the look and the subscription."""
        status = token_dir.status(self.places.token_name)
        now_there = status and (status.st_dev, status.st_ino)
        then_there = sight.token and (sight.token.device, sight.token.inode)
        before_us = not sight.ahead or own.queue.status(sight.ahead[-1].id) is not None
        return now_there == then_there and own.present() and before_us

    def _event(self, own: OwnTicket, name: str, **content: object) -> None:
        events.record(own.queue, name, own.ticket.id, resource=self.places.resource, **content)


def _pin(ticket: TicketFile | None, stack: contextlib.ExitStack) -> int | None:
    """A descriptor that becomes readable when that ticket's process ends."""
    if ticket is None or ticket.identity_alive is not True:
        return None
    with contextlib.suppress(OSError, UnreadableProcess):
        return stack.enter_context(Pinned(Identity(ticket.pid, ticket.start_ticks))).fd
    return None
