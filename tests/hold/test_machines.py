"""Queue and token under every order of steps: a model beside the real files, compared after each one.

The lanes are this process's own, with identities that the model lets live and die; the life locks are the kernel's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule
from hypothesis.strategies import sampled_from

from holdtop.hold import events, token
from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.queue import OwnTicket
from holdtop.hold.ticket import Wish
from holdtop.hold.token import OwnToken
from holdtop.payload.process import Identity

TOKEN = "gpu-token"
#: What others may leave at the token's path.
FOREIGN = (b"", b"shell 4194304\n", b"garbled")


@dataclass(eq=False)
class Lane:
    identity: Identity
    own: OwnTicket
    token: OwnToken | None = None

    @property
    def id(self) -> str:
        return self.own.ticket.id


class QueueAndToken(RuleBasedStateMachine):
    waiting = Bundle("waiting")
    holding = Bundle("holding")

    def __init__(self) -> None:
        super().__init__()
        self.state = Path(tempfile.mkdtemp(prefix="holdtop-machine-"))
        (self.state / "gpu-queue").mkdir()
        self.queue = Dir.root(str(self.state / "gpu-queue"))
        self.token_dir = Dir.root(str(self.state))
        self.alive: set[Identity] = set()
        self.next_pid = 1000
        self.last_sequence = 0
        #: Tickets that lie in the queue: of the living, and of the dead until somebody joins.
        self.queued: dict[str, Lane] = {}
        #: What lies at the token's path: a lane's own token, somebody's file, or nothing.
        self.lies: Lane | bytes | None = None
        self._patches = pytest.MonkeyPatch()
        self._patches.setattr(tickets, "is_alive", self.alive.__contains__)
        self._patches.setattr(tickets, "own_identity", self._newest)

    def teardown(self) -> None:
        self._patches.undo()
        self.queue.close()
        self.token_dir.close()
        shutil.rmtree(self.state)

    def _newest(self) -> Identity:
        return Identity(self.next_pid, 7)

    # ---- the lanes

    @rule(target=waiting)
    def join(self) -> Lane:
        self.next_pid += 1
        identity = self._newest()
        self.alive.add(identity)
        holder = self.lies.id if isinstance(self.lies, Lane) else None
        lane = Lane(identity, queues.join(self.queue, Wish("gpu", "lane", "true"), holder))
        assert lane.own.ticket.sequence > self.last_sequence
        self.last_sequence = lane.own.ticket.sequence
        events.record(self.queue, "queued", lane.id)
        dead = [one for one in self.queued.values() if one.identity not in self.alive and one.id != holder]
        for one in dead:
            del self.queued[one.id]
        self.queued[lane.id] = lane
        return lane

    @rule(lane=consumes(waiting))
    def leave(self, lane: Lane) -> None:
        lane.own.leave()
        self.queued.pop(lane.id, None)
        self._end(lane)

    @rule(lane=waiting)
    def is_evicted(self, lane: Lane) -> None:
        self.queue.remove(lane.id)
        self.queued.pop(lane.id, None)
        assert not lane.own.present()

    @rule(lane=consumes(waiting))
    def dies_waiting(self, lane: Lane) -> None:
        self._end(lane)

    def _end(self, lane: Lane) -> None:
        os.close(lane.own.fd)
        if lane.token:
            os.close(lane.token.fd)
        self.alive.discard(lane.identity)

    # ---- the token

    @rule(target=holding, lane=consumes(waiting))
    def take(self, lane: Lane) -> Lane | object:
        """The token excludes, whoever is first in line; who does not get it is done with here."""
        with queues.locked(self.queue):
            taken = token.take(self.token_dir, TOKEN, self._content(lane))
        assert (taken is not None) == (self.lies is None)
        return self._served(lane, taken)

    @rule(target=holding, lane=consumes(waiting))
    def take_over(self, lane: Lane) -> Lane | object:
        """Only what is a ghost is exchanged."""
        seen = token.look(self.token_dir, TOKEN)
        assert bool(seen and seen.ghost) == (isinstance(self.lies, Lane) and self.lies.identity not in self.alive)
        taken = None
        if seen and seen.ghost:
            with queues.locked(self.queue):
                taken = token.exchange_for(self.token_dir, TOKEN, self._content(lane), seen, keep_as=None)
            assert taken is not None
        return self._served(lane, taken)

    @rule(target=holding, lane=consumes(waiting), now=sampled_from(FOREIGN))
    def take_over_what_is_another_by_now(self, lane: Lane, now: bytes) -> Lane | object:
        """Between the look and the exchange somebody put another file there: it comes back as it was."""
        seen = token.look(self.token_dir, TOKEN)
        if seen is None:
            return self._served(lane, None)
        self.is_replaced(now)
        inode = os.stat(self.state / TOKEN).st_ino
        with queues.locked(self.queue):
            assert token.exchange_for(self.token_dir, TOKEN, self._content(lane), seen, keep_as=None) is None
        assert os.stat(self.state / TOKEN).st_ino == inode
        return self._served(lane, None)

    def _content(self, lane: Lane) -> bytes:
        return token.content(lane.own.ticket, lane.own.data, self.queue.path)

    def _served(self, lane: Lane, taken: OwnToken | None) -> Lane | object:
        if taken is None:
            self.leave(lane)
            return multiple()
        lane.token, self.lies = taken, lane
        return lane

    @rule(lane=consumes(holding))
    def release(self, lane: Lane) -> None:
        """Only a token that is ours goes."""
        assert lane.token
        with queues.locked(self.queue):
            lane.own.leave()
            assert lane.token.release() == (self.lies is lane)
        self.queued.pop(lane.id, None)
        self.lies = None if self.lies is lane else self.lies
        self._end(lane)

    @rule(lane=consumes(holding))
    def dies_holding(self, lane: Lane) -> None:
        self._end(lane)

    @rule(lane=holding)
    def puts_back(self, lane: Lane) -> None:
        assert lane.token
        with queues.locked(self.queue):
            assert lane.token.put_back(self._content(lane)) == (self.lies is None)
        self.lies = self.lies or lane

    # ---- everybody else

    @precondition(lambda self: self.lies is not None)
    @rule()
    def is_removed(self) -> None:
        (self.state / TOKEN).unlink()
        self.lies = None

    @rule(now=sampled_from(FOREIGN))
    def is_replaced(self, now: bytes) -> None:
        aside = self.state / "aside"
        aside.write_bytes(now)
        aside.rename(self.state / TOKEN)
        self.lies = now or b"empty"

    @rule(how=sampled_from([b"", b"x", b"9999999999\n", None]))
    def counter_is_lost(self, how: bytes | None) -> None:
        counter = Path(self.queue.path) / ".sequence"
        counter.unlink(missing_ok=True)
        if how is not None:
            counter.write_bytes(how)

    @rule(name=sampled_from(["9999999998-77", "what?", "0000000000-1"]))
    def entry_is_planted(self, name: str) -> None:
        (Path(self.queue.path) / name).write_bytes(b"v=1\n")

    # ---- what always holds

    @invariant()
    def the_queue_is_what_the_model_says(self) -> None:
        found, _ = queues.look(self.queue)
        assert [ticket.id for ticket in found] == sorted(self.queued)
        for ticket in found:
            assert ticket.dead == (self.queued[ticket.id].identity not in self.alive)

    @invariant()
    def the_token_is_what_the_model_says(self) -> None:
        seen = token.look(self.token_dir, TOKEN)
        if self.lies is None:
            assert seen is None
        elif isinstance(self.lies, Lane):
            assert seen is not None
            assert (seen.ticket_id, seen.locked) == (self.lies.id, self.lies.identity in self.alive)
        else:
            assert seen is not None
            assert seen.ticket is None
            assert not seen.ghost

    @invariant()
    def nothing_half_written_is_left(self) -> None:
        assert list(self.state.rglob(".new-*")) == []


TestQueueAndToken = QueueAndToken.TestCase
TestQueueAndToken.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
