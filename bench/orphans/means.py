"""What each means of containment finds on this kernel, asked alone: one second after the payload's root has exited.

``python -m bench.orphans.means PROGRAM`` prints JSON: for each means, each kind's share of the looks in which it was
found. A process of its own, since it becomes a subreaper. Whoever asks a real hold gets the union of these means.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.hold.groups import group
from tests.hold.orphans import KINDS, Tree, send

from holdtop.payload import linux
from holdtop.payload.ending import Reaper
from holdtop.payload.members import RUN_MARK, has_mark
from holdtop.payload.process import ProcessTable, Stat

LOOKS = 40
EVERY = 0.05
RUN = "0000000001-1:measured"
#: How the kinds are named in their stat.
NAMES = {**{kind: kind for kind in KINDS}, "kworker/u8:3": "disguised"}
#: A payload that is the first process of its namespace takes everything in there along when it exits.
NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


def found_by(tree: Tree, root: int) -> Mapping[str, Callable[[], Iterable[str | None]]]:
    """Each means as a question to the kernel: of which kinds are the payload's processes?"""

    def where(condition: Callable[[Stat], bool]) -> Callable[[], Iterable[str]]:
        return lambda: (NAMES[stat.name] for stat in ProcessTable().stats.values() if ours(stat) and condition(stat))

    def below() -> Iterable[str]:
        table = ProcessTable()
        stats = (table.stats[pid] for pid in table.descendants(os.getpid()))
        return [NAMES[stat.name] for stat in stats if ours(stat)]

    return {
        "process group": where(lambda stat: stat.pgrp == root),
        "session": where(lambda stat: stat.session == root),
        "marker": where(lambda stat: has_mark(stat.pid, RUN)),
        "descent": below,
        "cgroup": lambda: map(tree.kind, tree.group.procs()),
    }


def ours(stat: Stat) -> bool:
    """By its name alone, which is read in the same instant: a link of a chain is gone before a second question."""
    return stat.name in NAMES and not stat.dead


def outlived(tree: Tree, *prefix: str) -> int:
    """Start the payload, have its root exit, and let a second pass. Returns the root's pid."""
    tree.spawn(*prefix, *tree.payload())
    root = tree.root()
    send(root, signal.SIGUSR1)
    time.sleep(1)
    return root.pid


def looked(ask: Callable[[], Iterable[str | None]]) -> dict[str, float]:
    """Each kind's share of the looks that found it."""
    found: Counter[str] = Counter()
    for _ in range(LOOKS):
        Reaper(0).reap()  # what is dead would only lengthen the next look
        found.update({kind for kind in ask() if kind})
        time.sleep(EVERY)
    return {kind: found[kind] / LOOKS for kind in KINDS}


def measure(program: str, directory: Path) -> dict[str, dict[str, float]]:
    linux.become_subreaper()
    environment = {"PATH": os.environ["PATH"], RUN_MARK: RUN}
    with run(program, directory, environment) as tree:
        root = outlived(tree)
        shares = {means: looked(ask) for means, ask in found_by(tree, root).items()}
    with run(program, directory, environment) as tree:
        outlived(tree, *NAMESPACE)
        living = looked(tree.look)
    return {**shares, "pid namespace": {kind: 1 - share for kind, share in living.items()}}


@contextlib.contextmanager
def run(program: str, directory: Path, environment: Mapping[str, str]) -> Iterator[Tree]:
    """A payload in a cgroup of its own, which ends with it."""
    with group() as home:
        tree = Tree(program, home, directory, environment=environment)
        yield tree
        home.kill()
        tree.reap()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as aside:
        print(json.dumps(measure(sys.argv[1], Path(aside))))
