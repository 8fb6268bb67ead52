"""The judge of an episode. It believes the kernel, and what the payloads witnessed with their first instructions.

What holdtop says is never evidence; its event log is itself on trial and compared with what happened.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COUNTS = ("double holds", "leaks", "strangers harmed", "wedges", "events")
#: What a hold says once, if at all. Not so ``ending``: an heir begins the end again, for a reason of its own.
ONCE = ("queued", "head", "taken", "started", "ended", "released", "kept", "unreleased", "evicted", "left")
#: How a hold that took is over.
OVER = ("released", "kept", "unreleased")


@dataclass(slots=True)
class Verdict:
    """What was found wrong, by kind."""

    found: list[tuple[str, str]] = field(default_factory=list)
    #: With anything found: what everybody said, for whoever looks for the cause.
    transcript: list[str] = field(default_factory=list)
    #: What took place, so that a quiet run can be told from an idle one.
    happened: Counter[str] = field(default_factory=Counter)

    def add(self, count: str, text: str) -> None:
        assert count in COUNTS
        if (count, text) not in self.found:
            self.found.append((count, text))


@dataclass(frozen=True, slots=True)
class Process:
    """One of a payload's, as its command line has it."""

    pid: int
    kind: str
    run: str

    def beyond_finding(self, lane: LaneFacts) -> bool:
        """Documented: with the whole hold killed and no cgroup, nothing tells whose it is once its environment is gone.

        It is known only when a look had published it (docs/containment.md).
        """
        return self.kind == "bare" and lane.beheaded and not lane.grouped


@dataclass(frozen=True, slots=True)
class Begin:
    """What a payload's root witnessed when it began."""

    run: str
    pid: int
    #: CLOCK_MONOTONIC in seconds.
    at: float
    lock_was_free: bool
    #: Each process of another payload that lived then.
    others: tuple[Process, ...]


@dataclass(slots=True)
class LaneFacts:
    """What was done to a lane and what became of it, as the arena, its parent, knows."""

    run: str
    pid: int
    by: str
    #: The payload's own status.
    status: int
    may_time_out: bool
    #: Something was done to its processes, its ticket, its disk or its token.
    touched: bool = False
    #: None of its processes was left to conclude.
    beheaded: bool = False
    inner_killed: bool = False
    #: Pids of its own processes that got KILL.
    killed: set[int] = field(default_factory=set)
    full: bool = False
    #: Its payload is in a cgroup.
    grouped: bool = True
    #: When its token was removed or replaced while its hold lived: the premise that nobody does so is broken.
    robbed_at: float | None = None
    #: As waitpid(2) tells; ``None`` while it lives.
    ended: int | None = None


def begins(log: Path) -> list[Begin]:
    found = []
    for line in log.read_text().splitlines() if log.exists() else []:
        run, pid, at, lock, *others = line.split()
        seen = (one.split(":") for one in others)
        found.append(Begin(run, int(pid), int(at) / 1e9, lock == "1", tuple(Process(int(p), k, r) for p, k, r in seen)))
    return found


def payload_processes(program: Path) -> list[Process]:
    """Every living process that executes ``program``: what the kernel says, whatever it calls itself."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            if os.readlink(f"/proc/{entry}/exe") == str(program):
                _, kind, run, *_ = Path(f"/proc/{entry}/cmdline").read_bytes().decode().split("\0")
                found.append(Process(int(entry), kind, run))
    return found


def judge_overlaps(verdict: Verdict, seen: Sequence[Begin], lanes: Mapping[str, LaneFacts]) -> None:
    """Two payloads at once: two holders when the other one's root lived, else what a holder had left."""
    roots = {begin.run: begin.pid for begin in seen}
    for begin in seen:
        others = [one for one in begin.others if not _excused(one, lanes[one.run], begin)]
        for run in {one.run for one in others}:
            double = roots.get(run) in [one.pid for one in others]
            verdict.add("double holds" if double else "leaks", f"{begin.run} began while there lived {others}")
        if not begin.lock_was_free and not begin.others:
            verdict.add("leaks", f"{begin.run} began while something that nobody sees held the payloads' lock")
    for run, times in Counter(begin.run for begin in seen).items():
        if times > 1:
            verdict.add("double holds", f"{run} began {times} times")


def _excused(one: Process, lane: LaneFacts, begin: Begin) -> bool:
    return one.beyond_finding(lane) or (lane.robbed_at is not None and lane.robbed_at < begin.at)


def judge_lane(verdict: Verdict, lane: LaneFacts, began: bool) -> None:
    """A lane that nobody touched is served, and ends as its payload does: or at its deadline, on a busy machine."""
    status = lane.ended
    verdict.happened["payloads begun"] += began
    verdict.happened["holds left without head"] += lane.beheaded
    verdict.happened["tokens robbed"] += lane.robbed_at is not None
    verdict.happened[f"status {status}"] += 1
    if lane.touched:
        return
    if status is None:
        verdict.add("wedges", f"{lane.run} was still there at the end, {'begun' if began else 'never served'}")
    elif not began and status != 124 and not (lane.may_time_out and status == 121):
        verdict.add("wedges", f"{lane.run} was never served, and left with {status}")
    elif began and status not in (lane.status, 124):
        verdict.add("strangers harmed", f"{lane.run}, which nobody touched, ended with {status}, not {lane.status}")


def events(queue: Path) -> Iterator[dict[str, Any]]:
    """Every event; a line that is none is one of the kind ``torn``.

    An empty one is no loss: who appends while a write crosses a page takes the half that is there for a torn line.
    """
    for name in ("events.1.jsonl", "events.jsonl"):
        path = queue / ".log" / name
        for line in filter(None, path.read_bytes().splitlines()) if path.exists() else ():
            try:
                yield json.loads(line)
            except ValueError:
                yield {"event": "torn", "ticket": ""}


def judge_events(
    verdict: Verdict, said: Iterable[dict[str, Any]], lanes: Iterable[LaneFacts], begun: Collection[str]
) -> None:
    """Each step exactly once; lost only where a disk was full or nobody was left to say it."""
    lanes = [lane for lane in lanes if lane.by != "peer"]
    by_pid: dict[int, list[dict[str, Any]]] = {lane.pid: [] for lane in lanes}
    ghosts: Counter[str] = Counter()
    for event in said:
        form = re.fullmatch(r"[0-9]{10}-([0-9]+)", event["ticket"])
        if event["event"] == "torn":
            if not any(lane.full or lane.killed for lane in lanes):
                verdict.add("events", "a torn line, and nobody was killed and no disk was full")
        elif event["event"] == "recovered":
            ghosts[event.get("ghost", event["ticket"])] += 1
        elif form is None or int(form[1]) not in by_pid:
            verdict.add("events", f"of nobody: {event}")
        else:
            by_pid[int(form[1])].append(event)
    verdict.happened["ghosts recovered"] += len(ghosts)
    for ghost, times in ghosts.items():
        if times > 1:
            verdict.add("events", f"{ghost} was recovered {times} times")
    for lane in lanes:
        for text in _wrong_events(lane, by_pid[lane.pid], lane.run in begun):
            verdict.add("events", f"{lane.run} (pid {lane.pid}): {text}")


def _wrong_events(lane: LaneFacts, said: Sequence[dict[str, Any]], began: bool) -> Iterator[str]:
    times = Counter(event["event"] for event in said)
    names = list(times.elements())
    if len({event["ticket"] for event in said}) > 1:
        yield f"several tickets: {sorted({event['ticket'] for event in said})}"
    yield from (f"{name} {times[name]} times" for name in ONCE if times[name] > 1)
    if lane.full:
        return
    if began and not (times["queued"] and times["taken"]):
        yield f"it ran, and said only {names}"
    if lane.beheaded or lane.ended is None:
        return
    if began and not (times["ended"] and (times["started"] or lane.inner_killed)):
        yield f"it ran and ended, and said only {names}"
    if times["taken"] and sum(times[name] for name in OVER) != 1:
        yield f"it took and gave back, and said only {names}"
    if times["queued"] and not (times["taken"] or times["left"] or times["evicted"] or times["released"]):
        yield f"it left, and said only {names}"
