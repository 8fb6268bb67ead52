"""How long each command takes to start, as a ratio to a bare Python in the same run.

Rounds are interleaved (every command once per round, in a shuffled order) and medians are compared, so that
a busy moment touches all of them alike. ``python -m bench.startup [ROUNDS]`` prints a table. Times are wall clock
from fork to reaped, in milliseconds.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

BARE = "python3 -c pass"
COMMANDS = {
    BARE: ["-c", "pass"],
    "holdtop --version": ["-m", "holdtop", "--version"],
    "holdtop --help": ["-m", "holdtop", "--help"],
    "holdtop run --help": ["-m", "holdtop", "run", "--help"],
    "holdtop status": ["-m", "holdtop", "status"],
    "holdtop status --json": ["-m", "holdtop", "status", "--json"],
    "holdtop run -- true": ["-m", "holdtop", "run", "--", "true"],
}
#: Statuses that are answers: ``status`` says 1, 3 and 4 about what it saw.
ANSWERS = {0, 1, 3, 4}


def once(words: list[str], home: str) -> float:
    """Milliseconds that one start takes. Raises ``RuntimeError`` when the command fails."""
    environ = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
    begun = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words],
        env=environ,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    took = (time.perf_counter() - begun) * 1000
    if done.returncode not in ANSWERS or b"Traceback" in done.stderr:
        raise RuntimeError(f"{words}: status {done.returncode}: {done.stderr.decode(errors='replace')}")
    return took


def measure(rounds: int, seed: int) -> dict[str, list[float]]:
    order, shuffle = list(COMMANDS), random.Random(seed).shuffle
    times: dict[str, list[float]] = {name: [] for name in order}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(rounds):
            shuffle(order)
            for name in order:
                times[name].append(once(COMMANDS[name], home))
    return times


def main(words: Sequence[str]) -> dict[str, Any]:
    rounds, seed = int(words[0]) if words else 25, 1
    times = measure(rounds, seed)
    bare = statistics.median(times[BARE])
    return {
        "rounds": rounds,
        "seed": seed,
        "commands": {
            name: {
                "median_ms": round(statistics.median(samples), 1),
                "fastest_ms": round(min(samples), 1),
                "ratio_to_bare_python": round(statistics.median(samples) / bare, 2),
            }
            for name, samples in times.items()
        },
    }


if __name__ == "__main__":
    for name, line in main(sys.argv[1:])["commands"].items():
        print(f"{name:<24}{line['median_ms']:>8} ms {line['ratio_to_bare_python']:>7} ×")
