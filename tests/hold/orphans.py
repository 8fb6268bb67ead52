"""One row of the orphan matrix: a payload of every kind of process, one end, and who lives how long after it.

The program is ``orphans.c``. Every run is put into a cgroup of its own, which is the harness's means of counting and
of cleaning up; whether the tool that is measured has cgroups of its own is another matter.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import Identity, Pinned, read_stat
from tests.hold.lanes import until

SOURCE = Path(__file__).with_name("orphans.c")
#: The root last: it is the one whose end the others outlive.
KINDS = ("plain", "ignoring", "setsid", "daemon", "disguised", "chain", "chainsid", "root")
#: What holds no descriptor of the job's any more.
DAEMONS = ("daemon", "disguised", "root")
#: How often the harness looks, in seconds: about twice in the life of a chain's link.
LOOK_EVERY = 0.01
#: What was not seen for so long is gone, in seconds: many links of a chain.
GONE_AFTER = 0.5

_numbers = itertools.count(1)


def build(directory: Path) -> str:
    """Compile the program into ``directory``. Raises ``FileNotFoundError`` where there is no compiler."""
    program = directory / "orphans"
    subprocess.run(["cc", "-O2", "-o", program, SOURCE], check=True)
    program.chmod(0o755)
    return str(program)


@dataclass(frozen=True)
class Census:
    """What the next job saw, or whoever watched the token: taken with its first instructions."""

    #: CLOCK_MONOTONIC, in seconds.
    at: float
    alive: frozenset[str]


@dataclass
class Tree:
    """The payload of one run."""

    program: str
    #: Holds every process of the run: payload, tool, next job.
    group: Cgroup
    #: Where results and the tool's state lie.
    directory: Path
    kinds: tuple[str, ...] = KINDS
    environment: Mapping[str, str] = field(default_factory=lambda: {**os.environ})
    tag: str = field(default_factory=lambda: f"{os.getpid()}{next(_numbers):04}")
    spawned: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def payload(self) -> list[str]:
        return [self.program, "root", self.tag, *(kind for kind in self.kinds if kind != "root")]

    def census(self, name: str, *watched: str) -> list[str]:
        """The next job; or, with a file to watch, whoever counts when that is removed or replaced."""
        return [self.program, "census", self.tag, self.group.directory, str(self.directory / name), *watched]

    def told(self, name: str) -> Census | None:
        """The census of that name, once it was taken."""
        try:
            at, *alive = (self.directory / name).read_text().split()
        except FileNotFoundError:
            return None
        return Census(int(at) / 1e9, frozenset(alive))

    def spawn(self, *command: str) -> subprocess.Popen[bytes]:
        """Start something inside the run's cgroup, as a job in the foreground of a session of its own would be."""
        enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
        process = subprocess.Popen(
            ["sh", "-c", enter, self.group.directory, *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.directory,
            env=self.environment,
            start_new_session=True,
        )
        self.spawned.append(process)
        return process

    def run(self, *command: str) -> None:
        """The same, for what returns at once."""
        self.spawn(*command).wait(20)

    def kind(self, pid: int) -> str | None:
        """Which of the payload's processes this is; ``None`` for anybody else, and for the dead."""
        try:
            _, kind, tag, *_ = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, ValueError):
            return None
        return kind if tag == self.tag and kind in self.kinds else None

    def look(self) -> dict[str, Identity]:
        """Who of the payload lives. One look may miss a chain between two links."""
        found = {}
        for pid in self.group.procs():
            if (kind := self.kind(pid)) and (stat := read_stat(pid)):
                found[kind] = stat.identity
        return found

    def root(self) -> Identity:
        """The root, once every kind runs."""
        seen: set[str] = set()

        def complete() -> Identity | None:
            found = self.look()
            seen.update(found)
            return found.get("root") if seen >= {*self.kinds} else None

        return until(complete, 30)

    def reap(self) -> None:
        """Collect what was started here; all of it has been killed with the cgroup."""
        for process in self.spawned:
            process.wait(20)


class Tool:
    """What runs jobs one after the other: the measured one."""

    #: Whether a job can wait for its turn.
    queues: ClassVar[bool] = True
    #: Every way in which its job is to be ended, and what does it to the tool.
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {}

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.main: subprocess.Popen[bytes] | None = None
        self.root = Identity(0, 0)

    def start(self) -> None:
        """Start the payload."""
        raise NotImplementedError

    def queue(self, name: str) -> None:
        """Queue a job behind the payload that takes the census of that name, and wait until it waits."""
        raise NotImplementedError

    def ready(self, end: str) -> None:
        """Wait for what that end needs."""

    def leader(self) -> int:
        """The process group that a Ctrl-C would reach."""
        assert self.main
        return self.main.pid

    def exit_root(self) -> None:
        send(self.root, signal.SIGUSR1)

    def interrupt(self) -> None:
        """Ctrl-C on a terminal: INT to the whole foreground group."""
        subprocess.run(["kill", "-INT", "--", f"-{self.leader()}"], check=True)


def send(process: Identity, signum: signal.Signals) -> None:
    with Pinned(process) as pinned:
        pinned.send(signum)


@dataclass(frozen=True)
class Outcome:
    """One row of the matrix. All times are seconds since the end."""

    survivors: tuple[str, ...]
    #: When the last one was seen for the last time; ``None``: they live on.
    last_gone: float | None
    #: When the next job ran, and who lived then; ``None``: it never did.
    slot_free: float | None
    alive_then: tuple[str, ...]
    #: When the token was removed or changed hands, and who lived then (holdtop alone has one).
    token_free: float | None = None
    alive_at_token: tuple[str, ...] = ()
    #: The next job was lost with the queue, and one that was queued anew ran beside these.
    lost: tuple[str, ...] | None = None


def play(tool: Tool, end: str, wait: float) -> Outcome:
    """Start, queue the next job, end the first one that way, and watch for ``wait`` seconds at the most."""
    tree = tool.tree
    tool.start()
    tool.root = tree.root()
    if tool.queues:
        tool.queue("next")
    tool.ready(end)
    ended_at = time.monotonic()
    tool.ends[end](tool)
    seen = _watch(tool, ended_at, wait)
    now = time.monotonic()
    survivors = {kind for kind, at in seen.items() if at > now - GONE_AFTER}
    following, token = tree.told("next"), tree.told("token")
    lost = None
    if tool.queues and not following:
        tool.queue("anew")
        again = _within(5, lambda: tree.told("anew"))
        lost = _ordered(again.alive) if again and not tree.told("next") else None

    def alive(at: Census | None) -> tuple[str, ...]:
        """Whom the census saw, and whom we saw after it."""
        return _ordered({*at.alive, *(kind for kind, last in seen.items() if last > at.at)}) if at else ()

    return Outcome(
        survivors=_ordered(survivors),
        last_gone=None if survivors else max(seen.values(), default=ended_at) - ended_at,
        slot_free=following.at - ended_at if following else None,
        alive_then=alive(following),
        token_free=token.at - ended_at if token else None,
        alive_at_token=alive(token),
        lost=lost,
    )


def _watch(tool: Tool, ended_at: float, wait: float) -> dict[str, float]:
    """When each kind was seen for the last time. Over early once all are gone and the next job has run."""
    seen: dict[str, float] = {}
    while (now := time.monotonic()) < ended_at + wait:
        seen |= dict.fromkeys(tool.tree.look(), now)
        quiet = now > max(seen.values(), default=ended_at) + GONE_AFTER
        if quiet and (not tool.queues or tool.tree.told("next")):
            break
        time.sleep(LOOK_EVERY)
    return seen


def _within(seconds: float, condition: Callable[[], Census | None]) -> Census | None:
    try:
        return until(condition, seconds)
    except AssertionError:
        return None


def _ordered(kinds: set[str] | frozenset[str]) -> tuple[str, ...]:
    return tuple(kind for kind in KINDS if kind in kinds)
