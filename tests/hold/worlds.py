"""What a test does inside namespaces of its own: ``python -m tests.hold.worlds NAME STATE``, below ``unshare``."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from holdtop.payload.process import read_stat
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, identity, kill_both, until

SOON = ("--grace", "0.3", "--survive-wait", "0.3")
#: A process and mount namespace with a ``/proc`` of its own, of which nothing outlives ``unshare``.
CONTAINER = ("unshare", "-pf", "--mount-proc", "--kill-child")


def inside(unshare: tuple[str, ...], name: str, state: Box, **kwargs: Any) -> subprocess.Popen[bytes]:
    """Start that function there."""
    return subprocess.Popen(
        [*unshare, sys.executable, "-m", __name__, name, str(state.state)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        **kwargs,
    )


def hold(state: Box, *unshare: str, resource: str = "gpu") -> subprocess.Popen[bytes]:
    """A hold as the first process there, or as the only one."""
    words = [*unshare, *HOLDTOP, "run", "--state-dir", str(state.state), "-r", resource, *SOON, "--", "sleep", NAP]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _ghost(state: Box) -> tuple[int, int]:
    """A hold of which all is dead; the pids of its outer process and its payload's root."""
    lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
    started = state.until_running()
    until(lambda: (state.queue / ".record" / f"{started['ticket']}.json").exists())
    kill_both(lane, started["keeper_pid"])
    root = identity(started["root_pid"])
    os.kill(root.pid, signal.SIGKILL)
    until(lambda: _reaped(root.pid))
    return lane.pid, root.pid


def _reaped(pid: int) -> bool:
    """We are the first process there: it comes to us."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return read_stat(pid) is None


def _born_as(pid: int) -> subprocess.Popen[bytes]:
    """A stranger that has exactly this pid."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    stranger = subprocess.Popen(["sleep", "600"])
    assert stranger.pid == pid
    return stranger


def recycled(state: Box) -> None:
    """Both the dead hold's pid and its payload's are somebody else's by now."""
    strangers = [_born_as(pid) for pid in _ghost(state)]
    status, errors = ended(state.run("true", options=["-w", "10", *SOON]))
    assert status == 0, errors
    assert "took over the stale token" in errors
    assert [stranger.poll() for stranger in strangers] == [None, None]
    assert state.leftovers() == []


def token_elsewhere(state: Box) -> None:
    """The token lies on a file system of its own, the queue on another."""
    token = state.state / "elsewhere" / "token"
    token.parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", str(token.parent)], check=True)
    os.environ.update(GPU_QUEUE_DIR=str(state.queue), GPU_TOKEN_FILE=str(token))
    run = [*HOLDTOP, "run", *SOON, "-w", "10", "--"]
    assert subprocess.run([*run, "sh", "-c", "exit 7"], check=False).returncode == 7
    for ghost in (False, True):
        lane = subprocess.Popen([*run, "sleep", NAP], stderr=subprocess.DEVNULL)
        until(lambda: any(event["event"] == "started" for event in state.events(_ticket(token))))
        started = next(event for event in state.events(_ticket(token)) if event["event"] == "started")
        if ghost:
            kill_both(lane, started["keeper_pid"])
        else:
            token.unlink()
            until(token.exists)
            lane.terminate()
            assert lane.wait(10) == 143
    done = subprocess.run([*run, "true"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "took over the stale token" in done.stderr
    assert list(token.parent.iterdir()) == []
    token.write_text("")
    words = [*HOLDTOP, "recover", "-r", "gpu", "--reason", "test", "--yes"]
    assert subprocess.run(words, check=False).returncode == 0
    assert [path.name[:12] for path in token.parent.iterdir()] == [".token.kept-"]


def _ticket(token: Path) -> str:
    text = token.read_text() if token.exists() else ""
    return next((line[3:] for line in text.splitlines() if line.startswith("id=")), "none")


def dead_inside(state: Box) -> None:
    """The hold is dead, its namespace is not, and somebody of it lives on."""
    _ghost(state)
    print("ready", flush=True)
    signal.pause()


if __name__ == "__main__":
    globals()[sys.argv[1]](Box(Path(sys.argv[2])))
