"""The other tools of the matrix, each used as its manual says, and each with every end it has."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tests.hold.lanes import identity
from tests.hold.orphans import Tool, send

from holdtop.payload.process import Identity, read_stat

#: How long a queued job is given until it waits, in seconds: these tools do not tell.
QUEUED = 0.5


class Peer(Tool):
    #: The command that has to be there.
    command: ClassVar[str]

    @classmethod
    def missing(cls) -> bool:
        return shutil.which(cls.command) is None

    def supervisor(self) -> Identity:
        """Who waits for the job."""
        assert self.main
        return identity(self.main.pid)

    def submit(self, *command: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        self.submit(*self.tree.payload())

    def queue(self, name: str) -> None:
        self.submit(*self.tree.census(name))
        time.sleep(QUEUED)

    def parent_of_root(self) -> Identity:
        stat = read_stat(self.root.pid)
        assert stat
        return identity(stat.ppid)


def signalled(signum: signal.Signals) -> Callable[[Any], None]:
    return lambda peer: send(peer.supervisor(), signum)


SUPERVISOR_ENDS: Mapping[str, Callable[[Any], object]] = {
    "TERM": signalled(signal.SIGTERM),
    "KILL": signalled(signal.SIGKILL),
    "root exits": Tool.exit_root,
}


class Flock(Peer):
    command = "flock"
    options: ClassVar[tuple[str, ...]] = ()
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {"Ctrl-C": Tool.interrupt, **SUPERVISOR_ENDS}

    def submit(self, *command: str) -> None:
        process = self.tree.spawn("flock", *self.options, str(self.tree.directory / "lock"), *command)
        self.main = self.main or process


class FlockClosed(Flock):
    options = ("-o",)


class Timeout(Peer):
    """No queue: a limit that is followed by TERM to the group, and KILL 3 s later."""

    command = "timeout"
    queues = False
    limit: ClassVar[float] = 8
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {"time limit": lambda _peer: None, **SUPERVISOR_ENDS}

    def start(self) -> None:
        self.limited_at = time.monotonic() + self.limit
        self.main = self.tree.spawn("timeout", "-k", "3", str(self.limit), *self.tree.payload())

    def ready(self, end: str) -> None:
        if end == "time limit":
            time.sleep(max(0.0, self.limited_at - time.monotonic()))


class TaskSpooler(Peer):
    """Each job has a runner of its own; the server has the queue."""

    command = "tsp"
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "tsp -k": lambda peer: peer.submit("-k"),
        "TERM server": lambda peer: send(peer.server, signal.SIGTERM),
        "TERM runner": lambda peer: send(peer.parent_of_root(), signal.SIGTERM),
        "KILL server": lambda peer: send(peer.server, signal.SIGKILL),
        "KILL runner": lambda peer: send(peer.parent_of_root(), signal.SIGKILL),
        "root exits": Tool.exit_root,
    }

    def submit(self, *command: str) -> None:
        self.tree.run("tsp", *command)

    def start(self) -> None:
        self.submit("-S", "1")
        (server,) = self.tree.group.procs()
        self.server = identity(server)
        super().start()


class Nq(Peer):
    command = "nq"
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "kill -- -PID": lambda peer: peer.stop(),
        **SUPERVISOR_ENDS,
    }

    def submit(self, *command: str) -> None:
        self.tree.run("nq", *command)

    def supervisor(self) -> Identity:
        return self.parent_of_root()

    def stop(self) -> None:
        """As nq(1) has it: the job's name ends in its process group."""
        first = min(path.name for path in self.tree.directory.glob(",*"))
        subprocess.run(["kill", "--", f"-{first.rpartition('.')[2]}"], check=True)


PEERS: Mapping[str, type[Peer]] = {
    "flock": Flock,
    "flock -o": FlockClosed,
    "tsp": TaskSpooler,
    "nq": Nq,
    "timeout -k 3 8": Timeout,
}
