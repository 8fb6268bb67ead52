"""The KILL phase of a large tree: from the end of the grace to the kernel's word that nothing is left.

``python -m bench.killphase [SIZE [ROUNDS]]`` prints it beside what a bare ``cgroup.kill`` and waiting for ECHILD take,
by turns. Needs a writable cgroup v2.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.lanes import compiled, summary
from tests.hold.groups import group
from tests.hold.lanes import until

from holdtop.payload import linux
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.custody import Holds
from holdtop.payload.ending import Bounds, Ending, Reaper
from holdtop.payload.members import Scope
from holdtop.payload.process import read_stat

#: How long the tree is asked by TERM before, in seconds.
GRACE = 1.0


def by_holdtop(place: Cgroup, root: int) -> float:
    stat = read_stat(root)
    assert stat
    scope = Scope(stat.identity, "", os.getuid(), reaper=os.getpid(), cgroups=(place,))
    begun = time.perf_counter()
    _, left, proof = Ending(scope, Bounds(GRACE), Reaper(root), Holds).run(time.sleep)
    took = time.perf_counter() - begun - GRACE
    assert proof, left
    return took * 1000


def by_kernel(place: Cgroup, root: int) -> float:
    reaper = Reaper(root)
    begun = time.perf_counter()
    place.kill()
    while not reaper.childless or place.populated():
        reaper.reap()
        time.sleep(0.0005)
    return (time.perf_counter() - begun) * 1000


WAYS: dict[str, Callable[[Cgroup, int], float]] = {"holdtop": by_holdtop, "cgroup.kill": by_kernel}


def once(way: str, program: str, size: int) -> float:
    """Milliseconds, in a process of its own: it becomes a subreaper."""
    told, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        linux.become_subreaper()
        with group() as place:
            root = place.fork()
            if root == 0:
                os.execv(program, [program, str(size)])
            until(lambda: len(place.procs()) == size, 60)
            os.write(tell, str(WAYS[way](place, root)).encode())
        os._exit(0)
    os.close(tell)
    os.waitpid(pid, 0)
    with os.fdopen(told) as answer:
        return float(answer.read())


def main(words: Sequence[str]) -> dict[str, Any]:
    size, rounds = (*map(int, words), *(2000, 5)[len(words) :])
    with tempfile.TemporaryDirectory() as built:
        program = compiled("tree", Path(built))
        samples: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way in WAYS:
                samples[way].append(once(way, program, size))
    figures = {way: summary(found) for way, found in samples.items()}
    ratio = round(figures["holdtop"]["median"] / figures["cgroup.kill"]["median"], 2)
    return {"processes": size, "ms": figures, "ratio": ratio}


if __name__ == "__main__":
    print(main(sys.argv[1:]))
