"""Lives of holds with a fault at a chosen call, and what every one of them owes: see ``faults_driver.py``."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hold.lanes import Box

DRIVER = str(Path(__file__).with_name("faults_driver.py"))
#: What the command ends with: nothing of the hold's own is like it.
STATUS = 7
COMMAND = ["sh", "-c", f'echo began >> "$0"; echo ended >> "$0"; exit {STATUS}']


@dataclass
class Life:
    status: int
    calls: dict[str, int]
    hit: str
    left: list[int]
    said: str
    ran: str


@dataclass
class Faults:
    """A driver and the state that its holds use, one after the other: each has to cope with what the last one left."""

    state: Box
    place: Path
    driver: subprocess.Popen[str]
    #: Options of ``run``.
    options: tuple[str, ...] = ("--contain", "subreaper", "--grace", "1")
    met: list[str] = field(default_factory=list)

    def live(self, **fault: Any) -> Life:
        """One life with that fault (``role``, ``at``, ``errno``, ``lasting``, ``limits``)."""
        assert self.driver.stdin
        assert self.driver.stdout
        marker, stderr = self.place / "ran", self.place / "stderr"
        marker.unlink(missing_ok=True)
        argv = ["run", "--state-dir", str(self.state.state), *self.options, "--", *COMMAND, str(marker)]
        told = {"argv": argv, "state": str(self.state.state), "stderr": str(stderr), **fault}
        print(json.dumps(told), file=self.driver.stdin, flush=True)
        answer = json.loads(self.driver.stdout.readline())
        return Life(**answer, said=stderr.read_text(), ran=marker.read_text() if marker.exists() else "")

    def try_one(self, number: int, **fault: Any) -> Life:
        """One life with a fault of this errno; all that is owed is asserted."""
        life = self.live(errno=errno.errorcode[number], **fault)
        if life.hit:
            self.met.append(life.hit)
            self.judge(life, number, f"{errno.errorcode[number]} {fault} {life.hit}\n{life.said}")
        return life

    def judge(self, life: Life, number: int, where: str) -> None:
        assert life.left == [], f"processes are left: {where}"
        assert "Traceback" not in life.said, where
        assert "internal error" not in life.said, where
        if life.status == STATUS:
            assert life.ran == "began\nended\n", where
        else:
            assert (life.status, life.ran) == (125, ""), where
            assert os.strerror(number) in life.said, f"the cause is not named: {where}"
            assert "the command was not run" in life.said or "ending the payload" in life.said, where
            lines = [line for line in life.said.splitlines() if os.strerror(number) in line]
            of_the_disk = number not in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
            assert not of_the_disk or any(str(self.state.state) in line for line in lines), f"no path: {where}"
        left = self.state.leftovers()
        if "token" in left:
            assert "could not be released" in life.said or "left for 'holdtop recover'" in life.said, where
        if left:
            self.next_in_line(where)

    def next_in_line(self, where: str) -> None:
        """Once the fault is gone, the next hold gets its turn and clears what this one could not."""
        life = self.live()
        assert life.status == STATUS, f"the next in line: {life.said}\nafter {where}"
        assert self.state.leftovers() == [], where


@contextlib.contextmanager
def faults(state: Box, place: Path) -> Iterator[Faults]:
    with subprocess.Popen(
        [sys.executable, DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
    ) as driver:
        try:
            yield Faults(state, place, driver)
            assert driver.stdin
            driver.stdin.close()
            assert driver.wait(30) == 0
        finally:
            driver.kill()
