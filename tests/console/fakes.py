"""A feed and an operator of forty lines, in place of the sampler and the executor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdtop.console.app import Console, Setup
from holdtop.console.keys import table
from holdtop.console.themes import load, packaged
from holdtop.console.view.glyphs import UNICODE, Glyphs
from holdtop.errors import GoneError, RefusedError
from holdtop.model.values import Snapshot
from holdtop.operator.values import Outcome, Plan, Step, Target, Verb

TARGET = Target(5002, 4_905_002, 1000, "alice", "python3", ("python3", "-c", "work"), "descent", 38 * 1024**3)
WEAK = Target(5006, 4_905_006, 1000, "alice", "tensorboard", ("tensorboard",), "marker", None)


@dataclass
class FakeFeed:
    """Gives the snapshots it is told to give."""

    on_snapshot: Callable[[Snapshot], None] = lambda _: None
    first: Snapshot | None = None
    stopped: bool = False

    def start(self) -> None:
        if self.first is not None:
            self.on_snapshot(self.first)

    def stop(self) -> None:
        self.stopped = True

    def made(self, on_snapshot: Callable[[Snapshot], None]) -> FakeFeed:
        self.on_snapshot = on_snapshot
        return self


@dataclass
class FakeOperator:
    """Plans and executes without touching anything, and remembers what it was asked."""

    planned: list[tuple[Verb, str | None, int | None, int | None]] = field(default_factory=list)
    executed: list[tuple[Plan, str]] = field(default_factory=list)
    refused: int = 0
    needs_typing: bool = False
    fail: Exception | None = None
    text: str = "stuck"
    lane: str | None = None
    #: Pids that are no longer there when their plan is made.
    gone: tuple[int, ...] = ()
    #: An act waits for this before it does anything.
    hold: threading.Event | None = None

    def _plan(self, verb: Verb, ticket: str | None, pid: int | None = None, subtree: int | None = None) -> Plan:
        if self.fail is not None:
            raise self.fail
        self.planned.append((verb, ticket, pid, subtree))
        if pid in self.gone:
            raise GoneError(f"pid {pid} is already gone, nothing was done")
        target = TARGET if pid is None else replace(TARGET, pid=pid)
        return Plan(
            verb, "gpu", ticket, "n", self.lane or self.text,
            f"the hold is asked to end its payload: {self.text}", (target,), (WEAK,),
            (f"5007 {self.text}: a tmux server of another lane",), 38 * 1024**3, self.needs_typing, ticket or str(pid),
        )  # fmt: skip

    def plan_kill(
        self,
        snapshot: Snapshot,
        ticket_id: str | None,
        *,
        pid: int | None = None,
        subtree: int | None = None,
        state_dir: str | None = None,
    ) -> Plan:
        del snapshot, state_dir
        return self._plan("kill", ticket_id, pid, subtree)

    def plan_evict(self, snapshot: Snapshot, ticket_id: str, *, state_dir: str | None = None) -> Plan:
        del snapshot, state_dir
        return self._plan("evict", ticket_id)

    def plan_recover(self, snapshot: Snapshot, resource: str, *, state_dir: str | None = None) -> Plan:
        del snapshot, state_dir
        return self._plan("recover", resource)

    def execute(self, plan: Plan, *, reason: str, progress: Callable[[Step], None], read_only: bool = False) -> Outcome:
        if read_only:
            self.refused += 1
            raise RefusedError("read-only: nothing was done")
        if self.hold is not None:
            self.hold.wait(10)
        self.executed.append((plan, reason))
        pid = plan.targets[0].pid
        steps = (Step(pid, "asked", self.text), Step(pid, "terminated", "after 0.4 s"))
        for step in steps:
            progress(step)
        common = {"at": "2030-01-02T03:04:06+00:00", "act": "50e4792f", "reason": reason}
        records = (
            {**common, "kind": "intent", "seq": 7, "hash": "6c75632a6c70060b"},
            {**common, "kind": "outcome", "seq": 8, "hash": "a0bf3f5ace192990"},
        )
        return Outcome(0, f"ended, {self.text}", steps, 37 * 1024**3, records)


def console(
    first: Snapshot | None,
    operator: FakeOperator | None = None,
    *,
    feed: FakeFeed | None = None,
    theme: str = "dark",
    glyphs: Glyphs = UNICODE,
    read_only: bool = False,
    colorless: bool = False,
    remapped: dict[str, str] | None = None,
    troubles: tuple[str, ...] = (),
) -> Console:
    """The real program on a fake feed."""
    feed = feed or FakeFeed()
    feed.first = first
    themes = load([packaged()])
    assert themes.failed == ()
    return Console(
        Setup(
            feed=feed.made,
            operator=operator or FakeOperator(),
            keys=table(remapped or {}),
            remapped=remapped or {},
            themes=themes.loaded,
            theme=theme,
            glyphs=glyphs,
            reasons=("stuck", "over its time", "wrong job"),
            logs=(),
            read_only=read_only,
            colorless=colorless,
            troubles=troubles,
        )
    )
