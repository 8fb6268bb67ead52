"""``python -m tests.host.sweep STRIDE MODULES WORDS…``: a part of ``holdtop state`` killed at every line it executes.

Inside a private box. Before each run ``/var/lib`` and ``/home`` are as they were at the start; after each the state
directory must be as before or complete, with every receipt in it or still in its home, and running the same words again
must end in the complete state, the homes included. Lines count the first time that they are executed, in any thread,
those of the modules named (joined by commas) only. Prints the number of runs that were killed.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import shutil
import signal
import sys
import threading
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
        trace = tracer(position)
        threading.settrace(trace)
        sys.settrace(trace)
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


def shape(directory: str) -> list[tuple[str, int, int, int]]:
    """What lies there, but for what is made when it is used, and what was built aside."""
    found = []
    for top, directories, files in os.walk(directory):
        directories[:] = [name for name in directories if not name.startswith(".new-")]
        for name in (*directories, *files, ""):
            if name != ".lock" and not name.startswith(".new-"):
                status = os.lstat(path := os.path.join(top, name))
                found.append((path, status.st_mode, status.st_uid, status.st_gid))
    return sorted(found)


def receipts(*places: str) -> set[str]:
    """Every receipt in any queue below."""
    found: set[str] = set()
    for place in places:
        for path in glob.glob(f"{place}/*/.receipts.jsonl"):
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
                assert len(lines) == len(set(lines)), f"{path} says something twice"
                found.update(lines)
    return found


def debris() -> list[str]:
    places = (*PLACES, DEFAULT_STATE_DIR, *glob.glob("/home/*"))
    return [name for place in places for name in os.listdir(place) if name.startswith(".new-")]


def sweep() -> int:
    os.mkdir(SPARE, 0o700)
    for number, place in enumerate(PLACES):
        os.mkdir(f"{SPARE}/{number}")
        os.system(f"cd {place} && tar --exclude ./.spare -cf - . | tar -C {SPARE}/{number} -xpf -")
    before, told = shape(DEFAULT_STATE_DIR), receipts("/home/*", DEFAULT_STATE_DIR)
    assert quiet() == 0
    complete, homes = shape(DEFAULT_STATE_DIR), shape("/home")
    position, runs = 1, 0
    while True:
        reset()
        if not killed_at(position):
            return runs
        assert shape(DEFAULT_STATE_DIR) in (before, complete), f"half a state when killed at line {position}"
        assert receipts("/home/*", DEFAULT_STATE_DIR) == told, f"receipts lost when killed at line {position}"
        assert quiet() == 0, f"not to be repeated when killed at line {position}"
        assert shape(DEFAULT_STATE_DIR) == complete, f"not repaired when killed at line {position}"
        assert shape("/home") == homes, f"not the same in the homes when killed at line {position}"
        assert receipts("/home/*", DEFAULT_STATE_DIR) == told, f"receipts not moved when killed at line {position}"
        assert debris() == [], f"left behind when killed at line {position}"
        position, runs = position + STRIDE, runs + 1


if __name__ == "__main__":
    print(sweep())
