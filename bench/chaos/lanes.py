"""How the lanes of an episode come to life: forks of a process that has holdtop loaded, the real command, a shell."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.chaos.plan import LanePlan

#: What ``holdtop`` is in this process: its arguments in, its exit status out.
Entry = Callable[[list[str]], int]
#: A fork shares what these load; importing them is most of what a start costs.
_LOADED = ("cli.main", "cli.run", "cli.recover", "operator", "sampler", "payload.supervisor")
#: A shell that knows two things of the token: creating it exclusively, and removing it.
PEER = """
set -C
until { echo "$2 $$" > "$1"; } 2>/dev/null; do sleep 0.1; done
token=$1
shift 2
"$@" & payload=$!
trap 'kill -9 $payload' TERM INT HUP
wait $payload
wait $payload
status=$?
rm -f "$token"
exit $status
"""


@dataclass(frozen=True, slots=True)
class Site:
    """Where one episode takes place: a directory of its own."""

    directory: Path
    #: The payload's program under a name of this arena alone, by which the kernel tells its processes.
    program: Path

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def token(self) -> Path:
        return self.state / "gpu-token"

    @property
    def queue(self) -> Path:
        return self.state / "gpu-queue"

    @property
    def log(self) -> Path:
        """What the payloads witnessed."""
        return self.directory / "witnessed"

    @property
    def said(self) -> Path:
        """What the lanes said on stderr."""
        return self.directory / "said"


def build(directory: Path) -> None:
    """Compile ``payload`` and ``clock.so`` into ``directory``. Raises ``FileNotFoundError`` without a compiler."""
    here = Path(__file__).parent
    subprocess.run(["cc", "-O2", "-o", directory / "payload", here / "payload.c"], check=True)
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", directory / "clock.so", here / "clock.c"], check=True)


def load() -> None:
    """Before the first fork: what every lane shares."""
    for name in _LOADED:
        importlib.import_module(f"holdtop.{name}")
    gc.collect()
    gc.freeze()


def holdtop(words: list[str]) -> int:
    """The command's own entry."""
    from holdtop.cli.main import main

    return main(words)


def step_clock(seconds: int) -> bool:
    """Move the wall clock of all lanes; False where ``clock.so`` is not preloaded."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).chaos_clock_step(ctypes.c_long(seconds))
        return True
    return False


def own_clock() -> None:
    """From here on our forks have a wall clock apart from everybody else's; what they execute has the real one."""
    os.environ.pop("LD_PRELOAD", None)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).chaos_clock_new()


def start(lane: LanePlan, run: str, site: Site, entry: Entry) -> int:
    """Start a lane whose payload is known as ``run``; its pid."""
    words = [str(site.program), "root", run, str(site.log), f"{site.log}.lock", str(lane.lasts), str(lane.status)]
    words += lane.kinds
    options = ["run", "--state-dir", str(site.state), *lane.options, "--", *words]
    if lane.by == "forked":
        return fork(lambda: entry(options), site, own_session=lane.own_session)
    command = [sys.executable, "-m", "holdtop", *options]
    if lane.by == "peer":
        command = ["/bin/sh", "-c", PEER, "peer", str(site.token), run, *words]
    return fork(lambda: os.execv(command[0], command), site, own_session=lane.own_session)


def fork(body: Callable[[], int], site: Site, *, own_session: bool = False) -> int:
    """Run ``body`` in a child as a process of its own would: no descriptor of ours, its words in ``site.said``."""
    pid = os.fork()
    if pid:
        return pid
    status = 125
    try:
        if own_session:
            os.setsid()
        os.closerange(3, 1024)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        os.dup2(os.open(site.said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 1)
        os.dup2(1, 2)
        os.closerange(3, 16)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        status = body()
    except BaseException:  # noqa: BLE001  nothing of this child may return into the arena
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)
