"""Real lanes for the tests: ``holdtop run`` as processes, and what the kernel and the disk say about them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from holdtop.payload.process import Identity, read_stat

HOLDTOP = (sys.executable, "-m", "holdtop")
#: An unusual number of seconds by which this test process's own sleeps are told from anybody else's.
NAP = str(1_000_000 + os.getpid())


def finished(directory: Path) -> list[Path]:
    """The files of a directory; one whose name has a dot in front is still being written."""
    return sorted(directory.glob("[!.]*"))


@dataclass
class Box:
    """One state directory and everything in it."""

    state: Path

    @property
    def queue(self) -> Path:
        return self.state / "gpu-queue"

    @property
    def token(self) -> Path:
        return self.state / "gpu-token"

    def run(self, *words: str, options: Sequence[str] = (), **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start ``holdtop run`` on a command; its stderr is a pipe unless said otherwise."""
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        command = [*HOLDTOP, "run", "--state-dir", str(self.state), *options, "--", *words]
        return subprocess.Popen(command, **kwargs)

    def verb(self, *words: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        verb, *rest = words
        command = [*HOLDTOP, verb, "--state-dir", str(self.state), *rest]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            check=False,
            **kwargs,
        )

    def tickets(self) -> list[str]:
        if not self.queue.exists():
            return []
        return sorted(name for name in os.listdir(self.queue) if not name.startswith("."))

    def leftovers(self) -> list[str]:
        """Everything in the state that a quiet box does not have."""
        odd = [str(p.relative_to(self.state)) for p in self.state.rglob(".new-*")]
        records = self.queue / ".record"
        odd += [f"record {p.name}" for p in records.iterdir()] if records.exists() else []
        return [*self.tickets(), *(["token"] if self.token.exists() else []), *odd]

    def events(self, ticket: str | None = None) -> list[dict[str, Any]]:
        path = self.queue / ".log" / "events.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines if line]
        return [event for event in found if ticket is None or event["ticket"] == ticket]

    def receipts(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.queue / ".receipts.jsonl").read_text().splitlines()]

    def documents(self, directory: str) -> list[dict[str, Any]]:
        """What stands in one of the queue's own directories now."""
        found = []
        for path in finished(self.queue / directory):
            with contextlib.suppress(FileNotFoundError):  # withdrawn meanwhile
                found.append(json.loads(path.read_text()))
        return found

    def until_running(self, seconds: float = 10) -> dict[str, Any]:
        """The ``started`` event of the hold that has the token now."""

        def started() -> dict[str, Any] | None:
            if not self.token.exists():
                return None
            lines = self.token.read_text(errors="replace").splitlines()
            ticket = next((line[3:] for line in lines if line.startswith("id=")), None)
            return next((e for e in self.events(ticket) if e["event"] == "started"), None)

        return until(started, seconds)


T = TypeVar("T")


def until(condition: Callable[[], T | None], seconds: float = 10) -> T:
    """The condition's first true value. Fails loudly when it never comes."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"never true within {seconds} s: {condition}"
        time.sleep(0.01)
    return value


def sleepers(number: str = NAP, words: int | None = None) -> list[int]:
    """Pids of processes with exactly this number as an argument, and so many words in all."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")[:-1]
                if number.encode() in line and words in (None, len(line)):
                    found.append(int(entry))
    return found


def identity(pid: int) -> Identity:
    stat = read_stat(pid)
    assert stat, f"{pid} is gone"
    return stat.identity


def stop_both(supervisor: int, keeper: int) -> None:
    """Each continues the other when it finds it stopped: only once both are stopped, both stay so."""

    def both() -> bool:
        for pid in (supervisor, keeper):
            os.kill(pid, signal.SIGSTOP)
        return all(
            (stat := read_stat(pid)) is not None and stat.state == "T" for pid in (supervisor, keeper, supervisor)
        )

    until(both)


def kill_both(supervisor: subprocess.Popen[Any], keeper: int) -> None:
    """Both are stopped first, so that neither sees the other die."""
    stop_both(supervisor.pid, keeper)
    supervisor.kill()
    os.kill(keeper, signal.SIGKILL)
    supervisor.wait(10)


def ended(process: subprocess.Popen[bytes], seconds: float = 20) -> tuple[int, str]:
    """Exit status and stderr of a lane."""
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        raise
    return process.returncode, (errors or b"").decode(errors="replace")
