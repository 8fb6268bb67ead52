"""Ending a tree: one implementation, one grace and one bound for every door.

TERM to each member, KILL after the grace, and then not "nothing was seen" but the kernel's own word: ECHILD from
a subreaper's wait means that no descendant is left (PR_SET_CHILD_SUBREAPER(2const), waitpid(2) with __WALL), and
``populated 0`` that nobody is in a cgroup where a member was seen (cgroups(7)).
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Collection
from functools import partial
from signal import Signals

from holdtop.lean import dataclass, field, replace
from holdtop.payload import linux
from holdtop.payload.custody import Fate, Left, LeftWhy, Member, OtherHolds
from holdtop.payload.members import Found, Scope, alone, find, member, newborn
from holdtop.payload.powers import Act, powers_of
from holdtop.payload.process import Identity, NoMeansToLook, Pinned, UnreadableProcess, read_stat

#: After KILL, this long until processes that we may not signal are given up, and at least so long until others are,
#: in seconds: without it, a survive wait of 0 would call unkillable what nobody has killed.
KILL_WAIT = 1.0
#: Where the kernel gives no proof: for so long nothing with the mark may start, in seconds.
STILL_FOR = 0.25
#: How long the next member to start is waited for, when KILL does not catch up with them, in seconds.
HUNT_FOR = 0.05
#: A member that the kernel counts and ``/proc`` hides (hidepid, and another account's program).
UNSEEN = Member(Identity(0, 0), "a process that cannot be seen", None, "descent", "?")


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long an ending may take, in seconds."""

    #: From TERM to KILL.
    grace: float = 10.0
    #: From KILL until what is still alive is called unkillable, a second at least.
    survive_wait: float = 60.0

    @property
    def longest(self) -> float:
        return self.grace + self.survive_wait


@dataclass(slots=True)
class Reaper:
    """Collects this process's dead children and remembers the root's status."""

    root_pid: int
    root_wait_status: int | None = None
    #: True once the kernel said that there is no child left, at the time of the last call.
    childless: bool = False
    #: Signal that has stopped the root, until it is continued.
    root_stopped_by: int | None = None

    def reap(self) -> int:
        """How many had died."""
        self.childless = False
        dead = 0
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED | linux.WALL)
            except ChildProcessError:
                self.childless = True
                return dead
            if pid == 0:
                return dead
            dead += not os.WIFSTOPPED(status)
            if pid == self.root_pid:
                if os.WIFSTOPPED(status):
                    self.root_stopped_by = os.WSTOPSIG(status)
                else:
                    self.root_wait_status = status


@dataclass(slots=True)
class Ending:
    """The end of one payload. ``run`` returns when it is over or its bound has passed."""

    scope: Scope
    bounds: Bounds
    #: ``None`` where this process is no ancestor (recovery): then there is no kernel's proof.
    reaper: Reaper | None
    other_holds: OtherHolds
    #: Whose powers are used, when we are root; ``None``: our own.
    powers: int | None = None
    #: Told of each signal sent: member and signal name.
    progress: Callable[[Member, str], None] = lambda _member, _signal: None
    _seen: dict[Identity, Member] = field(default_factory=dict)
    _sent: dict[Identity, str] = field(default_factory=dict)
    _denied: set[Identity] = field(default_factory=set)
    #: Without a reaper: no member has started for a while before the last look.
    _still: bool = False
    _act: Act = lambda work: work()

    def run(self, wait: Callable[[float], None]) -> tuple[tuple[Fate, ...], tuple[Left, ...], str | None]:
        """Fates of what ended, what is left, and the proof. ``wait(seconds)`` may return early."""
        with powers_of(self.powers) as self._act:
            return self._run(wait)

    def _run(self, wait: Callable[[float], None]) -> tuple[tuple[Fate, ...], tuple[Left, ...], str | None]:
        kill_at = time.monotonic() + self.bounds.grace
        killed_at = math.inf
        pause = 0.002
        give_up_at = kill_at + max(KILL_WAIT, self.bounds.survive_wait)
        while True:
            due = Signals.SIGKILL if time.monotonic() >= kill_at else Signals.SIGTERM
            before, began = len(self._seen), time.monotonic()
            try:
                if due == Signals.SIGKILL and killed_at == math.inf and self._kill_at_once(wait):
                    killed_at = began = time.monotonic()
                found, over = self._look()
            except (OSError, UnreadableProcess):  # no descriptor or no memory to look with: a want that may pass
                if time.monotonic() >= give_up_at:
                    raise
                wait(0.1)
                continue
            now = time.monotonic()
            denied = self._denied.issuperset(member.identity for member in found.members)
            bound = KILL_WAIT if found.members and denied else max(KILL_WAIT, self.bounds.survive_wait)
            if over or now >= killed_at + bound:
                return self._conclude(found)
            self._signal(found, due)
            if due == Signals.SIGKILL:
                killed_at = min(killed_at, time.monotonic())
            if self.reaper is None:
                self._still = not self._hunt(found, due, STILL_FOR)
                if self._still and not found.members:
                    continue  # the second look, at once: waiting may be given up
            elif due == Signals.SIGKILL and (len(self._seen) > before or not found.members):
                self._hunt(found, due, HUNT_FOR)
            now = time.monotonic()
            left = (kill_at if now < kill_at else killed_at + bound) - now
            # A look that is under way when the grace is over would hold the KILL up.
            wait(max(0.0, left if now < kill_at and left < pause + 2 * (now - began) else min(pause, left)))
            pause = min(pause * 2, 0.1) if found.members else 0.002

    def _kill_at_once(self, wait: Callable[[float], None]) -> bool:
        """KILL the cgroups that were made for the payload before anybody is looked for, if nobody in them is spared.

        A look at a large tree takes longer than its end. What this leaves, the looks that follow find.
        """
        groups = {group: group.procs() for group in self.scope.cgroups}
        inside = set().union(*groups.values())
        if not inside or self.scope.kept or not alone(self.scope, inside, self.other_holds):
            return False
        named = {identity.pid: identity for identity in self._seen}
        for pid in inside - named.keys():
            with contextlib.suppress(UnreadableProcess):
                if stat := read_stat(pid):
                    self._seen[stat.identity] = member(stat, "cgroup")
                    named[pid] = stat.identity
        for group, pids in groups.items():
            with contextlib.suppress(OSError):
                self._act(group.kill)
                for pid in pids & named.keys():
                    self._note(self._seen[named[pid]], Signals.SIGKILL)
        while self.reaper and self.reaper.reap() and any(group.populated() for group in groups):
            wait(0.002)
        return True

    def _note(self, member: Member, signum: Signals) -> None:
        """It was sent that signal."""
        if self._sent.get(member.identity) != signum.name:
            self._sent[member.identity] = signum.name
            self.progress(member, signum.name)

    def _look(self) -> tuple[Found, bool]:
        """Reap, look, and say whether nothing is left. Reaping again after the look closes the gap between."""
        # Whom we may not signal was found below somebody whom we may: once that one is gone, nothing leads there.
        scope = replace(self.scope, chosen=(*self.scope.chosen, *self._denied)) if self._denied else self.scope
        found = find(scope, self.other_holds)
        for one in found.members:
            self._seen[one.identity] = one  # the newest: a name changes with an exec
        if found.members:
            return found, False
        if self.reaper is None:
            return found, self._still and not self._populated(found)
        died = self.reaper.reap()
        if found.spared:
            # No ECHILD is to be had; but a fork chain that the look missed has lost a link to us meanwhile.
            return found, not died
        return found, self.reaper.childless and not self._populated(found)

    def _hunt(self, found: Found, signum: Signals, seconds: float) -> bool:
        """Signal the next member that starts, the moment it does; False when none does.

        A whole look can take longer than a link of a fork chain lives: what it finds is dead before it is signalled,
        or before it is asked for its mark. So an empty look is no proof either.
        """
        try:
            for prey in newborn(self.scope, found, time.monotonic() + seconds, self.other_holds):
                self._seen[prey.identity] = prey
                self._signal(replace(found, members=(prey,), sole=()), signum)
                return True
        except OSError:
            return True  # nor is not being able to look
        return False

    def _populated(self, found: Found) -> bool:
        """Whether the cgroups that were made for this payload have anybody left to be ended."""
        return not found.spared and any(group.populated() is not False for group in self.scope.cgroups)

    def _signal(self, found: Found, signum: Signals) -> None:
        """Opened with the same powers as it is signalled with: process and cgroup alike."""
        self._act(partial(self._signal_each, found, signum))

    def _signal_each(self, found: Found, signum: Signals) -> None:
        if signum == Signals.SIGKILL:
            for group in found.sole:
                # No fork is faster. What it leaves (a dead leader's threads) is killed one by one below.
                with contextlib.suppress(OSError):
                    group.kill()
        ours = {member.identity.pid for member in found.members}
        shared = {stat.pgrp for stat in found.table.stats.values() if not stat.dead and stat.pid not in ours}
        for one in found.members:
            if signum == Signals.SIGTERM and one.identity in self._sent:
                continue
            try:
                with Pinned(one.identity) as pinned:
                    self._send(pinned, signum, one, found, shared)
                self._denied.discard(one.identity)
            except NoMeansToLook:
                continue
            except (PermissionError, UnreadableProcess):
                self._denied.add(one.identity)
            except OSError:
                continue  # it is gone, or there was no descriptor for it now
        if signum == Signals.SIGTERM:
            for group in {*found.sole, *self.scope.cgroups}:
                # A frozen process sees no TERM, and whoever is spared must not stay frozen either.
                with contextlib.suppress(OSError):
                    group.freeze(False)

    def _send(self, pinned: Pinned, signum: Signals, member: Member, found: Found, shared: Collection[int]) -> None:
        """``shared``: groups with somebody in them who is not ours."""
        stat = found.table.stats.get(member.identity.pid)
        pinned.send(signum)
        if signum == Signals.SIGTERM:
            # A stopped process keeps a TERM pending for ever.
            pinned.send(Signals.SIGCONT)
        elif stat and stat.identity == member.identity and stat.pgrp not in shared:
            # Faster than any fork chain that stays in its group: one call reaches every link of it.
            with contextlib.suppress(OSError):
                pinned.send_group(signum)
        self._note(member, signum)

    def _conclude(self, found: Found) -> tuple[tuple[Fate, ...], tuple[Left, ...], str | None]:
        living = {member.identity: member for member in found.members}
        fates = tuple(
            Fate(self._seen[identity], sent.removeprefix("SIG"))
            for identity, sent in self._sent.items()
            if identity not in living
        )
        left = [Left(member, self._why(identity)) for identity, member in living.items()]
        left += found.spared
        if not left and self.reaper and not self.reaper.childless:
            left = [Left(UNSEEN, "not permitted")]
        elif not left and self._populated(found):
            left = [Left(UNSEEN, "unkillable")]  # the whole cgroup was killed, by the kernel itself
        return fates, tuple(left), None if left else self._proof()

    def _proof(self) -> str | None:
        """ECHILD and every cgroup empty, where there are any: neither alone would do (members move, others adopt)."""
        if self.reaper is None or not self.reaper.childless:
            return None
        groups = self.scope.groups()
        if any(group.populated() is not False for group in groups):
            return None
        return "ECHILD, populated 0" if groups else "ECHILD"

    def _why(self, identity: Identity) -> LeftWhy:
        return "not permitted" if identity in self._denied else "unkillable"
