"""``python -m tests.host.sweep STRIDE MODULES WORDS…``: a part of ``holdtop state`` killed at every line it executes.

Inside a private box. Before each run ``/var/lib`` and ``/home`` are as they were at the start; after each the state
directory must be absent or complete, and running the same words again must end in the complete state. Lines count the
first time that they are executed, those of the modules named (joined by commas) only. Prints the number of runs that
were killed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from holdtop.cli.main import main
from holdtop.hold.places import DEFAULT_STATE_DIR

STRIDE, MODULES, WORDS = int(sys.argv[1]), tuple(sys.argv[2].split(",")), sys.argv[3:]
PLACES = ("/var/lib", "/home")
SPARE = "/var/lib/.spare"


def killed_at(position: int) -> bool:
    """One run in a child that kills itself before that line; False when it came to its end."""
    child = os.fork()
    if child == 0:
        sys.settrace(tracer(position))
        os._exit(quiet())
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert status == 0, "a run that was not killed failed"
    return False


def quiet() -> int:
    with contextlib.redirect_stdout(io.StringIO()):
        return main(["state", *WORDS])


def tracer(position: int) -> Any:
    seen: set[tuple[str, int]] = set()

    def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(MODULES):
            return None
        if event == "line":
            seen.add((frame.f_code.co_filename, frame.f_lineno))
            if len(seen) == position:
                os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    return on_line


def reset() -> None:
    for number, place in enumerate(PLACES):
        for name in os.listdir(place):
            if os.path.join(place, name) != SPARE:
                shutil.rmtree(os.path.join(place, name))
        os.system(f"cp -a {SPARE}/{number}/. {place}/")


def shape(directory: str) -> Iterator[tuple[str, int, int, int]]:
    for top, directories, files in os.walk(directory):
        for name in (*directories, *files, ""):
            status = os.lstat(path := os.path.join(top, name))
            yield path, status.st_mode, status.st_uid, status.st_gid


def sweep() -> int:
    os.mkdir(SPARE, 0o700)
    for number, place in enumerate(PLACES):
        os.mkdir(f"{SPARE}/{number}")
        os.system(f"cd {place} && tar --exclude ./.spare -cf - . | tar -C {SPARE}/{number} -xpf -")
    assert quiet() == 0
    complete = sorted(shape(DEFAULT_STATE_DIR))
    position, runs = 1, 0
    while True:
        reset()
        if not killed_at(position):
            return runs
        if os.path.lexists(DEFAULT_STATE_DIR):
            assert sorted(shape(DEFAULT_STATE_DIR)) == complete, f"half a state when killed at line {position}"
        assert quiet() == 0, f"not to be repeated when killed at line {position}"
        assert sorted(shape(DEFAULT_STATE_DIR)) == complete, f"not repaired when killed at line {position}"
        left = [name for name in os.listdir("/var/lib") if name not in (".spare", os.path.basename(DEFAULT_STATE_DIR))]
        assert left == [], f"left behind when killed at line {position}"
        position, runs = position + STRIDE, runs + 1


if __name__ == "__main__":
    print(sweep())
