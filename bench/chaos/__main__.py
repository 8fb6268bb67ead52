"""Chaos: lanes with bad payloads on a bad day, and a judge who believes the kernel only.

``python -m bench.chaos [--episodes N] [--seed S] [--arenas K]`` plays the episodes S, S+1, … and writes
``bench/results/chaos.json`` and ``chaos.md``. ``--episodes 1 --seed S`` plays one again. Exits 1 when anything was
counted. Needs a C compiler.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from bench import made
from bench.chaos import lanes
from bench.chaos.arena import Arena
from bench.chaos.checker import COUNTS, Verdict
from bench.chaos.page import page
from bench.chaos.plan import episode

PROGRESS_EVERY = 100
#: Where the programs lie, and the arenas.
TOP = "CHAOS_TOP"

_arena: Arena


def _enter(top: str) -> None:
    """In each arena's process: a session, a clock and a directory of its own."""
    global _arena
    os.setsid()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_DFL)
    lanes.own_clock()
    directory = Path(top) / str(os.getpid())
    directory.mkdir()
    _arena = Arena(directory, Path(top) / "payload")


def _play(seed: int) -> Verdict:
    return _arena.play(episode(seed))


def play(top: str, seeds: range, arenas: int) -> Iterator[tuple[int, Verdict]]:
    """Seed and verdict of each episode, as they are over."""
    lanes.load()
    with ProcessPoolExecutor(arenas, multiprocessing.get_context("fork"), _enter, (top,)) as pool:
        plays: dict[Future[Verdict], int] = {pool.submit(_play, seed): seed for seed in seeds}
        try:
            for one in as_completed(plays):
                yield plays[one], one.result()
        finally:
            pool.shutdown(cancel_futures=True)


def measure(top: str, seeds: range, arenas: int) -> dict[str, Any]:
    began, load = time.monotonic(), os.getloadavg()[0]
    counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    faults = []
    happened: Counter[str] = Counter()
    for done, (seed, verdict) in enumerate(play(top, seeds, arenas), 1):
        found = verdict.found
        counts.update(count for count, _ in found)
        happened += verdict.happened
        if found:
            faults.append({"seed": seed, "found": found, "transcript": verdict.transcript})
            print(
                f"seed {seed}: " + "; ".join(f"{count}: {text}" for count, text in found), file=sys.stderr, flush=True
            )
        if done % PROGRESS_EVERY == 0 or done == len(seeds):
            told = " / ".join(str(counts[count]) for count in COUNTS)
            print(f"{done}/{len(seeds)}  {time.monotonic() - began:.0f} s  {told}", flush=True)
    plans = [episode(seed) for seed in seeds]
    return {
        **made.head("make chaos", load),
        "seed": seeds.start,
        "episodes": len(seeds),
        "arenas": arenas,
        "seconds": round(time.monotonic() - began),
        "lanes": sum(len(plan.lanes) + 1 for plan in plans),
        "acts": Counter(act.verb for plan in plans for act in plan.acts),
        "happened": happened,
        "counts": counts,
        "faults": faults,
    }


def _with_clock() -> int:
    """This command again, below a wall clock that can be moved."""
    with tempfile.TemporaryDirectory(prefix="holdtop-chaos-") as top:
        lanes.build(Path(top))
        environment = {**os.environ, TOP: top, "LD_PRELOAD": f"{top}/clock.so", "CHAOS_PYTHON": sys.executable}
        with subprocess.Popen([sys.executable, "-m", "bench.chaos", *sys.argv[1:]], env=environment) as again:
            for signum in (signal.SIGINT, signal.SIGTERM):
                signal.signal(signum, lambda signum, _frame: again.send_signal(signum))
            return again.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos")
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1, help="the first episode's; each next one has the next number")
    parser.add_argument("--arenas", type=int, default=8, help="episodes at a time")
    parser.add_argument("--results", type=Path, default=made.RESULTS, help="where the page and the figures are written")
    args = parser.parse_args()
    top = os.environ.get(TOP)
    if top is None:
        return _with_clock()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.default_int_handler)  # what is being played is played to its end, and cleaned up
    result = measure(top, range(args.seed, args.seed + args.episodes), args.arenas)
    made.keep("chaos", result, page(result), args.results)
    return 1 if result["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
