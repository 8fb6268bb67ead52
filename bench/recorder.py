"""What the flight recorder costs on a busy demo box: ``bench/results/recorder.json``, ``recorder.md``.

``python -m bench.recorder [SECONDS]`` watches the demo for so many seconds, records each look and by turns does what no
recorder can do without (the floor): the same look as JSON by the standard library, packed once and written. Then a
day is recorded of the looks that were seen, again and again, each with its own time.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard
from bench import made
from bench.lanes import summary

from holdtop.demo.sandbox import sandbox
from holdtop.model.schema import to_mapping
from holdtop.model.values import Snapshot
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.sampler import Sampler

DAY = 86_400
PAGE = """\
# The flight recorder

{made}: a demo box of {processes} shown processes, {seconds} looks, a look a second.
More: [bench/README.md](../README.md#the-recorder).

| what | measured | bound |
|---|---|---|
| CPU for a look, median of {seconds} | **{take[median]:.2f} ms**, {share:.2f} % of a core | 10 ms, 1 % |
| the floor: JSON, packed, written | {floor[median]:.2f} ms; the recorder takes {ratio:.1f} × | |
| CPU for a look, mean over a day | **{day_ms:.2f} ms**, {day_share:.2f} % of a core | 1 % |
| a day of it on the disk | **{day_mib:.1f} MiB**, {day_records} looks, {record_bytes} bytes each | 50 MB |
| to open that day, and to show one look of it | {open_ms:.0f} ms, {show_ms:.1f} ms | |
"""


def looks(state_dir: str, seconds: int, each: Callable[[Snapshot], None]) -> list[Snapshot]:
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=state_dir, on_snapshot=seen.append)
    sampler.start()
    done = 0
    while done < seconds:
        time.sleep(0.05)
        for snapshot in seen[done:seconds]:
            each(snapshot)
            done += 1
    sampler.stop()
    return seen[:seconds]


def demo_looks(seconds: int) -> list[Snapshot]:
    """A look a second at a busy demo box."""
    with sandbox() as box:
        os.environ.update(box.told["environ"])
        return looks(box.told["state_dir"], seconds, lambda _: None)


def cost(work: Callable[[], object]) -> float:
    """Milliseconds of this thread's CPU."""
    began = time.thread_time()
    work()
    return 1000 * (time.thread_time() - began)


def floor(snapshot: Snapshot, fd: int) -> float:
    plain = to_mapping(snapshot)
    pack = zstandard.ZstdCompressor(level=3)
    return cost(lambda: os.write(fd, pack.compress(json.dumps(plain).encode())))


def live(home: Path, seconds: int) -> tuple[list[Snapshot], dict[str, Any]]:
    times: dict[str, list[float]] = {"take": [], "floor": []}
    recorder = Recorder(str(home / "live"), print)
    fd = os.open(home / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with sandbox() as box:
        os.environ.update(box.told["environ"])

        def each(snapshot: Snapshot) -> None:
            times["floor"].append(floor(snapshot, fd))
            times["take"].append(cost(lambda: recorder.take(snapshot)))

        seen = looks(box.told["state_dir"], seconds, each)
    os.close(fd)
    recorder.close()
    return seen, {name: summary(samples) for name, samples in times.items()}


def day(home: Path, seen: Sequence[Snapshot]) -> dict[str, Any]:
    recorder, begin = Recorder(str(home / "day"), print), datetime.now().astimezone()
    spent = 0.0
    for second in range(DAY):
        taken = (begin + timedelta(seconds=second)).isoformat(timespec="seconds")
        snapshot = replace(seen[second % len(seen)], taken_at=taken, at=float(second))
        spent += cost(lambda now=snapshot: recorder.take(now))  # type: ignore[misc]
    recorder.close()
    size = sum(file.stat().st_size for file in (home / "day").iterdir())
    began = time.perf_counter()
    recording = Recording(str(home / "day"))
    opened = time.perf_counter()
    recording.snapshot(len(recording.instants) // 2)
    return {
        "day_ms": spent / DAY,
        "day_share": spent / DAY / 10,
        "day_mib": size / 2**20,
        "day_records": len(recording.instants),
        "record_bytes": size // len(recording.instants),
        "open_ms": 1000 * (opened - began),
        "show_ms": 1000 * (time.perf_counter() - opened),
    }


def main(words: Sequence[str]) -> dict[str, Any]:
    seconds = int(words[0]) if words else 120
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        seen, times = live(Path(directory), seconds)
        figures = day(Path(directory), seen)
    holders = [one.holder.payload for one in seen[-1].resources if one.holder and one.holder.payload]
    return {
        **made.head("make recorder", before),
        "processes": sum(len(payload.processes) for payload in holders) + len(seen[-1].leftovers),
        "seconds": seconds,
        **times,
        "share": times["take"]["median"] / 10,
        "ratio": times["take"]["median"] / times["floor"]["median"],
        **figures,
    }


if __name__ == "__main__":
    found = main(sys.argv[1:])
    made.keep("recorder", found, PAGE.format(made=made.line(found), **found))
