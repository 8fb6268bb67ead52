"""Beside lanes that still run the older shell tool: a peer that knows noclobber, a poll and ``rm``, and no lock."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.hold.lanes import HOLDTOP, NAP, Box, ended, kill_both, sleepers, until
from tests.hold.unkillable import freezer

PEER = str(Path(__file__).with_name("shell_peer.sh"))
WARNING = "::warning::previous holder left pid="
#: The kernel's own witness: two payloads at once cannot both have this lock.
WITNESS = """
import fcntl, os, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
lock = os.open(sys.argv[1], os.O_RDONLY)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(log, b"two holders\\n")
time.sleep(float(sys.argv[2]))
os.write(log, b"ran\\n")
"""


class Peers:
    """Both kinds of lanes at one queue and one token, found by the variables of the shell tool."""

    def __init__(self, state: Box, log: Path) -> None:
        self.box, self.log = state, log
        self.env = {**os.environ, "GPU_QUEUE_DIR": str(state.queue), "GPU_TOKEN_FILE": str(state.token)}

    def shell(self, *words: str, name: str = "night", poll: float = 0.05, **env: str) -> subprocess.Popen[bytes]:
        env = {**self.env, "PEER_POLL": str(poll), **env}
        return subprocess.Popen([PEER, name, *words], env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def lane(self, *words: str, options: tuple[str, ...] = (), **kwargs: Any) -> subprocess.Popen[bytes]:
        kwargs.setdefault("stderr", subprocess.PIPE)
        command = [*HOLDTOP, "run", "--grace", "0.5", *options, "--", *words]
        return subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, **kwargs)

    def witness(self, seconds: float = 0) -> list[str]:
        return [sys.executable, "-S", "-c", WITNESS, str(self.log), str(seconds)]

    def entries(self) -> list[str]:
        return self.box.tickets()


@pytest.fixture
def peers(state: Box, tmp_path: Path) -> Peers:
    state.queue.mkdir()
    return Peers(state, tmp_path / "log")


def test_neither_starts_while_the_other_holds_and_each_follows_the_other(peers: Peers) -> None:
    shell = peers.shell("sleep", NAP)
    until(lambda: peers.box.token.exists() and peers.box.token.read_text() == f"night {shell.pid}\n")
    lane = peers.lane(*peers.witness(0.3))
    until(lambda: len(peers.entries()) == 2)
    assert ended(peers.lane("true", options=("-w", "0")))[0] == 121
    shell.terminate()
    assert ended(shell)[0] == 143
    until(lambda: peers.box.token.exists() and peers.box.token.read_text().count("\n") > 1)
    behind = peers.shell(*peers.witness())
    until(lambda: len(peers.entries()) == 2)
    status, errors = ended(lane)
    assert (status, ended(behind)[0]) == (0, 0)
    assert f"held by lane night, pid {shell.pid}" in errors
    assert peers.log.read_text() == "ran\nran\n"
    assert peers.box.leftovers() == []


def test_a_waiting_entry_of_either_is_evicted_by_the_others_means(peers: Peers) -> None:
    holder = peers.lane("sleep", NAP)
    peers.box.until_running()
    shell = peers.shell("true")
    (entry,) = until(lambda: [name for name in peers.entries() if name.endswith(f".{shell.pid}")])
    evicted = peers.box.verb("evict", entry, "--reason", "r", "--yes")
    assert evicted.returncode == 0, evicted.stderr
    assert ended(shell)[0] == 143
    lane = peers.lane("true")
    (entry,) = until(lambda: [name for name in peers.entries() if name.endswith(f"-{lane.pid}")])
    (peers.box.queue / entry).unlink()
    assert ended(lane)[0] == 120
    holder.terminate()
    ended(holder)
    assert peers.box.leftovers() == []


def test_a_shell_announces_what_a_lane_has_left(peers: Peers) -> None:
    with freezer() as ice:
        lane = peers.lane("sleep", NAP, options=("--survive-wait", "0.2"), stderr=subprocess.DEVNULL)
        stuck = peers.box.until_running()["root_pid"]
        ice.freeze(stuck)
        lane.terminate()
        lane.wait(20)
        status, errors = ended(peers.shell("true"))
    assert status == 0
    assert f"{WARNING}{stuck} start=" in errors
    assert errors.rstrip().endswith("that device may still hold its memory")
    assert (peers.box.queue / ".gpu-hold-survivors").read_text() == ""


def test_a_lane_announces_a_shells_survivors_and_says_which_are_dead(peers: Peers, tmp_path: Path) -> None:
    leaves = tmp_path / "leaves"
    living, dead = subprocess.Popen(["sleep", NAP]), subprocess.Popen(["sleep", NAP])
    try:
        leaves.write_text(f"{living.pid} {dead.pid}")
        assert ended(peers.shell("true", PEER_LEAVES=str(leaves)))[0] == 0
        dead.kill()
        dead.wait()
        errors = ended(peers.lane("true"))[1].splitlines()
        said = {line.split()[3]: line for line in errors if line.startswith(WARNING)}
        assert said[f"pid={living.pid}"].endswith(f"cmd=sleep {NAP} - that device may still hold its memory")
        assert said[f"pid={dead.pid}"].endswith("it is dead now")
        assert WARNING not in ended(peers.lane("true"))[1], "announced once"
    finally:
        living.kill()
        dead.kill()
        living.wait()


def test_a_shell_on_a_full_disk_holds_by_an_empty_token(peers: Peers) -> None:
    shell = peers.shell("sleep", NAP, PEER_FULL_DISK="1")
    until(peers.box.token.exists)
    status, errors = ended(peers.lane("true", options=("-w", "0.3")))
    assert status == 121
    assert "cannot be read" in errors
    assert "recover" in errors
    lane = peers.lane("true")
    until(lambda: len(peers.entries()) == 2)
    shell.terminate()
    ended(shell)
    assert ended(lane)[0] == 0
    assert peers.box.leftovers() == []


def test_in_a_crowd_of_both_there_are_never_two_and_all_run(peers: Peers) -> None:
    loop = f'for i in 1 2 3 4 5 6; do {PEER} loop "$@" || exit; done'
    env = {**peers.env, "PEER_POLL": "0.01"}
    shells = [subprocess.Popen(["bash", "-c", loop, "sh", *peers.witness()], env=env) for _ in range(3)]
    lanes = [peers.lane(*peers.witness(), stderr=subprocess.DEVNULL) for _ in range(12)]
    assert [lane.wait(60) for lane in lanes] == [0] * 12
    assert [shell.wait(60) for shell in shells] == [0] * 3
    assert peers.log.read_text() == "ran\n" * 30
    assert peers.box.leftovers() == []


def test_ghosts_are_recovered_beside_shells_that_take_whatever_is_free(peers: Peers) -> None:
    """Both processes of a hold are killed while shells and lanes wait for its token."""
    chance = random.Random(7)
    for _ in range(5):
        victim = peers.lane(*peers.witness(30), stderr=subprocess.DEVNULL)
        keeper = peers.box.until_running()["keeper_pid"]
        waiting = [peers.lane(*peers.witness()) for _ in range(2)]
        waiting += [peers.shell(*peers.witness(), poll=0.01) for _ in range(2)]
        chance.shuffle(waiting)
        until(lambda: len(peers.entries()) == 5)
        kill_both(victim, keeper)
        assert [ended(one)[0] for one in waiting] == [0] * 4
    assert set(peers.log.read_text().splitlines()) == {"ran"}
    assert peers.box.leftovers() == []


@pytest.mark.parametrize("first", ["gate", "hold"])
def test_a_gate_that_only_knows_the_lock_excludes_the_npu_and_is_excluded(
    peers: Peers, tmp_path: Path, first: str
) -> None:
    state = peers.box.state
    gate = ["flock", str(state / "npu.lock")]
    hold = [*HOLDTOP, "run", "-r", "npu", "--state-dir", str(state), "--"]
    ready = tmp_path / "ready"
    outer, inner = (gate, hold) if first == "gate" else (hold, gate)
    script = f"touch {ready}; exec sleep {NAP}"
    with subprocess.Popen([*outer, "sh", "-c", script]):
        until(ready.exists)
        waiting = subprocess.Popen([*inner, *peers.witness()])
        until(lambda: first == "hold" or (state / "npu-token").exists())
        assert not peers.log.exists()
        (sleeping,) = sleepers()
        os.kill(sleeping, signal.SIGTERM)
        assert waiting.wait(20) == 0
    assert peers.log.read_text() == "ran\n"
