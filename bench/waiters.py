"""What waiting costs: processor time and memory of many idle waiters.

``python -m bench.waiters [WAITERS [SECONDS]]`` queues them behind one sleeping holder, lets them settle, and reads
what they use for so long: their time on a processor (the first field of /proc/PID/schedstat) and the
proportional set size of each (proc_pid_smaps(5)): memory that several share counts in parts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.lanes import HOLDTOP, arena, summary

#: Until the last to queue has gone to sleep, in seconds.
SETTLE = 5.0


def cpu_seconds(pids: Sequence[int]) -> float:
    """By the scheduler's own count in nanoseconds: the ticks of stat are coarser than what a waiter uses."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def switches(pids: Sequence[int]) -> int:
    """How often they have gone to sleep."""
    lines = (line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary"))


def pss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024


def main(words: Sequence[str]) -> dict[str, Any]:
    count, seconds = (*map(int, words), *(200, 30)[len(words) :])
    with arena() as here:
        here.start([*HOLDTOP, "--", "sleep", "3600"])
        here.until(lambda: here.tickets() == 1)
        for number in range(count):
            here.start([*HOLDTOP, "--", "true"])
            here.until(lambda so_far=number + 2: here.tickets() == so_far)  # type: ignore[misc]
        time.sleep(SETTLE)
        waiters = [process.pid for process in here.started[1:]]
        before, slept = cpu_seconds(waiters), switches(waiters)
        time.sleep(seconds)
        used, woken = cpu_seconds(waiters) - before, switches(waiters) - slept
        memory = [pss_mib(pid) for pid in waiters]
    return {
        "waiters": count,
        "seconds": seconds,
        "percent_of_a_core": round(100 * used / seconds, 2),
        "wakes_a_second": round(woken / seconds, 1),
        "microseconds_a_wake": round(1e6 * used / max(1, woken), 1),
        "pss_mib": summary(memory),
        "processors": os.cpu_count(),
    }


if __name__ == "__main__":
    print(main(sys.argv[1:]))
