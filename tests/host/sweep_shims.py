"""``PYTHON sweep_shims.py ACCOUNT``: ``holdtop state shims`` killed at every line of the replacement of a tool.

Inside a private box, as root. At every kill each tool is the old one or ours, whole and the account's own; the old one
is kept before ours takes its name; the same again completes it, with one copy and nothing beside. Lines count each time
that they are executed, in any thread. Prints the number of runs that were killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from types import FrameType
from typing import Any

from holdtop.host import shims
from holdtop.host.accounts import account

OWNER = account(sys.argv[1])
PLACE = f"{OWNER.home}/.local/bin"
TOOLS = ("gpu-hold", "npu-hold")
#: The functions by which a tool is changed, with all that is done to the disk on the way.
CHANGES = ("_replace", "_is_kept", "create", "rename", "remove", "_aside")


def replace_all() -> None:
    for step in shims.plan(OWNER):
        step.act()


def killed_at(position: int) -> bool:
    """One run in a child that kills itself there; False when it came to its end."""
    child = os.fork()
    if child == 0:
        trace = tracer(position)
        threading.settrace(trace)
        sys.settrace(trace)
        replace_all()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or status == 0, "a run that was not killed failed"
    return os.WIFSIGNALED(status)


def tracer(position: int) -> Any:
    lines = iter(range(1, sys.maxsize))

    def on_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if frame.f_code.co_name not in CHANGES or "/holdtop/" not in frame.f_code.co_filename:
            return None
        if event == "line" and next(lines) == position:
            os.kill(os.getpid(), signal.SIGKILL)
        return on_line

    return on_line


def text(name: str) -> str:
    with open(os.path.join(PLACE, name)) as file:
        return file.read()


def kept(tool: str) -> list[str]:
    return [text(name) for name in os.listdir(PLACE) if name.startswith(f"{tool}.old-")]


def sweep(old: dict[str, str]) -> int:
    position = 1
    while True:
        shutil.rmtree(PLACE)
        shutil.copytree("/opt/spare", PLACE)
        os.system(f"chown -R {OWNER.uid}:{OWNER.gid} {PLACE}")
        if not killed_at(position):
            return position - 1
        for tool in TOOLS:
            status, said = os.lstat(os.path.join(PLACE, tool)), text(tool)
            assert (status.st_uid, status.st_mode & 0o777) == (OWNER.uid, 0o755), f"{tool} when killed at {position}"
            assert said == old[tool] or (said == new(tool) and kept(tool) == [old[tool]]), f"{tool} at {position}"
        replace_all()
        assert {tool: text(tool) for tool in TOOLS} == {tool: new(tool) for tool in TOOLS}, f"again after {position}"
        assert {tool: kept(tool) for tool in TOOLS} == {tool: [old[tool]] for tool in TOOLS}, f"kept after {position}"
        assert not [name for name in os.listdir(PLACE) if name.startswith(".new-")], f"left after {position}"
        position += 1


def new(tool: str) -> str:
    return shims.content(tool, sys.executable).decode()


if __name__ == "__main__":
    shims._refuse_not_runnable = lambda *_: None  # both change nothing, and take long
    shims.__dict__["changeable"] = lambda *_: {}
    shutil.copytree(PLACE, "/opt/spare")
    print(sweep({tool: text(tool) for tool in TOOLS}))
