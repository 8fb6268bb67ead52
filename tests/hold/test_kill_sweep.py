"""A SIGKILL of either process of a hold, or of both, at any line of its whole life: nothing is left, nobody is harmed.

The payload's members hold a FIFO open for writing, so the kernel itself tells at the instant a token goes whether any
of them lives: end of file means none does.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdtop.hold.inotify import GOES, Watch
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.signals import ready
from tests.hold.groups import holdtops_in, inside
from tests.hold.lanes import HOLDTOP, NAP, Box, sleepers, until
from tests.hold.test_sweep import DRIVER

SEED = int(os.environ.get("LONG_SEED", "20261202"))
#: Who executes the lines that are counted, who is killed there, and how many positions the long tier tries: together
#: 500 for each process, and 200 for both at once.
SWEEPS = {
    ("supervisor", "supervisor"): 320,
    ("keeper", "keeper"): 320,
    ("supervisor", "keeper"): 180,
    ("keeper", "supervisor"): 180,
    ("supervisor", "supervisor,keeper"): 100,
    ("keeper", "supervisor,keeper"): 100,
}
#: Positions of each sweep that every run of the tests tries.
SAMPLE = 6
GRACE = 0.1
#: Escapes first of all, with nothing by which it could be known, and ignores what can be ignored.
PAYLOAD = f"""
exec 9>$0/members
env -i setsid -f sh -c 'trap "" TERM; sleep {NAP}; true'
(trap '' TERM; exec sleep {NAP}) &
touch $0/up
exec sleep $1
"""


#: How a life may end by itself, and the options that go with it.
DOORS: dict[str, list[str]] = {"exit": [], "max-hold": ["--max-hold", "0.3"], "TERM": [], "evicted": []}

#: Lines of a life that is not killed: by who executes them, whether the keeper has to exist, and how it ends.
LINES: dict[tuple[str, bool, str], int] = {}


@dataclass
class Sweep:
    """One hold after the other, each killed at a line, between the same kinds of bystanders."""

    state: Box
    home: Cgroup
    place: Path
    role: str
    victims: str
    #: From each kill of one process until the other had freed the token.
    seconds: list[float] = field(default_factory=list)
    members: int = -1

    def run(self, positions: int) -> None:
        """So many kills, spread over the lines of the whole life."""
        os.mkfifo(self.place / "members")
        self.members = os.open(self.place / "members", os.O_RDONLY | os.O_NONBLOCK)
        dice = random.Random(f"{SEED} {self.role} {self.victims}")
        # Nobody who comes after both are dead can know an escapee of which nothing was published: the cgroup does.
        containments = ["auto", "pidns"] if self.both else ["auto", "pidns", "subreaper"]
        for step in range(positions):
            # The very first line always, and then by a door that nobody opens any more: the kill alone has to end it.
            door, part = dice.choice(list(DOORS)), (step + dice.random()) / positions
            if step == 0:
                door, part = "TERM", 0.0
            while not self.live(1 + int(part * self.whole(door)), door, dice.choice(containments)):
                part = dice.random()  # lives differ by a few lines, and this one was shorter

    @property
    def both(self) -> bool:
        return "," in self.victims

    def whole(self, door: str) -> int:
        """Lines of a life that is not killed, as far as they count."""
        key = self.role, "keeper" in self.victims, door
        if key not in LINES:
            self.live(0, door, "auto")
            LINES[key] = int(self.logged("ended")[0])
        return LINES[key]

    def live(self, position: int, door: str, contain: str) -> bool:
        """One life that is killed at this line, and asked to end by that door. False: it has no such line."""
        for name in ("log", "up"):
            (self.place / name).unlink(missing_ok=True)
        where = f"seed {SEED}: {self.role} line {position}, killed {self.victims}, {door}, {contain}"
        with bystander() as before, self.start(position, door, contain) as lane, bystander() as after:
            try:
                self.open_door(lane, door)
                lane.wait(60)
                hit = self.logged("hit")
                if hit[:1] != ["1"] and not (hit and self.both):
                    self.await_release(where)
                    if hit:
                        self.seconds.append(time.monotonic() - float(hit[1]))
                follower = self.follow()
                assert follower.returncode == 0, f"{where}: {follower.stderr.decode()}"
                assert set(sleepers()) == {before.pid, after.pid}, where
                assert self.state.leftovers() == [], where
                assert holdtops_in(self.home) == [], where
                assert before.poll() is after.poll() is None, f"{where}: a bystander was killed"
            finally:
                before.kill()
                after.kill()
        return bool(hit)

    def start(self, position: int, door: str, contain: str) -> subprocess.Popen[bytes]:
        options = ["--state-dir", str(self.state.state), "--grace", str(GRACE), "--contain", contain, *DOORS[door]]
        command = ["sh", "-c", PAYLOAD, str(self.place), "0" if door == "exit" else NAP]
        return subprocess.Popen(
            [sys.executable, DRIVER, self.role, str(position), "KILL", self.victims, "run", *options, "--", *command],
            env={**os.environ, "SWEEP_LOG": str(self.place / "log")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **inside(self.home),
        )

    def open_door(self, lane: subprocess.Popen[bytes], door: str) -> None:
        if door in ("TERM", "evicted"):
            until(lambda: lane.poll() is not None or (self.place / "up").exists(), 60)
        if door == "TERM":
            lane.terminate()
        if door == "evicted":
            for ticket in self.state.tickets():
                (self.state.queue / ticket).unlink(missing_ok=True)

    def await_release(self, where: str) -> None:
        """Whoever is left of the hold frees the token, unasked, and no member lives at that moment."""
        deadline = time.monotonic() + 60
        watch = Watch()
        watch.add(str(self.state.token), GOES)
        while self.state.token.exists():
            assert time.monotonic() < deadline, f"{where}: nobody frees the token"
            ready(watch.fds(), 1)
        assert not self.anybody(), f"{where}: the token went before the last member"
        watch.close()

    def anybody(self) -> bool:
        """Whether any member lives: there is an end of the file only when nobody has it open for writing."""
        try:
            return bool(os.read(self.members, 1))
        except BlockingIOError:
            return True

    def follow(self) -> subprocess.CompletedProcess[bytes]:
        """The next in line, whose command fails if a member of the payload before it lives."""
        command = ["dd", f"if={self.place}/members", "iflag=nonblock", "count=1", "status=none"]
        line = [*HOLDTOP, "run", "--state-dir", str(self.state.state), "--grace", str(GRACE), "--", *command]
        return subprocess.run(line, capture_output=True, timeout=60, check=False, **inside(self.home))

    def logged(self, what: str) -> list[str]:
        """The last entry of that name in the driver's log, without it; empty when there is none."""
        log = self.place / "log"
        entries = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
        return next((entry[1:] for entry in reversed(entries) if entry[0] == what), [])


def bystander() -> subprocess.Popen[bytes]:
    """A near-by pid in the starter's group and session, with a member's own command line."""
    return subprocess.Popen(["sleep", NAP])


@pytest.fixture
def sweep(request: pytest.FixtureRequest, state: Box, home: Cgroup, tmp_path: Path) -> Sweep:
    role, victims = request.param
    return Sweep(state, home, tmp_path, role, victims)


@pytest.mark.parametrize("sweep", SWEEPS, indirect=True, ids=" kills ".join)
def test_a_kill_at_any_moment_leaves_nothing(sweep: Sweep) -> None:
    sweep.run(SAMPLE)


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("sweep", SWEEPS, indirect=True, ids=" kills ".join)
def test_a_kill_at_every_moment_leaves_nothing(sweep: Sweep) -> None:
    positions = SWEEPS[sweep.role, sweep.victims]
    sweep.run(positions)
    waits = sorted(sweep.seconds)
    lines = {door: sweep.whole(door) for door in DOORS}
    print(f"{sweep.role} kills {sweep.victims}: {positions} kills in lives of so many lines: {lines}")
    if waits:
        print(f"token free after {waits[len(waits) // 2]:.2f} s (median), {waits[-1]:.2f} s (longest); grace {GRACE} s")
