"""``gpu-hold`` and ``npu-hold`` in the older tool's place: its arguments, its variables, and the lock of the gates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdtop.hold import places
from tests.hold.lanes import NAP, Box, ended, until
from tests.hold.peers import held_by, peer, variables

FACES = {name: str(Path(sys.executable).with_name(name)) for name in ("gpu-hold", "npu-hold")}


def face(name: str, *words: str, environ: dict[str, str], **kwargs: Any) -> subprocess.Popen[bytes]:
    kwargs.setdefault("stderr", subprocess.PIPE)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([FACES[name], *words], env=os.environ | environ, **kwargs)


def npu(box: Box, prefix: str = "NPU") -> dict[str, str]:
    return {f"{prefix}_QUEUE_DIR": f"{box.state}/npu-queue", f"{prefix}_TOKEN_FILE": f"{box.state}/npu-token"}


def test_the_same_words_give_the_same_statuses_beside_a_shell(state: Box) -> None:
    shell = peer(state, "sleep", NAP)
    held_by(state, shell)
    environ = variables(state)
    assert ended(face("gpu-hold", "-w", "0", "true", environ=environ))[0] == 121
    waiting = face("gpu-hold", "-w", "60", "sh", "-c", "exit 7", environ=environ)
    until(lambda: len(state.tickets()) == 2)
    shell.terminate()
    assert ended(shell)[0] == 143
    assert ended(waiting)[0] == 7
    assert ended(face("gpu-hold", "no-such-command", environ=environ))[0] == 127


@pytest.mark.parametrize("name", ["GPU_HOLD_MEM_ABORT_GIB", "GPU_HOLD_MEM_ABORT_GB"])
def test_the_shells_limits_are_heeded(state: Box, name: str) -> None:
    more = {name: "900000", "GPU_HOLD_KILL_GRACE": "1", "GPU_HOLD_SURVIVE_WAIT": "3"}
    status, said = ended(face("gpu-hold", "sleep", NAP, environ=variables(state, **more)))
    assert status == 122, said
    assert "grace 1s, survive-wait 3s" in said
    assert ended(face("gpu-hold", "true", environ=variables(state, **more | {name: "0"})))[0] == 0


@pytest.mark.parametrize("asked", [("gpu-hold",), ("npu-hold",), ("gpu-hold", "-r", "gpu,npu")])
def test_variables_that_name_the_npus_places_are_followed_to_them(state: Box, asked: tuple[str, ...]) -> None:
    """Whoever records ``npu`` holds that very token: one at home would be a second queue."""
    name, *options = asked
    lane = face(name, *options, "--", "sleep", NAP, environ=npu(state, "GPU"))
    token = state.state / "npu-token"
    until(token.exists)
    assert "resource=npu\n" in token.read_text()
    assert ended(face("gpu-hold", "-w", "0", "true", environ=npu(state, "GPU")))[0] == 121
    assert ended(face("npu-hold", "-w", "0", "true", environ=npu(state)))[0] == 121
    lane.terminate()
    assert ended(lane)[0] == 143
    assert list(Path(os.environ["HOME"]).iterdir()) == []


def test_two_tokens_of_the_npu_are_refused(state: Box) -> None:
    other = {"NPU_QUEUE_DIR": f"{state.state}/q", "NPU_TOKEN_FILE": f"{state.state}/t"}
    status, said = ended(face("gpu-hold", "true", environ=npu(state, "GPU") | other))
    assert status == 125
    assert "two tokens" in said


@pytest.mark.parametrize("named", [False, True])
def test_a_gate_that_only_locks_and_a_hold_exclude_each_other(state: Box, tmp_path: Path, named: bool) -> None:
    lock = tmp_path / "gate.lock" if named else state.state / "npu.lock"
    environ = npu(state) | ({"HW_GATE_LOCK": str(lock)} if named else {})
    gate = subprocess.Popen(
        ["flock", lock, "sh", "-c", "echo in; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert gate.stdout
    assert gate.stdin
    assert gate.stdout.readline() == b"in\n"
    assert ended(face("npu-hold", "-w", "0.5", "true", environ=environ))[0] == 121
    ready = tmp_path / "ready"
    lane = face("npu-hold", "sh", "-c", f"touch {ready}; exec sleep {NAP}", environ=environ)
    until((state.state / "npu-token").exists)
    assert not ready.exists(), "the gate is still in"
    gate.communicate(b"\n")
    until(ready.exists)
    assert subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 1
    lane.terminate()
    assert ended(lane)[0] == 143
    assert subprocess.run(["flock", "-n", lock, "true"], check=False).returncode == 0


def test_a_hold_knows_those_of_other_resources_wherever_variables_place_them(state: Box, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environ = variables(state) | npu(Box(elsewhere))
    for order, status in ((("gpu-hold", "npu-hold"), 0), (("npu-hold", "gpu-hold"), 125)):
        first, second = (FACES[name] for name in order)
        done = subprocess.run(
            [first, "--", second, "-w", "5", "--", "true"],
            env=os.environ | environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
    assert "take both at once" in done.stderr


def test_neighbours_are_found_by_every_rule_that_a_lane_may_follow(tmp_path: Path) -> None:
    shared, own = tmp_path / "shared", tmp_path / "own"
    for directory in (shared, own):
        directory.mkdir()
    for name in ("gpu-queue", "npu-queue", "fpga-queue"):
        (shared / name).mkdir()
    environ = {
        "ONEBIT_HOLD_DIR": str(shared),
        "GPU_QUEUE_DIR": str(own / "q"),
        "GPU_TOKEN_FILE": str(own / "t"),
        "FOO_BAR_QUEUE_DIR": str(own / "fq"),
        "FOO_BAR_TOKEN_FILE": str(own / "ft"),
        "HALF_QUEUE_DIR": str(own / "half"),
    }

    def found(resource: str) -> dict[str, str]:
        beside = places.neighbours(places.resolve(resource, None, environ), environ)
        return {one.resource: one.token_path for one in beside}

    everything = {
        "gpu": str(own / "t"),
        "foo-bar": str(own / "ft"),
        "npu": str(shared / "npu-token"),
        "fpga": str(shared / "fpga-token"),
    }
    assert found("gpu") == found("npu") == found("foo-bar") == everything
    assert places.known_resources(None, environ) == sorted(everything)
    flagged = places.neighbours(places.resolve("gpu", str(shared), environ), environ)
    assert {one.rule for one in flagged} == {"flag"}
