"""The reaper: ends what dead holds left, where it was told to, by the very acts of an operator.

It is for the case in which everything else has died. Never a stray: nobody has put on record what that is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from holdtop.errors import HoldtopError
from holdtop.model.values import Snapshot
from holdtop.operator import execute, plan_kill, plan_recover
from holdtop.operator.values import Plan

Policy = Literal["ghosts", "survivors"]
REASON = "left behind; ended by holdtop watch --reap"
#: Seconds for which one that has been tried is let alone; waiters free a ghost themselves, and are given the time.
AGAIN, PATIENCE = 600.0, 10.0


class Reaper:
    """One act at a time, in a thread of its own. ``tell`` is called there with what was done, or why not."""

    def __init__(self, policy: Policy, state_dir: str | None, tell: Callable[[str], None]) -> None:
        """``survivors`` means ghosts, too."""
        self._policy, self._state_dir, self._tell = policy, state_dir, tell
        #: When each was first seen, and tried.
        self._seen: dict[tuple[object, ...], float] = {}
        self._tried: dict[tuple[object, ...], float] = {}
        self._thread: threading.Thread | None = None

    def look(self, snapshot: Snapshot) -> None:
        """Begin the next act that is due, if none is under way."""
        now, due = time.monotonic(), dict(self._due(snapshot))
        self._seen = {key: self._seen.get(key, now) for key in due}
        self._tried = {key: at for key, at in self._tried.items() if now - at < AGAIN}
        if self._thread and self._thread.is_alive():
            return
        for key, plan in due.items():
            if now - self._seen[key] >= PATIENCE and key not in self._tried:
                self._tried[key] = now
                self._thread = threading.Thread(target=self._act, args=(plan,), name="holdtop-reap", daemon=True)
                self._thread.start()
                return

    def close(self, seconds: float) -> None:
        """Give an act that is under way so long: what it was and what became of it belong on record."""
        if self._thread:
            self._thread.join(seconds)

    def _due(self, snapshot: Snapshot) -> Iterator[tuple[tuple[object, ...], Callable[[], Plan]]]:
        for one in snapshot.resources:
            if one.state == "ghost":
                ticket = one.holder.id if one.holder else None
                yield ("ghost", one.name, ticket), partial(plan_recover, snapshot, one.name, state_dir=self._state_dir)
        for flag in snapshot.flags if self._policy == "survivors" else ():
            for pid in flag.pids if flag.kind == "survivor" else ():
                key = ("survivor", flag.resource, flag.ticket, pid)
                yield key, partial(plan_kill, snapshot, None, pid=pid, state_dir=self._state_dir)

    def _act(self, plan: Callable[[], Plan]) -> None:
        try:
            made = plan()
            outcome = execute(made, reason=REASON)
        except (HoldtopError, OSError) as error:
            self._tell(f"not reaped: {error}")
            return
        about = made.ticket or made.typed
        self._tell(f"{'reaped' if not outcome.status else 'not reaped'} ({made.resource} {about}): {outcome.text}")
