"""What grows with the box: ``bench/results/scale.json``, ``scale.md`` and the curves in ``docs/pictures/scale.svg``.

``python -m bench.scale [BEFORE.json]``: with the result of an earlier run, its curves are drawn dashed beside these.
Tickets are planted (``planted.py``), processes are ``sleepers.c``, users of a GPU are shown in an overlay, and the
10 GB event log is sparse. Every size is measured in turn, and again, so that a busy moment touches all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from bench import made
from bench.console import FULL, seconds_until, watched
from bench.handover import gaps
from bench.lanes import HOLDTOP, arena, compiled
from bench.planted import planted
from bench.plot import drawn
from bench.scan import milliseconds, sleepers
from tests.console.terminals import terminal
from tests.reading.machines import fdinfo, shown

from holdtop.hold.events import EVENTS, LOG, TAIL
from holdtop.sampler import Sampler
from holdtop.sources import processes, users
from holdtop.sources.roots import Roots

TICKETS = (10, 100, 1000, 10_000)
PROCESSES = (10, 100, 1000, 5000)
GPU_USERS = 200
ROUNDS, JOBS, JOB_MS = 3, 6, 50
#: Seconds for which sampler and console are watched, and until the sampler's first looks are over.
WATCHED, SETTLE = 6.0, 3.0
HUGE = 10 * 1024**3
#: What each curve shows.
NAMES = {
    "status": "`holdtop status`",
    "json": "`holdtop status --json`",
    "watch": "`holdtop watch --once`",
    "take": "hand-over, payload to payload, so many behind",
    "join": "`holdtop run -w 0`, so many ahead",
    "tick": "the sampler's CPU for a look at the queue",
    "console": "the console's CPU a second",
}

HEAD = """\
# Scale

{made}.
Medians of {rounds} rounds in which all sizes take turns. What bounds each figure: [docs/scale.md](../../docs/scale.md).
"""


@contextmanager
def crowd(count: int) -> Iterator[Path]:
    """A state directory in which so many wait."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        queue = Path(directory) / "gpu-queue"
        queue.mkdir(mode=0o2770)
        with planted(queue, count):
            yield Path(directory)


def command(*words: str, **environ: str) -> Callable[[], object]:
    whole, given = [HOLDTOP[0], *words], {**os.environ, **environ}
    return lambda: subprocess.run(whole, env=given, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tick(state: Path) -> float:
    """Milliseconds on a processor for each look at the queue, once the first is over."""
    looks: list[object] = []
    sampler = Sampler(resources=("gpu",), state_dir=str(state), sensors=False, on_snapshot=looks.append)
    sampler.start()
    time.sleep(SETTLE)
    seen, used = len(looks), time.process_time()
    time.sleep(WATCHED)
    used = time.process_time() - used
    sampler.stop()
    return 1000 * used / max(1, len(looks) - seen)


def console(state: Path) -> float:
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        (Path(home) / "state").symlink_to(state)
        return 10 * watched("holdtop", Path(home), WATCHED)["percent"]


def take(count: int) -> float:
    """Milliseconds from one payload's last instruction to the next one's first, while so many wait behind."""
    with arena() as here, tempfile.TemporaryDirectory() as built:
        stamp, gate = compiled("stamp", Path(built)), here.home / "gate"
        os.mkfifo(gate)
        here.start([*HOLDTOP, "--", "sh", "-c", f"read _ < {gate}"])
        here.until(lambda: here.tickets() == 1)
        for number in range(JOBS):
            here.start([*HOLDTOP, "--", stamp, str(here.home / "log"), str(number), str(JOB_MS)])
            here.until(lambda so_far=number + 2: here.tickets() == so_far)  # type: ignore[misc]
        with planted(here.home / "GPU-QUEUE", count, first=100):
            gate.write_text("go\n")
            for process in here.started:
                process.wait()
        return median(gap for _, gap in gaps(here.home / "log") if gap >= 0)


def by_tickets() -> dict[str, dict[int, float]]:
    samples: dict[str, dict[int, list[float]]] = {name: {size: [] for size in TICKETS} for name in (*NAMES, "floor")}
    for turn in range(ROUNDS):
        for size in TICKETS:
            with crowd(size) as state:
                where = ("--state-dir", str(state))
                acts: dict[str, Callable[[], object]] = {
                    "`holdtop status`": command("status", *where),
                    "json": command("status", "--json", *where),
                    "watch": command("watch", "--once", *where),
                    "join": command("run", "-w", "0", *where, "--", "true"),
                    "floor": lambda state=state: subprocess.run(  # type: ignore[misc]
                        ["find", state, "-name", "0*", "-exec", "cat", "{}", "+"], stdout=subprocess.DEVNULL
                    ),
                }
                for name, act in acts.items():
                    samples[name][size].append(milliseconds(act))
                if turn == 0:
                    samples["tick"][size].append(tick(state))
                    samples["console"][size].append(console(state))
            samples["take"][size].append(take(size))
    return {name: {size: round(median(found), 2) for size, found in some.items()} for name, some in samples.items()}


def by_processes() -> dict[str, dict[int, float]]:
    """Milliseconds for the process table, the scan of all descriptors, and all of it; with users of a GPU."""
    found: dict[str, dict[int, float]] = {"table": {}, "scan": {}, "status": {}}
    for size in PROCESSES:
        with sleepers(size, 6) as pids, tempfile.TemporaryDirectory(prefix="bench-") as directory:
            for client, pid in enumerate(pids[:: max(1, size // GPU_USERS)][:GPU_USERS]):
                info = fdinfo(client, resident_gtt="1048576 KiB", resident_vram="0", shared_gtt="0")
                shown(Path(directory), str(pid), {1: info})
            roots = Roots(overlay=directory)
            acts: dict[str, Callable[[], object]] = {
                "table": lambda: processes.scan("/proc"),
                "scan": lambda roots=roots: users.scan(roots),  # type: ignore[misc]
                "status": command("status", "--json", "--state-dir", directory, HOLDTOP_PROC_OVERLAY=directory),
            }
            for name, act in acts.items():
                found[name][size] = round(median(milliseconds(act) for _ in range(ROUNDS)), 2)
    return found


def with_huge_log() -> dict[str, dict[str, float]]:
    """Milliseconds with an event log of 10 GB, sparse but for the end that is shown, and with that end alone."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        where = ("--state-dir", directory)
        acts: dict[str, Callable[[], object]] = {
            "`holdtop status`": command("status", *where),
            "`holdtop watch --once`": command("watch", "--once", *where),
            "`holdtop run -- true`": command("run", *where, "--", "true"),
            "`holdtop history`": command("history", *where),
            "the console's first figures": lambda: first_figures(directory),
        }
        acts["`holdtop run -- true`"]()
        log = Path(directory) / "gpu-queue" / LOG / EVENTS
        end = log.read_bytes()
        end *= TAIL // len(end) + 1
        found: dict[str, dict[str, list[float]]] = {name: {"end": [], "huge": []} for name in acts}
        for _ in range(ROUNDS):
            for size in ("end", "huge"):
                with log.open("wb") as file:
                    file.seek(HUGE if size == "huge" else 0)
                    file.write(b"\n" + end)
                for name, act in acts.items():
                    found[name][size].append(milliseconds(act))
    return {name: {size: round(median(some), 1) for size, some in sizes.items()} for name, sizes in found.items()}


def first_figures(state: str) -> None:
    with terminal("-m", "holdtop", "--state-dir", state) as opened:
        seconds_until(opened, FULL, time.monotonic())


def page(result: Mapping[str, Any]) -> Iterator[str]:
    yield HEAD.format(made=made.line(result), rounds=ROUNDS)
    yield _head("by waiting tickets", TICKETS)
    for name, said in {**NAMES, "floor": "reading the tickets in C: `find … -exec cat`"}.items():
        yield _row(said, result["tickets"][name])
        if name in result.get("before", {}):
            yield _row("… before", result["before"][name])
    yield _head(f"by processes ({GPU_USERS} users of a GPU)", PROCESSES)
    yield _row("the process table", result["processes"]["table"])
    yield _row("the scan for device users", result["processes"]["scan"])
    yield _row("`holdtop status --json`", result["processes"]["status"])
    yield "\n| milliseconds, beside an event log | of 256 KiB | of 10 GB | ratio |\n|---|---|---|---|\n"
    yield from (_row(name, sizes) for name, sizes in result["log_ms"].items())


def _head(what: str, sizes: Sequence[int]) -> str:
    numbers = " | ".join(f"{size:,}" for size in sizes)
    return f"\n| milliseconds, {what} | {numbers} | most to least |\n|---|{'---|' * (len(sizes) + 1)}\n"


def _row(name: str, values: Mapping[Any, float]) -> str:
    numbers = list(values.values())
    return f"| {name} | {' | '.join(f'{value:g}' for value in numbers)} | {numbers[-1] / numbers[0]:.2f} × |\n"


def picture(result: Mapping[str, Any]) -> str:
    def curves(some: Mapping[str, Mapping[Any, float]]) -> dict[str, list[tuple[float, float]]]:
        return {
            said.replace("`", ""): [(float(size), value) for size, value in some[name].items()]
            for name, said in NAMES.items()
            if name in some
        }

    before = curves(result.get("before", {}))
    title = "milliseconds" + (" (dashed: before)" if before else "")
    return drawn(title, "waiting tickets", curves(result["tickets"]), before)


def main(words: Sequence[str]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    result = {"tickets": by_tickets(), "processes": by_processes(), "log_ms": with_huge_log()}
    before = {"before": json.loads(Path(words[0]).read_text())["tickets"]} if words else {}
    return {**made.head("make scale", load), **result, **before}


if __name__ == "__main__":
    found = main(sys.argv[1:])
    (made.ROOT / "docs/pictures/scale.svg").write_text(picture(found))
    made.keep("scale", found, "".join(page(found)))
