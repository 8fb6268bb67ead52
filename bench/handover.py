"""From one job's last instruction to the next job's first: under holdtop, and under flock(1) in the same run.

``python -m bench.handover [WAITERS ...]`` prints a table. A gate job keeps the slot until every waiter is queued. With
``dying`` a fifth of the waiters, picked at random, is killed while the queue moves. A job that ran before one that had
queued before it is an overtake; flock promises no order, so its overtakes are not ours to judge.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.lanes import HOLDTOP, Arena, arena, compiled, summary

#: How long each job runs, in milliseconds.
JOB_MS = 50
#: Rounds with few waiters: holdtop and flock by turns.
ROUNDS = 3
Gap = tuple[int, int]


def queue_up(here: Arena, tool: str, stamp: str, jobs: int) -> None:
    """Start the gate and then the jobs, each once the one before it is queued."""
    gate = [str(here.home / "gate"), "1"]
    os.mkfifo(gate[0])
    wait_for_gate = ["sh", "-c", f"read _ < {gate[0]}"]
    prefix = [*HOLDTOP, "--"] if tool == "holdtop" else ["flock", str(here.home / "lock")]
    here.start([*prefix, *wait_for_gate])
    here.until(lambda: here.tickets() == 1 if tool == "holdtop" else _blocked_on(here.home / "lock", 0))
    for number in range(jobs):
        here.start([*prefix, stamp, str(here.home / "log"), str(number), str(JOB_MS)])
        if tool == "flock":
            here.until(lambda so_far=number + 1: _blocked_on(here.home / "lock", so_far))  # type: ignore[misc]
        else:
            here.until(lambda so_far=number + 2: here.tickets() == so_far)  # type: ignore[misc]


def _blocked_on(lock: Path, waiters: int) -> bool:
    """Whether the lock is held and that many wait for it, as proc_locks(5) shows them."""
    if not lock.exists():
        return False
    inode = f":{lock.stat().st_ino} "
    lines = [line for line in Path("/proc/locks").read_text().splitlines() if inode in line]
    return len(lines) == waiters + 1


def drain(here: Arena, jobs: int, dying: int, seed: int) -> int:
    """Open the gate, kill some of those that still wait, and see the rest through. How many were killed."""
    (here.home / "gate").write_text("go\n")
    waiting, pick = here.started[1:], random.Random(seed)
    victims = pick.sample(waiting[jobs // 10 :], dying)
    for victim in victims:
        victim.kill()
        time.sleep(JOB_MS / 1000)
    for process in here.started:
        process.wait()
    return len(victims)


def gaps(log: Path) -> Iterator[tuple[int, float]]:
    """Number of each job in the order of their starts, and how long after its predecessor's end, in milliseconds."""
    said = sorted((int(at), what, int(number)) for what, number, at in map(str.split, log.read_text().splitlines()))
    ended = None
    for at, what, number in said:
        if what == "S":
            yield number, -1 if ended is None else (at - ended) / 1e6
        ended = at if what == "E" else None


def play(tool: str, jobs: int, dying: int = 0, seed: int = 1) -> tuple[list[float], int]:
    """Gaps in milliseconds, and how many pairs of jobs ran out of order. Raises ``RuntimeError`` for two at once."""
    with arena() as here, tempfile.TemporaryDirectory() as built:
        queue_up(here, tool, compiled("stamp", Path(built)), jobs)
        drain(here, jobs, dying, seed)
        found = list(gaps(here.home / "log"))
    if len(found) < jobs - dying:
        raise RuntimeError(f"{tool}: {len(found)} of {jobs} jobs ran, {dying} were killed")
    order = [number for number, _ in found]
    # Whoever dies with the slot in hand leaves a gap that is no hand-over: its job has no end in the log.
    return [gap for _, gap in found if gap >= 0], sum(one > other for one, other in combinations(order, 2))


def measure(jobs: int, dying: int, rounds: int) -> dict[str, Any]:
    samples: dict[str, list[float]] = {"holdtop": [], "flock": []}
    overtakes = dict.fromkeys(samples, 0)
    for seed in range(rounds):
        for tool in samples:
            found, out_of_order = play(tool, jobs, dying, seed)
            samples[tool] += found
            overtakes[tool] += out_of_order
    figures = {tool: summary(found) for tool, found in samples.items()}
    return {
        "waiters": jobs,
        "dying": dying,
        "ms": figures,
        "overtakes": overtakes,
        "ratio": round(figures["holdtop"]["median"] / figures["flock"]["median"], 2),
    }


def main(words: Sequence[str]) -> list[dict[str, Any]]:
    many = int(words[0]) if words else 200
    found = [measure(20, 0, ROUNDS), measure(many, 0, 1), measure(many, many // 5, 1)]
    for one in found:
        print(one)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
