"""Pausing a payload: its own cgroup is frozen, and what is not in it gets STOP, process by process.

Freezing is one step that no fork escapes, and the payload cannot tell it from a slow machine; STOP is what there is
without a cgroup, and a parent sees its child stopped. Either way descriptors, device memory and the token stay.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from signal import Signals

from holdtop.lean import dataclass, field
from holdtop.payload.custody import Member, OtherHolds, names
from holdtop.payload.members import Found, Scope, find
from holdtop.payload.process import Identity, Pinned, UnreadableProcess
from holdtop.payload.terminal import Terminal

#: A fork escapes the look that stops its parent; this many looks follow each other until none has.
LOOKS = 20
#: Stopped by a signal or by a tracer (proc_pid_stat(5)).
STOPPED = "Tt"


@dataclass(slots=True)
class Pausing:
    """The pauses of one payload."""

    scope: Scope
    other_holds: OtherHolds
    #: Lent to the payload; taken back during a pause, since a stopped group hears no Ctrl-C.
    terminal: Terminal | None = None
    paused: bool = False
    #: Whom we stopped. Whoever had stopped itself before is not among them, and is not continued by us.
    _stopped: set[Identity] = field(default_factory=set)
    #: Whom we may not signal, a set-uid program: they go on.
    _refused: set[Identity] = field(default_factory=set)
    #: The payload's group that had the terminal.
    _foreground: int | None = None

    def pause(self) -> str | None:
        """Pause, or pause whoever has appeared or been continued since. Says, once, who goes on all the same.

        Nobody is waited for: what is inside a call that nothing interrupts stops when that call returns.
        """
        self.paused, told = True, set(self._refused)
        for _ in range(LOOKS):
            found = find(self.scope, self.other_holds)
            going = self._running(found)
            known = self._stopped | self._refused
            for member in going:
                self._stop(member)
            if known.issuperset(member.identity for member in going):
                break
        if self.terminal:
            groups = {found.table.stats[member.identity.pid].pgrp for member in found.members}
            self._foreground = self.terminal.recall(groups) or self._foreground
        refused = [member for member in going if member.identity in self._refused - told]
        return f"::warning::{names(refused)} goes on: it may not be signalled by this account" if refused else None

    def resume(self, also: Collection[Identity] = ()) -> frozenset[Identity]:
        """Thaw, and continue exactly those that were stopped here and ``also``: given back are all of them."""
        if self.terminal and self._foreground is not None:
            self.terminal.lend(self._foreground)  # first, or reading from the terminal would stop it
            self._foreground = None
        for group in self.scope.cgroups:
            with contextlib.suppress(OSError):
                group.freeze(False)
        stopped = frozenset(self._stopped.union(also))
        for identity in stopped:
            with contextlib.suppress(OSError, UnreadableProcess), Pinned(identity) as pinned:
                pinned.send(Signals.SIGCONT)
        self._stopped.clear()
        self.paused = False
        return stopped

    def resume_unknown(self) -> None:
        """For the heir of whoever paused it: which member had stopped itself cannot be told any more."""
        members = find(self.scope, self.other_holds).members
        self.resume([member.identity for member in members if member.state in STOPPED])

    def _running(self, found: Found) -> list[Member]:
        """Members that no freezing reaches and no signal has stopped yet. Others than members are never frozen."""
        frozen: set[int] = set()
        for group in self.scope.cgroups:
            with contextlib.suppress(OSError):
                group.freeze(group in found.sole)
                frozen |= group.procs() if group in found.sole else set()
        return [one for one in found.members if one.identity.pid not in frozen and one.state not in STOPPED]

    def _stop(self, member: Member) -> None:
        try:
            with Pinned(member.identity) as pinned:
                pinned.send(Signals.SIGSTOP)
            self._stopped.add(member.identity)
        except ProcessLookupError:
            return
        except (PermissionError, UnreadableProcess):
            self._refused.add(member.identity)
