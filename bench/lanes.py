"""What the benches of the hold share: a state directory, processes in it, medians, and the C programs they start."""

from __future__ import annotations

import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.hold.lanes import until

#: A job of the hold, as the user types it.
HOLDTOP = (str(Path(sys.executable).with_name("holdtop")), "run")


@dataclass
class Arena:
    """A directory of its own, and every process that was started in it: gone when the block ends."""

    home: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, words: Sequence[str], *, quiet: bool = True) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            words,
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if quiet else None,
        )
        self.started.append(process)
        return process

    def tickets(self) -> int:
        with contextlib.suppress(FileNotFoundError):
            return sum(not name.startswith(".") for name in os.listdir(self.home / "GPU-QUEUE"))
        return 0

    def until(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        until(lambda: condition() or None, seconds)


@contextlib.contextmanager
def arena() -> Iterator[Arena]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        here = Arena(Path(directory))
        try:
            yield here
        finally:
            for process in reversed(here.started):  # the last in the queue first: nobody's turn comes meanwhile
                process.send_signal(signal.SIGTERM)
            for process in here.started:
                process.wait()


def compiled(name: str, directory: Path) -> str:
    """The bench's C program of that name. Raises ``FileNotFoundError`` where there is no compiler."""
    program = directory / name
    subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name(f"{name}.c")], check=True)
    return str(program)


def summary(samples: Sequence[float]) -> dict[str, float]:
    """Median, 95th percentile and extremes."""
    ordered = sorted(samples)
    return {
        "median": round(statistics.median(ordered), 3),
        "p95": round(ordered[int(0.95 * (len(ordered) - 1))], 3),
        "fastest": round(ordered[0], 3),
        "slowest": round(ordered[-1], 3),
    }
