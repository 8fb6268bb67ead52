"""One episode after the other in a directory of its own: start what the plan says, do what it says, judge, clean up.

The arena is the parent of all lanes and a subreaper: the kernel tells it how each ended, and nothing of an episode
can hide from the next one. Each episode is bounded: what stands still for too long is a wedge, and the run goes on.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.chaos import checker, lanes
from bench.chaos.acts import Actor
from bench.chaos.checker import LaneFacts, Process, Verdict
from bench.chaos.plan import LAST, Episode, LanePlan

from holdtop.payload import linux
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import Identity, Pinned, ProcessTable, UnreadableProcess, read_stat

#: Between two looks of the arena, in seconds.
TICK = 0.02
#: What stands still for so long is wedged, in seconds. A waiter's longest sleep, its patience with a stopped head,
#: a grace and a survive wait fit in several times over, on a busy machine too.
STALL = 40.0
#: A token that only an operator may free stands still for so long before one does, in seconds.
OPERATOR_AFTER = 0.3
OPERATOR_AGAIN = 1.0


@dataclass(slots=True)
class Arena:
    """Where episodes are played. ``entry``: what is under trial."""

    directory: Path
    program: Path
    entry: lanes.Entry = lanes.holdtop
    stall: float = STALL
    #: How long what was ended may take to be gone, in seconds.
    patience: float = 5.0
    #: Of the previous episode's payload: its marks, which a stranger carries in the next one.
    markers: dict[str, str] = field(default_factory=dict)
    #: Whether a payload gets a cgroup here.
    groups: bool = field(default_factory=lambda: bool((home := Cgroup.of(os.getpid())) and home.writable))

    def play(self, episode: Episode) -> Verdict:
        linux.become_subreaper()
        site = lanes.Site(self.directory / str(episode.seed), self.directory / "payload")
        site.state.mkdir(parents=True)
        site.state.chmod(0o2770)
        if not site.program.exists():
            os.link(self.program, site.program)
        play = Play(self, episode, site)
        try:
            return play.whole()
        finally:
            play.clean_up()
            shutil.rmtree(site.directory)


@dataclass(slots=True)
class Play:
    """One episode."""

    arena: Arena
    episode: Episode
    site: lanes.Site
    verdict: Verdict = field(default_factory=Verdict)
    facts: dict[int, LaneFacts] = field(default_factory=dict)
    strangers: list[Identity] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    _moved_at: float = field(default_factory=time.monotonic)
    _seen: object = None
    _operator: int | None = None
    _operated_at: float = 0.0
    _scanned: object = None
    _robbed: bool = False
    #: Wait statuses by pid.
    _died: dict[int, int] = field(default_factory=dict)

    def whole(self) -> Verdict:
        self._meet_strangers()
        actor = Actor(self)
        starts = [(lane.at, index, lane) for index, lane in enumerate(self.episode.lanes)]
        acts = list(self.episode.acts)
        while starts or acts or actor.pending:
            elapsed = time.monotonic() - self.began
            while starts and starts[0][0] <= elapsed:
                _, index, lane = starts.pop(0)
                self.start(index, lane)
            while acts and acts[0].at <= elapsed:
                actor.act(acts.pop(0))
            actor.undo(elapsed)
            self._look()
            time.sleep(TICK)
        actor.undo(None)
        self._settle()
        if not self._waiting():
            self.start(len(self.episode.lanes), LAST)
            self._settle()
        self._judge()
        if self.verdict.found:
            self.verdict.transcript = [*map(str, self.facts.values()), *self._transcript()]
        return self.verdict

    def start(self, index: int, lane: LanePlan) -> None:
        run = f"{self.episode.seed}.{index}"
        pid = lanes.start(lane, run, self.site, self.arena.entry)
        grouped = self.arena.groups and "subreaper" not in lane.options
        self.facts[index] = LaneFacts(run, pid, lane.by, lane.status, "-w" in lane.options, grouped=grouped)
        self._moved_at = time.monotonic()

    def recover(self) -> int:
        """An operator's command, beside the lanes."""
        words = ["recover", "--state-dir", str(self.site.state), "--yes", "--reason", "chaos", "--grace", "0.1"]
        return lanes.fork(lambda: lanes.holdtop(words), self.site, own_session=True)

    def touch(self) -> None:
        """What happens to the token happens to everybody."""
        for lane in self.facts.values():
            lane.touched = True

    def rob(self) -> None:
        """Somebody is about to remove or replace the token: its hold is not bound to exclude others any more.

        Whose it is says its first line; of one that was emptied, anybody may be the holder.
        """
        self.touch()
        self._robbed = True
        named = re.match(r"\S+ ([0-9]+)", self._token_text())
        for lane in self.facts.values():
            if not lane.beheaded and lane.robbed_at is None and (named is None or lane.pid == int(named[1])):
                lane.robbed_at = time.monotonic()

    def _waiting(self) -> list[LaneFacts]:
        return [lane for lane in self.facts.values() if lane.ended is None]

    def _meet_strangers(self) -> None:
        """Lookalikes: the payload's words and an old run's marks, in a session of their own and in the arena's."""
        for own_session in (True, False):
            pid = os.fork()
            if pid == 0:
                if own_session:
                    os.setsid()
                words = ["payload", "plain", f"{self.episode.seed}.0"]
                os.execve(self.arena.program, words, {**os.environ, **self.arena.markers})
            stat = read_stat(pid)
            assert stat
            self.strangers.append(stat.identity)

    def _look(self) -> None:
        """Reap, see whether anything moves, and look for what lives on while the token is free."""
        self._reap()
        with contextlib.suppress(FileNotFoundError):
            self._seen_is((self._token(), self.site.log.stat().st_size))
        if not self.arena.markers:
            self._copy_markers()
        self._look_for_leaks()

    def _seen_is(self, seen: object) -> None:
        if seen != self._seen:
            self._seen = seen
            self._moved_at = time.monotonic()

    def _token(self) -> tuple[int, int] | None:
        try:
            status = os.lstat(self.site.token)
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_ctime_ns

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._operator:
                self._operator = None
                continue
            self._died[pid] = status
            for lane in self.facts.values():
                if lane.pid == pid and lane.ended is None:
                    lane.ended = os.waitstatus_to_exitcode(status)
                    self._moved_at = time.monotonic()

    def _copy_markers(self) -> None:
        for one in checker.payload_processes(self.site.program) if self.site.log.exists() else ():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{one.pid}/environ").read_bytes().decode(errors="replace").split("\0")
                self.arena.markers = {
                    name: value
                    for name, _, value in (v.partition("=") for v in variables)
                    if name.startswith("HOLDTOP_")
                }

    def _look_for_leaks(self) -> None:
        """Whatever of a payload lives while nobody has the token, between two looks that saw one directory."""
        if self._robbed:
            return  # nobody keeps a dead hold's token in its place; the next payload takes the census
        before = self.site.state.stat().st_mtime_ns
        if self._scanned == before or self._token() is not None:
            return
        alive = [one for one in checker.payload_processes(self.site.program) if not self._beyond_finding(one)]
        if self._token() is None and self.site.state.stat().st_mtime_ns == before:
            self._scanned = before
            if alive:
                self.verdict.add("leaks", f"the token is free, and there live {alive}")

    def _beyond_finding(self, one: Process) -> bool:
        return any(one.run == lane.run and one.beyond_finding(lane) for lane in self.facts.values())

    def _settle(self) -> None:
        """Until every lane has ended and every hold with it, or nothing has moved for too long."""
        while self._waiting() or self._holds() or self._operator is not None:
            self._look()
            still = time.monotonic() - self._moved_at
            if still > self.arena.stall:
                named = [lane.run for lane in self._waiting()]
                self.verdict.add("wedges", f"nothing moves: {named} wait, the token says {self._token_text()[:60]!r}")
                return
            if still > OPERATOR_AFTER and self._operator is None:
                self._operate()
            time.sleep(TICK)

    def _token_text(self) -> str:
        with contextlib.suppress(OSError):
            return self.site.token.read_text(errors="replace")
        return ""

    def _operate(self) -> None:
        """What no waiter frees: ``recover`` does it with an emptied token, and with a ghost for which only shells wait.

        A dead shell's token is for whoever knows that shell.
        """
        text = self._token_text()
        shell = re.match(r"\S+ ([0-9]+)", text)
        if shell and "\nid=" not in text and not os.path.exists(f"/proc/{shell[1]}"):
            self.site.token.unlink(missing_ok=True)
        elif not self._token() or (text and any(lane.by != "peer" for lane in self._waiting())):
            return
        elif time.monotonic() - self._operated_at > OPERATOR_AGAIN:
            self._operated_at = time.monotonic()
            self._operator = self.recover()

    def _holds(self) -> list[int]:
        """Processes of ours that run the code under trial: forks of this one, and the command's own."""
        table = ProcessTable()
        found = []
        for pid in table.descendants(os.getpid()):
            with contextlib.suppress(OSError):
                if not table.stats[pid].dead and os.readlink(f"/proc/{pid}/exe") == os.readlink("/proc/self/exe"):
                    found.append(pid)
        return found

    def _judge(self) -> None:
        until = time.monotonic() + self.arena.patience
        while (left := self._left()) and time.monotonic() < until:
            self._reap()
            time.sleep(TICK)
        if left:
            self.verdict.add("leaks", f"alive at the end: {left}")
        for stranger in self.strangers:
            stat = read_stat(stranger.pid)
            if stat is None or stat.identity != stranger or stat.dead or stat.state == "T":
                self.verdict.add("strangers harmed", f"{stranger}: {stat}, wait status {self._died.get(stranger.pid)}")
        seen = checker.begins(self.site.log)
        begun = {begin.run for begin in seen}
        checker.judge_overlaps(self.verdict, seen, {lane.run: lane for lane in self.facts.values()})
        for lane in self.facts.values():
            checker.judge_lane(self.verdict, lane, lane.run in begun)
        checker.judge_events(self.verdict, checker.events(self.site.queue), self.facts.values(), begun)

    def _transcript(self) -> Iterator[str]:
        events = self.site.queue / ".log/events.jsonl"
        for path in (self.site.said, self.site.log, events):
            yield from path.read_text(errors="replace").splitlines() if path.exists() else ()

    def _left(self) -> list[str]:
        """Everything below the arena but the strangers, and what nobody can find."""
        table = ProcessTable()
        strangers = {stranger.pid for stranger in self.strangers}
        lost = {one.pid for one in checker.payload_processes(self.site.program) if self._beyond_finding(one)}
        below = (table.stats[pid] for pid in table.descendants(os.getpid()) if pid not in strangers | lost)
        return [f"{stat.pid} ({stat.name})" for stat in below if not stat.dead]

    def clean_up(self) -> None:
        """End everything of this episode by identity, until the kernel says that no child is left."""
        while True:
            with contextlib.suppress(ChildProcessError):
                self._reap()
                os.waitpid(-1, os.WNOHANG)
                for identity in _below():
                    with contextlib.suppress(ProcessLookupError, UnreadableProcess), Pinned(identity) as pinned:
                        pinned.send(signal.SIGKILL)
                time.sleep(0.002)
                continue
            return


def _below() -> Iterator[Identity]:
    table = ProcessTable()
    for pid in table.descendants(os.getpid()):
        yield table.stats[pid].identity
