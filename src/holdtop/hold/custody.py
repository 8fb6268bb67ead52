"""What a hold keeps for its payload: tickets and tokens, watched while it runs and given back at its end."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from functools import partial
from types import MappingProxyType

from holdtop.errors import HoldtopError
from holdtop.hold import events, receipt, record, stop, survivors
from holdtop.hold import queue as queues
from holdtop.hold.files import Dir
from holdtop.hold.inotify import APPEARS, GOES, Watch
from holdtop.hold.others import other_holds
from holdtop.hold.places import Places
from holdtop.hold.queue import OwnTicket
from holdtop.hold.token import OwnToken
from holdtop.lean import dataclass, field, replace
from holdtop.payload.containment import Place
from holdtop.payload.custody import End, Holds, Member, Report, SeenCgroup, Turn, Used, names
from holdtop.payload.keeper import exit_status
from holdtop.payload.process import Identity, own_identity

#: How long putting a token back may wait for the queue's lock, in seconds: the deadline waits meanwhile.
PUT_BACK_WAIT = 0.5


class Step(IntEnum):
    """How far the end of a hold has come."""

    HELD = 0
    ENDED = 1
    RECEIPT = 2
    GIVEN_BACK = 3
    OVER = 4


@dataclass(slots=True)
class Held:
    """One resource in our hands."""

    places: Places
    queue: Dir
    ticket: OwnTicket
    token: OwnToken
    #: The token's content, should it have to be made again.
    content: bytes
    #: ``time.monotonic()`` of the take.
    at: float
    #: RFC 3339 of the take.
    taken_at: str
    #: The flocked lock file, or ``None``.
    lock_fd: int | None = None
    #: Why an event or the receipt of this hold is missing.
    unwritten: Exception | None = None
    #: From the take to the receipt; ``None`` before.
    held_seconds: float | None = None
    #: One byte that keeper and supervisor share: the heir of whoever was killed goes on from there. What lies on the
    #: disk cannot tell how far that one came: ticket and token may have been removed by somebody else.
    _step: mmap.mmap = field(default_factory=lambda: mmap.mmap(-1, 1))

    @property
    def id(self) -> str:
        return self.ticket.ticket.id

    @property
    def step(self) -> Step:
        return Step(self._step[0])

    @step.setter
    def step(self, step: Step) -> None:
        self._step[0] = step

    @property
    def concluded(self) -> bool:
        return self.step == Step.OVER

    def event(self, name: str, **content: object) -> None:
        lost = events.record(self.queue, name, self.id, resource=self.places.resource, **content)
        self.unwritten = lost or self.unwritten

    def publish(
        self,
        facts: Mapping[str, object],
        members: Collection[Member] | None,
        cgroups: Collection[SeenCgroup] | None,
        used: Mapping[Identity, Used] = MappingProxyType({}),
    ) -> None:
        """Renew the hold's record. Raises ``HoldError``."""
        data = self.ticket.data.splitlines(keepends=True)
        # Short: a record has to stay readable, and what is missing is for people only.
        lines = b"".join(line for line in data if not line.startswith((b"cmd=", b"cwd="))).decode()
        content = {**facts, "nonce": self.ticket.ticket.nonce, "lines": lines, "taken_at": self.taken_at}
        record.publish(self.queue, self.id, content, members, cgroups, used)

    def asked_to_end(self, operators: Collection[int]) -> End | None:
        """By removing the ticket, or by a stop request of somebody who may."""
        if not self.ticket.present():
            return End("evicted", 130, f"ticket {self.id} was removed while it ran")
        may_ask = partial(stop.may_ask, own_uid=os.geteuid(), operators=operators)
        found = stop.find(self.queue, self.id, self.ticket.ticket.nonce, may_ask)
        return End("stop", 130, f"stopped by {stop.user_name(found.author)}: {found.reason}") if found else None

    def give_back(self) -> bool:
        """Remove ticket and token, in this order, so that a successor wakes to a free queue. True: it was ours."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(queues.locked(self.queue, token_dir=self.token.directory))
            except HoldtopError as error:
                # Nobody of ours touches a living hold's token, so it goes safely without: the lock only keeps us from
                # removing what somebody takes in this instant whose predecessor has removed our token by force.
                self.event("warned", text=f"released without the queue's lock: {error}")
            self.ticket.leave()
            released = self.token.release()
        if self.lock_fd is not None:
            fcntl.flock(self.lock_fd, fcntl.LOCK_UN)  # for every process that shares it
        return released

    def concerning(self, report: Report) -> Report:
        """What of it is about this resource: memory is one device's."""
        foreign = report.memory and report.memory.resource != self.places.resource
        return replace(report, memory=None) if foreign else report

    def write_receipt(self, report: Report) -> None:
        released = not report.remaining("not permitted")
        if self.held_seconds is None:
            self.held_seconds = time.monotonic() - self.at
        report, status = self.concerning(report), exit_status(report)
        lost = receipt.write(
            self.queue,
            self.ticket.ticket,
            report,
            released=released,
            status=status,
            waited_seconds=self.at - self.ticket.at,
            held_seconds=self.held_seconds,
        )
        self.unwritten = lost or self.unwritten

    def release(self, report: Report, status: int, say: Callable[[str], None]) -> None:
        """At the end of the payload, and of everything that only a holder may write."""
        # Whoever is killed after the release leaves nothing of that.
        record.remove(self.queue, self.id)
        stop.withdraw(self.queue, self.id)
        if self.step < Step.GIVEN_BACK:
            ours = self.try_give_back(say)
            if ours is None:
                return
            if not ours:
                say(f"{self.places.token_path} was not ours any more and was left as it is")
            self.step = Step.GIVEN_BACK
        self.event(
            "released", status=status, reason=report.end.reason, verdict=receipt.verdict(self.concerning(report))
        )

    def try_give_back(self, say: Callable[[str], None]) -> bool | None:
        """``give_back``; ``None``, said and on record, when ticket or token cannot be removed."""
        try:
            return self.give_back()
        except (HoldtopError, OSError) as error:
            say(
                f"{self.places.token_path} could not be released: {error}; "
                "once it can be removed, the next hold or 'holdtop recover' does so"
            )
            self.event("unreleased", why=str(error))
            return None

    def undo(self, say: Callable[[str], None]) -> None:
        """Give back what was taken for a command that is not started."""
        if self.try_give_back(say) is not None:
            self.event("released", reason="not started")


@dataclass(slots=True)
class HoldCustody:
    """The tokens of one run. Copied into the keeper by fork; whichever process survives concludes."""

    held: Sequence[Held]
    say: Callable[[str], None]
    warn: Callable[[str], None]
    operators: Collection[int]
    watch: Watch
    #: What is published besides the members: deadline, limits, containment.
    published: Mapping[str, object] = field(default_factory=dict)
    _facts: dict[str, object] = field(default_factory=dict)
    #: ``None`` until they are known here: not to the heir of a killed keeper.
    _members: Collection[Member] | None = None
    _cgroups: Collection[SeenCgroup] | None = None
    _used: Mapping[Identity, Used] = field(default_factory=dict)
    _blind: bool = False

    def fds(self) -> Sequence[int]:
        for held in self.held:
            self.watch.add(held.places.token_path, GOES)
            self.watch.add(held.queue.of(held.id), GOES)
            self.watch.add(held.queue.of(stop.STOP), APPEARS)
        return self.watch.fds()

    def check(self) -> End | None:
        self.watch.drain()
        for held in self.held:
            try:
                if end := self._check_token(held) or held.asked_to_end(self.operators):
                    return end
            except OSError as error:  # one bad look ends nobody, and the next one comes by itself
                if not self._blind:
                    self._blind = True
                    text = f"{held.places.token_path} and its ticket cannot be looked at: {error}; the command goes on"
                    self.warn(f"::warning::{text}")
                    held.event("warned", text=text)
        return None

    def _check_token(self, held: Held) -> End | None:
        in_place = held.token.in_place()
        if in_place is None:
            self._put_back(held)
            in_place = held.token.in_place()
        if in_place is False:
            return End("token-lost", 125, f"{held.places.token_path} is somebody else's now")
        return None

    def _put_back(self, held: Held) -> None:
        try:
            with queues.locked(held.queue, PUT_BACK_WAIT, held.token.directory):
                again = held.token.put_back(held.content)
        except (HoldtopError, OSError) as error:
            self.warn(f"::warning::{held.places.token_path} was removed and cannot be put back: {error}")
            return
        if again:
            self.warn(f"::warning::{held.places.token_path} was removed while it was held; it is back")
            held.event("warned", text="the token was removed while it was held; it is back")
            self.watch.add(held.places.token_path, GOES)

    def placed(self, root: Identity, place: Place) -> None:
        me = own_identity()
        self._facts = {
            **self.published,
            "containment": place.means,
            "state": "running",
            "keeper_pid": me.pid,
            "keeper_start_ticks": me.start_ticks,
            "root_pid": root.pid,
            "root_start_ticks": root.start_ticks,
            "session": os.getsid(0),
        }
        self._members = (Member(root, "", os.getuid(), "descent", "R"),)
        with contextlib.suppress(OSError):
            self._cgroups = tuple(SeenCgroup(group.path, group.inode(), True) for group in place.groups)
        for held in self.held:  # or nothing is started: killed, this hold would leave a payload that nobody can find
            held.publish(self._facts, self._members, self._cgroups)

    def started(self, root: Identity) -> None:
        for held in self.held:
            held.event("started", root_pid=root.pid, keeper_pid=os.getpid())

    def running(
        self, members: Collection[Member], cgroups: Collection[SeenCgroup], used: Mapping[Identity, Used]
    ) -> None:
        self._members, self._cgroups, self._used = members, cgroups, used
        self._publish()

    def turned(self, turn: Turn) -> None:
        self._facts["state"] = "paused" if turn.paused else "running"
        self._publish()
        said = {"limit": turn.limit, "threshold": turn.threshold, "value": turn.value, "text": turn.text}
        for held in self.held:
            held.event("paused" if turn.paused else "resumed", **said)

    def warned(self, text: str) -> None:
        for held in self.held:
            held.event("warned", text=text)

    def ending(self, end: End) -> None:
        self._facts["state"] = "ending"
        self._publish()
        for held in self.held:
            if held.step < Step.ENDED:
                held.event("ending", reason=end.reason, text=end.text)

    def _publish(self) -> None:
        """What was published before stays where that fails. What is given back is nobody's any more."""
        for held in self.held:
            with contextlib.suppress(HoldtopError):
                if held.step < Step.GIVEN_BACK:
                    held.publish(self._facts, self._members, self._cgroups, self._used)

    def other_holds(self) -> Holds:
        return other_holds(self.held[0].places, {held.ticket.ticket.pid for held in self.held})

    def conclude(self, report: Report) -> None:
        for held in reversed(self.held):
            self._conclude(held, report)
            if held.unwritten:
                self.warn(f"::warning::what is on record of hold {held.id} is incomplete: {held.unwritten}")

    def _conclude(self, held: Held, report: Report) -> None:
        """Each step once, whoever takes it."""
        status = exit_status(report)
        if held.step < Step.ENDED:
            held.event(
                "ended",
                reason=report.end.reason,
                status=status,
                proof=report.proof,
                ended=receipt.describe_fates(report),
                left=receipt.describe_left(report),
                suspects=receipt.describe_suspects(report),
            )
            held.step = Step.ENDED
        denied = report.remaining("not permitted")
        if held.step < Step.RECEIPT:
            if stuck := report.remaining("unkillable"):
                survivors.record(held.queue, held.ticket.ticket, stuck)
            for text in report.remarks():
                self.warn(text)
            held.write_receipt(report)
            held.step = Step.RECEIPT
        if held.concluded:
            return
        if denied:
            # Whoever finds the ghost knows by the record alone that this payload lives.
            self._members = [left.member for left in denied]
            self._publish()
            held.event("kept", left=receipt.describe_left(report))
            self.say(
                f"the token stays: {names(left.member for left in denied)} may not be signalled by this account; "
                f"end it as its owner or root, then: holdtop recover -r {held.places.resource} --reason …"
            )
        else:
            held.release(report, status, self.say)
        held.step = Step.OVER

    def settle(self, again: Callable[[], Report | None]) -> None:
        """Complete the receipts, unless somebody has taken since: what he uses cannot be told from what comes back."""
        if any(map(_taken_since, self.held)):
            return
        self.say("the token is free; the device's memory is still coming back, which the receipt waits for")
        while (later := again()) and not any(map(_taken_since, self.held)):
            if later.memory and later.memory.state != "falling":
                for held in self.held:
                    if (mine := held.concerning(later)).memory:
                        held.write_receipt(mine)
                        verdict = receipt.verdict(mine)
                        held.event("settled", verdict=verdict, memory=receipt.describe_memory(mine))
                    if held.unwritten:
                        self.warn(f"::warning::the receipt of hold {held.id} stays incomplete: {held.unwritten}")
                if later.memory.state == "left":
                    self.warn(
                        "::warning::device memory did not come back, and no process holds it: see 'holdtop status'"
                    )
                return


def _taken_since(held: Held) -> bool:
    """Somebody has the token, or has had it and released it: the last receipt is his."""
    receipts = receipt.newest(held.queue)
    return os.path.lexists(held.places.token_path) or not receipts or receipts[-1].get("ticket") != held.id
