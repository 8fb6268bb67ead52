"""A crowd of waiting tickets: real files with real life locks, of processes that live. Nobody of them ever takes."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.ticket import Wish
from holdtop.payload.process import Identity, own_identity, read_stat

#: Lanes that have the tickets by turns.
LANES = 50
#: Descriptors that this process needs beside the tickets'.
SPARE = 256


@contextlib.contextmanager
def planted(directory: Path, count: int, *, first: int = 1, pids: Sequence[int] = ()) -> Iterator[None]:
    """``count`` tickets numbered from ``first``, of those processes by turns, or of this one; removed in the end."""
    _allow(count)
    identities = [stat.identity for pid in pids if (stat := read_stat(pid))] or [own_identity()]
    made: list[tuple[str, int]] = []
    with Dir.root(str(directory)) as queue:
        try:
            for number in range(first, first + count):
                made.append(_plant(queue, number, identities[number % len(identities)]))
            yield
        finally:
            for name, fd in reversed(made):  # the last in line first: nobody's turn comes meanwhile
                queue.remove(name)
                os.close(fd)


def _allow(count: int) -> None:
    """Raises ``ValueError`` where so many files may not be open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + SPARE), hard))


def _plant(queue: Dir, number: int, who: Identity) -> tuple[str, int]:
    wish = Wish("gpu", f"lane{number % LANES}", f"python3 train.py --run {number}", {"max-hold": "7200s"})
    name = f"{number:010d}-{who.pid}"
    said = {"id": name, "pid": str(who.pid), "start": str(who.start_ticks)}
    fd = queue.create(name, tickets.encode(tickets.describe(wish, number) | said))
    tickets.lock_life(fd)
    return name, fd
