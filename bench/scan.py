"""What a look at all processes' descriptors costs: ``bench/results/scan.json``, ``scan.md``.

``python -m bench.scan [PROCESSES [DESCRIPTORS]]`` starts so many sleepers (``sleepers.c``) with so many descriptors
each, makes twenty of them users of a GPU, and compares, by turns, the scan with programs that do in C what no scan of
descriptors can do without: list every ``/proc/PID/fd`` and read its links. Then the console's sampler runs at its
defaults, and what it uses of a processor is read.

The users' descriptors are directories that are bound over their ``/proc/PID/fd`` and ``fdinfo`` in a mount
namespace. Needs root, a C compiler and unshare(1).
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
from typing import Any

from bench import made
from bench.lanes import compiled, summary
from tests.reading.machines import fdinfo, laid, shown

from holdtop.sampler import Sampler
from holdtop.sources import processes, users
from holdtop.sources.roots import Roots

USERS = 20
ROUNDS = 15
#: The same question in C: a directory's names, and a readlink for each that is compared with a pattern.
FLOOR = "find /proc/[0-9]*/fd -lname '/dev/dri/*'"
#: What a person would type; it looks at each link twice and formats a line.
PLAIN = "ls -l /proc/[0-9]*/fd"
#: The console's cadence, in seconds; until its first looks are over; and how long it is watched.
REFRESH, DEVICES, SETTLE, WATCHED = 1.0, 5.0, 6.0, 30.0
PAGE = """\
# The scan for device users

{made}: {processes} processes with {descriptors} descriptors each beside the box's own, {users} of them
users of a GPU; {unreadable} could not be looked into. Medians of {rounds} rounds by turns.
More: [bench/README.md](../README.md#the-scan).

| what | time | ratio to the floor |
|---|---|---|
"""


@contextmanager
def sleepers(count: int, descriptors: int) -> Iterator[list[int]]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        words = [compiled("sleepers", Path(directory)), str(count), str(descriptors)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
            assert parent.stdout
            yield [int(line) for line in iter(parent.stdout.readline, "ready\n")]
            # it reads the end of its input here, ends its children and waits for them


def milliseconds(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - begun)


def shell(line: str) -> Callable[[], object]:
    return lambda: subprocess.run(["sh", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measured() -> dict[str, dict[str, float]]:
    acts = {
        "holdtop": lambda: users.scan(Roots()),
        FLOOR: shell(FLOOR),
        PLAIN: shell(PLAIN),
        "the process table": lambda: processes.scan("/proc"),
    }
    times: dict[str, list[float]] = {name: [] for name in acts}
    for _ in range(ROUNDS):
        for name, act in acts.items():
            times[name].append(milliseconds(act))
    return {name: summary(samples) for name, samples in times.items()}


def console_percent(state: Path, *, sensors: bool) -> float:
    """Of one processor: what the console's looking uses, at its defaults."""
    sampler = Sampler(
        resources=("gpu",), state_dir=str(state), refresh=REFRESH, device_refresh=DEVICES, sensors=sensors
    )
    sampler.start()
    time.sleep(SETTLE)
    begun, used = time.monotonic(), time.process_time()
    time.sleep(WATCHED)
    percent = 100 * (time.process_time() - used) / (time.monotonic() - begun)
    sampler.stop()
    return round(percent, 2)


def rows(result: Mapping[str, Any]) -> Iterator[str]:
    floor = result["ms"][FLOOR]["median"]
    for name, times in result["ms"].items():
        median = times["median"]
        said = {"holdtop": "the full scan", FLOOR: f"the floor: `{FLOOR}`", PLAIN: f"`{PLAIN}`"}.get(name, name)
        yield f"| {said} | {median:.1f} ms | {median / floor:.2f} × |\n"
    percent = result["percent_of_a_core"]
    yield f"""
Of one core, while the console looks (the scan every {DEVICES:.0f} s, all else every {REFRESH:.0f} s):
**{percent["all"]} %**, of which the scan has {percent["scan"]} %; {percent["no sensors"]} % without any sensor.
"""


def inside(state: Path) -> dict[str, Any]:
    """What is measured, where the users' descriptors are laid over their processes."""
    found = users.scan(Roots())
    times = measured()
    percent = {
        "all": console_percent(state, sensors=True),
        "no sensors": console_percent(state, sensors=False),
        "scan": round(times["holdtop"]["median"] / 1000 / DEVICES * 100, 2),
    }
    return {"users": len(found.users), "unreadable": len(found.denied), "ms": times, "percent_of_a_core": percent}


def main(words: Sequence[str]) -> dict[str, Any]:
    count, descriptors = (*map(int, words), *(1000, 20)[len(words) :])
    before = os.getloadavg()[0]
    with sleepers(count, descriptors) as pids, tempfile.TemporaryDirectory(prefix="bench-") as directory:
        for client, pid in enumerate(pids[:: max(1, count // USERS)][:USERS]):
            info = fdinfo(client, resident_gtt="1048576 KiB", resident_vram="0", shared_gtt="0")
            others = dict.fromkeys(range(3, descriptors - 2), "")
            shown(Path(directory), str(pid), {1: info, 2: info} | others)
        command = laid(Path(directory), sys.executable, "-m", "bench.scan", "inside", directory)
        figures = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return {
        **made.head("make scan", before),
        "processes": count,
        "descriptors": descriptors,
        "rounds": ROUNDS,
        **figures,
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(inside(Path(sys.argv[2]))))
    else:
        found = main(sys.argv[1:])
        made.keep("scan", found, PAGE.format(made=made.line(found), **found) + "".join(rows(found)))
