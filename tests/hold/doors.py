"""Every door through which a payload is sent out, for one test to go through them all."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.hold.lanes import HOLDTOP, NAP, Box, kill_both, until
from tests.hold.sensors import Sensors

GRACE, SURVIVE_WAIT, MAX_HOLD = 1.1, 1.3, 4.0
#: None of the defaults. By the default survive wait an end outlasts the patience of ``over``; a longer grace does not.
BOUNDS = ("--grace", str(GRACE), "--survive-wait", str(SURVIVE_WAIT))
#: One that hears TERM, says so and works on; one that sleeps; and a root that leaves when it is told to.
ROOT = f"""
setsid -f sh -c 'echo $$ > $1.new; mv $1.new $1; trap "echo heard >> $1" TERM
    while :; do sleep 0.05; done' sh "$1" {NAP}
setsid -f sh -c 'echo $$ > $1.still.new; mv $1.still.new $1.still; exec sleep {NAP}' sh "$1"
until [ -e "$1.leave" ]; do sleep 0.05; done
"""


@dataclass
class Visit:
    """A payload that is about to be sent out: its root, and two that have left the root's session."""

    state: Box
    sensors: Sensors
    lane: subprocess.Popen[bytes]
    ticket: str
    keeper: int
    #: The path by which they are told apart.
    file: Path
    #: Before the lane was started: ``time.monotonic()``.
    began: float
    #: Not later than the first TERM: ``time.monotonic()``.
    opened: float = math.nan
    #: What acts in the hold's stead.
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def deaf(self) -> int:
        """It ignores TERM."""
        return int(self.file.read_text().split()[0])

    @property
    def heard(self) -> bool:
        return "heard" in self.file.read_text()

    @property
    def still(self) -> int:
        """A plain sleep: what a test freezes."""
        return int(self.file.with_name(f"{self.file.name}.still").read_text())

    def verb(self, verb: str, *words: str) -> None:
        line = [*HOLDTOP, verb, "--state-dir", str(self.state.state), *words, "--yes", "--reason", "enough"]
        self.others.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def over(self) -> list[int]:
        """Wait for every process of it; the statuses, the hold's first."""
        return [process.wait(30) for process in (self.lane, *self.others)]


@dataclass(frozen=True)
class Door:
    way_out: Callable[[Visit], None]
    status: int
    options: Sequence[str] = ()

    def open(self, seen: Visit) -> None:
        seen.opened = time.monotonic()
        self.way_out(seen)


def visit(state: Box, top: Path, door: Door) -> Visit:
    sensors, file, began = Sensors(top), top / "deaf", time.monotonic()
    options = [*BOUNDS, *door.options]
    # A pipe for stderr would be the survivors' as well: its end would be theirs.
    lane = state.run("sh", "-c", ROOT, "sh", str(file), options=options, env=sensors.environ, stderr=subprocess.DEVNULL)
    started = state.until_running()
    seen = Visit(state, sensors, lane, started["ticket"], started["keeper_pid"], file, began)
    until(lambda: file.exists() and file.with_name("deaf.still").exists())
    return seen


def _deadline(seen: Visit) -> None:
    """Opens by itself."""
    seen.opened = seen.began + MAX_HOLD


def _signal(signum: signal.Signals, seen: Visit) -> None:
    seen.lane.send_signal(signum)


def _kill_keeper(seen: Visit) -> None:
    os.kill(seen.keeper, signal.SIGKILL)


def _kill_both(seen: Visit) -> None:
    """What was published before is all that is known then."""
    record = seen.state.queue / ".record" / f"{seen.ticket}.json"
    until(lambda: all(f'"pid": {pid},' in record.read_text() for pid in (seen.deaf, seen.still)))
    kill_both(seen.lane, seen.keeper)
    seen.opened = time.monotonic()


def _next_waiter(seen: Visit) -> None:
    _kill_both(seen)
    seen.others.append(seen.state.run("true", options=BOUNDS, stderr=subprocess.DEVNULL))


def _recover(seen: Visit) -> None:
    _kill_both(seen)
    seen.verb("recover", "--grace", str(GRACE))


def _remove_ticket(seen: Visit) -> None:
    (seen.state.queue / seen.ticket).unlink()


def _replace_token(seen: Visit) -> None:
    theirs = seen.state.state / "theirs"
    theirs.write_text(f"other {os.getpid()}\n")
    theirs.replace(seen.state.token)


DOORS = {
    "max-hold": Door(_deadline, 124, ["--max-hold", str(MAX_HOLD)]),
    "stop": Door(lambda seen: seen.verb("kill", seen.ticket), 130),
    "evicted": Door(_remove_ticket, 130),
    "token-lost": Door(_replace_token, 125),
    "TERM": Door(partial(_signal, signal.SIGTERM), 143),
    "INT": Door(partial(_signal, signal.SIGINT), 130),
    "HUP": Door(partial(_signal, signal.SIGHUP), 129),
    "QUIT": Door(partial(_signal, signal.SIGQUIT), 131),
    "exited": Door(lambda seen: Path(f"{seen.file}.leave").touch(), 0),
    "mem-abort-gib": Door(lambda seen: seen.sensors.memory(1), 122, ["--mem-abort-gib", "8"]),
    "tctl-abort": Door(lambda seen: seen.sensors.heat(99), 123, ["--tctl-abort", "95"]),
    "keeper-killed": Door(_kill_keeper, 125),
    "supervisor-killed": Door(lambda seen: seen.lane.kill(), -9),
    "next waiter": Door(_next_waiter, -9),
    "recover": Door(_recover, -9),
}
