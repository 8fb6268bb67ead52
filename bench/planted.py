"""A crowd of waiting tickets: real files with real life locks, of a process that lives. Nobody of them ever takes.

They are a process of their own (``python -m bench.planted QUEUE COUNT FIRST``): each lock is an open file.
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.ticket import Wish

#: Lanes that have the tickets by turns.
LANES = 50
#: Descriptors that the process needs beside the tickets'.
SPARE = 256


@contextlib.contextmanager
def planted(queue: Path, count: int, *, first: int = 1) -> Iterator[None]:
    """``count`` tickets numbered from ``first``; removed in the end. Raises ``RuntimeError`` if that cannot be."""
    words = [sys.executable, "-m", "bench.planted", str(queue), str(count), str(first)]
    root = Path(__file__).parents[1]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"{count} tickets could not be planted")
        yield  # the end of its input ends it


def main(queue_path: str, count: int, first: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + SPARE), hard))
    made: list[str] = []
    with Dir.root(queue_path) as queue:
        try:
            for number in range(first, first + count):
                made.append(_plant(queue, number))
            print("ready", flush=True)
            sys.stdin.read()
        finally:
            for name in reversed(made):  # the last in line first: nobody's turn comes meanwhile
                queue.remove(name)


def _plant(queue: Dir, number: int) -> str:
    wish = Wish("gpu", f"lane{number % LANES}", f"python3 train.py --run {number}", {"max-hold": "7200s"})
    lines = tickets.describe(wish, number)
    tickets.lock_life(queue.create(lines["id"], tickets.encode(lines)))
    return lines["id"]


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
