"""Taking the token: when it is free, or in a dead hold's place; and what is looked at right after.

Everything here happens to the first in line only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from signal import SIGCONT, SIGKILL

from holdtop.errors import SurvivorLives
from holdtop.hold import events, freeing, receipt, recovery, survivors, token
from holdtop.hold import queue as queues
from holdtop.hold.custody import Held
from holdtop.hold.files import Dir, writing
from holdtop.hold.narrate import Narrator
from holdtop.hold.others import other_holds
from holdtop.hold.places import Places
from holdtop.hold.queue import OwnTicket
from holdtop.hold.ticket import Wish, now
from holdtop.hold.view import TicketFile, TokenFile
from holdtop.lean import dataclass, field
from holdtop.payload.ending import Bounds
from holdtop.payload.members import real_uid
from holdtop.payload.supervisor import KEEPER_SLACK


class MovedElsewhere(Exception):
    """Right after the take the rule points to another place: the token was given back."""


@dataclass(slots=True)
class Taker:
    places: Places
    wish: Wish
    narrator: Narrator
    bounds: Bounds
    #: Asked right after the take: has the rule moved?
    resolve_again: Callable[[], Places]
    #: Sleeps for so many seconds at most, and raises when the wait has to end.
    pause: Callable[[OwnTicket, float], None]
    after_survivor: survivors.Policy = "warn"
    _ghost_since: float | None = None
    #: By ticket.
    _stopped_since: dict[str, float] = field(default_factory=dict)

    def attempt(self, own: OwnTicket, token_dir: Dir, found: TokenFile | None) -> Held | None:
        """Take what is free, recover a ghost, or say why neither can be done. Raises ``SurvivorLives``."""
        if found is not None and not found.ghost:
            self._ghost_since = None
            self._say_why(found)
            self._keep_going(own, found.ticket)
            return None
        name = self.places.token_name
        if found is None:
            if not self._cleared(own) or self._deterred(own):
                return None
            held = self._take(
                own, token_dir, lambda data: None if self._robbed(own) else token.take(token_dir, name, data)
            )
            return self._kept(held) if held else None
        with token.pinned(token_dir, name) as pin:
            ghost = token.look(token_dir, name)
            same = pin and ghost and ghost.ghost and (ghost.device, ghost.inode) == (pin.st_dev, pin.st_ino)
            return self._recover(own, token_dir, ghost) if ghost and same else None

    def _kept(self, held: Held, *recovered: tuple[TicketFile, recovery.Leftovers]) -> Held:
        """What follows the take; whatever goes wrong in it gives the token back."""
        try:
            for ghost, left in recovered:
                recovery.forget(held.queue, ghost, left)
            self._check(held)
        except BaseException:
            held.try_give_back(self.narrator.say)
            raise
        return held

    def _take(self, own: OwnTicket, token_dir: Dir, make: Callable[[bytes], token.OwnToken | None]) -> Held | None:
        data = token.content(own.ticket, own.data, self.places.queue_path)
        with queues.locked(own.queue, token_dir=token_dir), writing(self.places.token_path, "create the token"):
            taken = make(data) if own.present() else None
        if taken is None:
            return None
        return Held(self.places, own.queue, own, taken, data, time.monotonic(), now())

    def _robbed(self, own: OwnTicket) -> bool:
        """Whether somebody runs without its token; the caller has the lock. Removing a token frees no accelerator."""
        robbed = [ticket for ticket in recovery.ran(own.queue) if ticket.id != own.ticket.id]
        for ticket in robbed:
            self.narrator.once(
                f"robbed {ticket.id}",
                f"the token of hold {ticket.id} (lane {ticket.lane}) was removed by somebody while it ran: waiting "
                "until it is put back, or the hold has ended",
            )
            self._keep_going(own, ticket)
        return bool(robbed)

    def _recover(self, own: OwnTicket, token_dir: Dir, ghost: TokenFile) -> Held | None:
        """End what the dead hold left, then put our token in the place of its own."""
        assert ghost.ticket is not None
        if self._ghost_since is None:
            self._ghost_since = time.monotonic()
            self.narrator.say(f"the token is a ghost: its hold {ghost.ticket.id} (lane {ghost.lane}) is dead")
        left = self._end_leftovers(own, ghost.ticket)
        if not self._may_free(ghost.ticket, left, self._ghost_since):
            return None
        if left.unkillable:
            survivors.record(own.queue, ghost.ticket, left.unkillable)
        if self.after_survivor != "warn" and survivors.lasting(own.queue):
            self._free(own, ghost, ghost.ticket, left)
            return None  # the free token is decided about like any other
        name = self.places.token_name
        held = self._take(own, token_dir, lambda data: token.exchange_for(token_dir, name, data, ghost, keep_as=None))
        if held is None:
            return None
        held.event("recovered", ghost=ghost.ticket.id, lane=ghost.lane, ended=len(left.fates), left=len(left.left))
        self.narrator.say(f"took over the stale token of lane {ghost.lane} (pid {ghost.pid}, dead)")
        return self._kept(held, (ghost.ticket, left))

    def _free(self, own: OwnTicket, ghost: TokenFile, ticket: TicketFile, left: recovery.Leftovers) -> None:
        if freeing.free(self.places, own.queue, ghost, keep=False):
            self._ghost_since = None
            events.record(own.queue, "recovered", ticket.id, by=own.ticket.id, lane=ghost.lane)
            self.narrator.say(f"freed the stale token of lane {ghost.lane} (pid {ghost.pid}, dead)")
            recovery.forget(own.queue, ticket, left)

    def _deterred(self, own: OwnTicket) -> bool:
        """Whether a survivor keeps this taker waiting. Raises ``SurvivorLives`` when it refuses instead."""
        living = () if self.after_survivor == "warn" else survivors.lasting(own.queue)
        if not living:
            return False
        text = f"{survivors.described(living)}, still live and may hold device memory"
        if self.after_survivor == "refuse":
            raise SurvivorLives(
                f"{text}; --after-survivor refuse: see 'holdtop status', end them with 'holdtop kill --pid PID"
                " --reason …' or start with --after-survivor warn"
            )
        self.narrator.once(text, f"waiting until they are dead: {text}")
        return True

    def _may_free(self, ghost: TicketFile, left: recovery.Leftovers, since: float) -> bool:
        if pids := left.denied:
            said = f"pids {pids} of the dead hold still run, and only {_who(pids)} may end them"
            self.narrator.once("denied", f"{said}: so says uid {ghost.uid}")
            return False
        return recovery.may_end(ghost) or time.monotonic() - since >= self.bounds.survive_wait

    def _end_leftovers(self, own: OwnTicket, ticket: TicketFile) -> recovery.Leftovers:
        return recovery.end_leftovers(
            own.queue,
            ticket,
            self.bounds,
            lambda seconds: self.pause(own, seconds),
            lambda: other_holds(self.places, {own.ticket.pid}),
        )

    def _cleared(self, own: OwnTicket) -> bool:
        """Whether the token is free because its holder is through with it.

        If somebody removed a dead hold's, what that one left is treated as a ghost's: ended first, or waited for.
        """
        for ticket in recovery.abandoned(own.queue):
            self.narrator.once(
                ticket.id, f"hold {ticket.id} of lane {ticket.lane} is dead and its token was removed by somebody"
            )
            left = self._end_leftovers(own, ticket)
            self._ghost_since = self._ghost_since or time.monotonic()
            if not self._may_free(ticket, left, self._ghost_since):
                return False
            if left.unkillable:
                survivors.record(own.queue, ticket, left.unkillable)
            recovery.forget(own.queue, ticket, left)
        return True

    def _say_why(self, found: TokenFile) -> None:
        if found.kind == "garbled":
            text = f"held by a token that cannot be read ({found.why}); 'holdtop recover' frees it if nobody holds"
        else:
            since = f", since {found.taken_at}" if found.taken_at else ""
            text = f"waiting: held by lane {found.lane}, pid {found.pid}{since}"
        if found.kind == "shell" and found.pid and not os.path.exists(f"/proc/{found.pid}"):
            text += " (not seen from here; if it is dead and nobody uses the device, 'holdtop recover' frees the token)"
        self.narrator.once(f"{found.inode}-{text}", text)

    def _keep_going(self, own: OwnTicket, holder: TicketFile | None) -> None:
        """Continue a hold that is stopped altogether: it sees no deadline and releases nothing.

        One that is found stopped at every look for its whole bound is being stopped by its payload: it is replaced.
        """
        if holder is None:
            return
        processes = recovery.stopped(own.queue, holder)
        if not processes:
            self._stopped_since.pop(holder.id, None)
            return
        now = time.monotonic()
        if now - self._stopped_since.setdefault(holder.id, now) < self.bounds.longest + KEEPER_SLACK:
            self.narrator.once("stopped", f"the hold of lane {holder.lane} is stopped: it is continued")
            recovery.signal_all(processes, SIGCONT)
        else:
            self.narrator.say(f"the hold of lane {holder.lane} is stopped again and again: it is killed")
            recovery.signal_all(processes, SIGKILL)

    def _check(self, held: Held) -> None:
        """The rule once more, the further lock, and what earlier holders left. May raise anything."""
        if self.resolve_again() != self.places:
            self.narrator.say(f"the state has moved: {held.places.said} is given back, queueing anew")
            raise MovedElsewhere
        if self.places.lock_path is not None:
            self._lock(held, self.places.lock_path)
        for warning in survivors.announce(held.queue):
            self.narrator.warn(warning)
            held.event("warned", text=warning)
        survivors.forget_dead(held.queue)
        for said in receipt.newest(held.queue)[-1:]:
            if remark := receipt.remark(said):
                self.narrator.say(remark)
        held.event("taken", where=self.places.said, limits=dict(self.wish.limits))
        self.narrator.say(f"taken: {self.places.said}")

    def _lock(self, held: Held, path: str) -> None:
        """Exclude tools that only know the lock file; they may hold it for a while."""
        with writing(path, "take the lock"), Dir.root(os.path.dirname(path)) as directory:
            held.lock_fd = directory.open_or_create(os.path.basename(path), mode=0o660)
            while not queues.flocked(held.lock_fd):
                self.narrator.once("lock", f"the token is ours; waiting for {path}, which another tool holds")
                self.pause(held.ticket, 0.1)


def _who(pids: Collection[int]) -> str:
    """Who may signal these processes: their own account, which for a set-uid program is not the hold's, and root."""
    uids = sorted({uid for uid in map(real_uid, pids) if uid})
    return " or ".join([*(f"uid {uid}" for uid in uids), "root"])
