"""Who plays in the demo: lanes with real holds, a deaf grandchild, a survivor, a ghost, a stray.

All of them are children (or, once orphaned, heirs) of the guardian, which is a subreaper.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from holdtop.demo.world import World
from holdtop.errors import HoldError
from holdtop.hold import places, survivors
from holdtop.hold.look import look
from holdtop.hold.view import QueueView, Record, TicketFile
from holdtop.payload import launch
from holdtop.payload.custody import Left, Member
from holdtop.payload.process import Identity, Pinned, ProcessTable, is_alive

#: The longest that any step of the set-up may take, in seconds.
PATIENCE = 30.0
#: Device memory of each program, as a part of the device's pool.
SHARES = {
    "finetune": 0.40,
    "writer": 0.03,
    "serve": 0.34,
    "embed": 0.18,
    "bench": 0.25,
    "evaluate": 0.09,
    "notebook": 0.06,
}
HOLDER = "python3 finetune.py --epochs 3 --seconds 1500 --below loader,writer --deaf"
#: Its own limits, on the demo's sensors.
LIMITS = ("--max-hold", "45m", "--tctl-abort", "95", "--mem-abort-gib", "8")
#: Lanes that queue behind the holder, and their commands.
WAITING = (
    ("ci-nightly", "python3 serve.py --model qwen3-30b-a3b --smoke-test --seconds 240"),
    ("docs-search", "python3 embed.py --corpus handbook --seconds 120"),
    ("kernels", "python3 bench.py --shapes all --seconds 90"),
    ("ci-nightly", "python3 serve.py --model gemma3-12b --smoke-test --seconds 240"),
)
Found = TypeVar("Found")


@dataclass
class Cast:
    world: World
    #: Lets time pass; may raise to give the set-up up.
    pause: Callable[[float], None]
    #: What was set up, for whoever drives the demo.
    told: dict[str, object] = field(default_factory=dict)

    def enter(self) -> None:
        """Start everybody. Raises ``HoldError`` when somebody does not come up."""
        npu = self._hold("npu", "dictation", "python3 transcribe.py --language en --seconds 1800")
        self._survivor()
        stray = self._start("notebook", shlex.split("python3 notebook.py --user dana --seconds 3600"))
        holder = self._hold("gpu", "ml-team", HOLDER, *LIMITS)
        running = self._until("the holder's tree", lambda: self._running("gpu", holder, members=3))
        waiting = [self._hold("gpu", lane, command) for lane, command in WAITING]
        self._ghost(npu)
        deaf = next(process.pid for process in running.members if process.name == "writer")
        self.told |= {
            "holder": holder.id,
            "deaf": deaf,
            "members": [process.pid for process in running.members],
            "waiting": [ticket.id for ticket in waiting],
            "lanes": [holder.lane, *(ticket.lane for ticket in waiting)],
            "stray": stray.pid,
        }

    def holds(self) -> bool:
        """Somebody holds the GPU, and does so alive."""
        token = self._look("gpu").token
        return token is not None and token.ticket is not None and not token.ticket.dead

    def _hold(self, resource: str, lane: str, command: str, *options: str) -> TicketFile:
        """A real hold; returns once its ticket is in the queue."""
        run = f"-m holdtop run -r {resource} --lane {lane} --grace 3s --survive-wait 5s".split()
        state = ("--state-dir", str(self.world.state))
        hold = self._start(lane, [sys.executable, "-P", *run, *state, *options, "--", *shlex.split(command)])

        def queued() -> TicketFile | None:
            if not is_alive(hold):
                raise HoldError(f"the hold of lane {lane} ended: {self._last_words()}")
            return next((ticket for ticket in self._look(resource).tickets if ticket.pid == hold.pid), None)

        return self._until(f"lane {lane}", queued)

    def _survivor(self) -> None:
        """A process on record as having outlived its token: the hold is over, the process is not."""
        ticket = self._hold("gpu", "eval", "python3 evaluate.py --suite math --seconds 0.3")
        self._until("lane eval's end", lambda: self._look("gpu").token is None and not self._look("gpu").tickets)
        process = self._start("evaluate", shlex.split("python3 evaluate.py --suite math --seconds 3600"))
        member = Member(process, "evaluate", os.getuid(), "descent", "S")
        with places.resolve("gpu", str(self.world.state)).open_queue() as queue:
            survivors.record(queue, ticket, [Left(member, "spared")])
        self.told["survivor"] = {"pid": process.pid, "ticket": ticket.id}

    def _ghost(self, ticket: TicketFile) -> None:
        """End both processes of a hold at once; each alone would end the payload and free the token."""
        record = self._until("the ghost's record", lambda: self._running("npu", ticket, members=1))
        stats = ProcessTable().stats
        hold = [stats[pid].identity for pid in (ticket.pid, record.keeper_pid) if pid in stats]
        with contextlib.ExitStack() as stack:
            pinned = [stack.enter_context(Pinned(identity)) for identity in hold]
            for signum in (signal.SIGSTOP, signal.SIGKILL):
                for process in pinned:
                    process.send(signum)
        self._until("the ghost", lambda: (token := self._look("npu").token) and token.ticket and token.ticket.dead)
        pids = [process.pid for process in record.members]
        self.told["ghost"] = {"ticket": ticket.id, "token": str(self.world.state / "npu-token"), "pids": pids}

    def _start(self, name: str, argv: Sequence[str]) -> Identity:
        log = os.open(self.world.logs / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            return launch.start(launch.Command(argv, log_fd=log), terminal_fd=None, hup_ignored=False)
        finally:
            os.close(log)

    def _look(self, resource: str) -> QueueView:
        return look(places.resolve(resource, str(self.world.state)))

    def _running(self, resource: str, ticket: TicketFile, members: int) -> Record | None:
        record = self._look(resource).records.get(ticket.id)
        return record if record and record.keeper_pid and len(record.members) >= members else None

    def _until(self, what: str, ask: Callable[[], Found | None]) -> Found:
        deadline = time.monotonic() + PATIENCE
        while not (found := ask()):
            if time.monotonic() > deadline:
                raise HoldError(f"the demo could not set up {what} within {PATIENCE:.0f} s: {self._last_words()}")
            self.pause(0.02)
        return found

    def _last_words(self) -> str:
        logs = sorted(self.world.logs.iterdir(), key=lambda path: path.stat().st_mtime)
        lines = logs[-1].read_text(errors="replace").split("\n") if logs else []
        return next((line for line in reversed(lines) if line), "it said nothing")


def program_of(pid: int) -> str | None:
    """Which of the demo's programs this process runs."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    name = os.fsdecode(words[1]).removesuffix(".py") if len(words) > 1 else ""
    return name if words[0] == b"python3" and os.fsdecode(words[1]).endswith(".py") else None
