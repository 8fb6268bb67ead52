"""``holdtop status`` as a command: what it prints, with which status, through which kind of output."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import holdtop
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until
from tests.reading.machines import CAPTURES, fdinfo, tree

SCHEMA = Path(holdtop.__file__).parents[2] / "docs" / "status.schema.json"
HOSTILE = "[/red] \x1b]0;x\x07 \u202e a) R 1 1 (b\nsecond line"


@pytest.fixture
def state(tmp_path: Path) -> Box:
    directory = tmp_path / "state"
    directory.mkdir(mode=0o2770)
    return Box(directory)


@contextlib.contextmanager
def napping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", NAP]) as process:
        try:
            yield process
        finally:
            process.kill()


def status(box: Box, *words: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    done = box.verb("status", *words, env={**os.environ, **(environ or {})})
    assert "Traceback" not in done.stderr
    return done


def checked(text: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(text)
    jsonschema.validate(said, json.loads(SCHEMA.read_text()), jsonschema.Draft202012Validator)
    return said


def test_a_box_with_nothing(state: Box) -> None:
    began = time.monotonic()
    done = status(state)
    assert time.monotonic() - began < 10
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpu: FREE" in done.stdout
    assert "flags: none" in done.stdout
    said = checked(status(state, "--json").stdout)
    missing = {name for name, value in said["readings"].items() if value is None and name != "device"}
    assert missing == set(said["readings"]["unavailable"])


def test_a_recorded_machine(state: Box) -> None:
    tree_of = {"HOLDTOP_SYS": str(CAPTURES / "150e-strix-point/sys")}
    said = checked(status(state, "--json", environ=tree_of).stdout)
    assert said["readings"]["gtt_used_bytes"] == 3946811392
    assert said["readings"]["device"] == "0000:c1:00.0"
    assert said["roots"] == [f"HOLDTOP_SYS={tree_of['HOLDTOP_SYS']}"]
    plain = status(state, "--plain", environ=tree_of).stdout
    assert "GPU power: 9.087 W.\n" in plain
    assert "Device: 0000:c1:00.0 (apu), programs get GTT.\n" in plain
    assert "GPU temperature: 38 C.\n" in plain
    assert "preemptible" not in plain, "most boxes have none"
    assert (said["readings"]["pool"], said["devices"][0]["readings"]["pool"]) == ("gtt", "gtt")
    assert f"Not the live box: HOLDTOP_SYS={tree_of['HOLDTOP_SYS']}." in plain


def test_held_with_its_tree_and_a_waiter(state: Box, tmp_path: Path) -> None:
    overlay = tmp_path / "overlay"
    overlay.mkdir()
    running = state.run("sh", "-c", f"sleep {NAP} & exec sleep {NAP}", options=("--lane", "first", "--grace", "1s"))
    root = state.until_running()["root_pid"]
    (overlay / str(root) / "fd").mkdir(parents=True)
    (overlay / str(root) / "fd" / "99").symlink_to("/dev/dri/renderD128")
    tree(overlay / str(root) / "fdinfo", {"99": fdinfo(7, "0000:c1:00.0", resident_gtt="1024 MiB")})
    waiting = state.run("true", options=("--lane", "second"))
    until(lambda: len(state.tickets()) == 2)
    roots = {"HOLDTOP_SYS": str(CAPTURES / "150e-strix-point/sys"), "HOLDTOP_PROC_OVERLAY": str(overlay)}
    done = status(state, "--json", environ=roots)
    assert done.returncode == 1
    said = checked(done.stdout)
    (gpu,) = said["resources"]
    holder = gpu["holder"]
    assert (gpu["state"], holder["lane"], holder["pid"], holder["state"]) == ("held", "first", running.pid, "running")
    assert [(one["lane"], one["position"]) for one in gpu["waiting"]] == [("second", 1)]
    payload = holder["payload"]
    assert payload["root_pid"] == root
    assert sorted(one["name"] for one in payload["processes"]) == ["sleep", "sleep"]
    assert payload["gtt_bytes"] == said["memory"]["payload_bytes"] == 1024**3
    assert [one["command"] for one in payload["processes"]] == [["sleep", NAP]] * 2
    assert said["leftovers"] == []
    running.send_signal(signal.SIGTERM)
    ended(running)
    ended(waiting)
    assert status(state).returncode == 0


def test_a_stray_is_flagged_and_status_says_so(state: Box, tmp_path: Path) -> None:
    with napping() as stray:
        (tmp_path / str(stray.pid) / "fd").mkdir(parents=True)
        (tmp_path / str(stray.pid) / "fd" / "9").symlink_to("/dev/dri/renderD129")
        tree(tmp_path / str(stray.pid) / "fdinfo", {"9": fdinfo(7, resident_gtt="300 MiB")})
        roots = {"HOLDTOP_PROC_OVERLAY": str(tmp_path)}
        done = status(state, "--json", environ=roots)
        assert done.returncode == 3
        said = checked(done.stdout)
        assert [(flag["kind"], flag["pids"]) for flag in said["flags"]] == [("stray", [stray.pid])]
        assert [one["pid"] for one in said["leftovers"]] == [stray.pid]
        larger = status(state, environ={**roots, "HOLDTOP_STRAY_MIN_MIB": "400"})
        assert larger.returncode == 0


def test_hostile_text_reaches_no_terminal(state: Box) -> None:
    (state.queue).mkdir(mode=0o2770)
    (state.queue / "t\n\x1b[31m[red]").touch()
    (state.queue / os.fsdecode(b"t\xff")).touch()
    running = state.run("sh", "-c", f"exec sleep {NAP} # {HOSTILE}", options=("--grace", "1s"))
    state.until_running()
    for words in ((), ("--plain",)):
        out = status(state, *words).stdout
        assert "sleep" in out
        assert not set(out) & {"\x1b", "\x07", "\u202e"}
    assert not set(status(state, "--json").stdout) & {"\x1b", "\x07", "\u202e"}
    ascii_out = status(state, environ={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"})
    assert ascii_out.returncode == 1
    assert ascii_out.stdout.isascii()
    running.send_signal(signal.SIGTERM)
    ended(running)


def test_outputs_that_end_early_or_are_full(state: Box) -> None:
    line = " ".join([*HOLDTOP, "status", "--json", "--state-dir", str(state.state)])
    for redirect, right in ((" | head -c 1 >&2", (0, 141)), (" >&-", (0,)), (" > /dev/full", tuple(range(1, 256)))):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line + redirect], capture_output=True, text=True)
        assert done.returncode in right, redirect
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--state-dir", "/nonexistent"), "/nonexistent"),
        (("-r", "GPU!"), "GPU!"),
    ],
)
def test_bad_words_are_one_line_and_2(words: tuple[str, ...], says: str) -> None:
    done = subprocess.run([*HOLDTOP, "status", *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_a_state_that_cannot_be_resolved_is_unknown(box: Path) -> None:
    environ = {**os.environ, "HOME": "/nonexistent"}
    done = subprocess.run([*HOLDTOP, "status", "--json"], capture_output=True, text=True, env=environ)
    assert done.returncode == 4
    (gpu,) = checked(done.stdout)["resources"]
    assert gpu["state"] == "unknown"
    assert "HOME" in gpu["problems"][0]


def test_half_a_place_is_critical(box: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "GPU_TOKEN_FILE": str(tmp_path / "token")}
    done = subprocess.run([*HOLDTOP, "status"], capture_output=True, text=True, env=environ)
    assert done.returncode == 3
    assert "CRITICAL split-state" in done.stdout
    assert "remedy: unset GPU_QUEUE_DIR GPU_TOKEN_FILE" in done.stdout


def test_a_sensor_that_never_answers(state: Box, tmp_path: Path) -> None:
    shutil.copytree(CAPTURES / "150e-strix-point/sys", tmp_path / "sys")
    fifo = tmp_path / "sys/class/drm/card1/device/mem_info_vram_used"
    fifo.unlink()
    os.mkfifo(fifo)
    began = time.monotonic()
    done = status(state, environ={"HOLDTOP_SYS": str(tmp_path / "sys")})
    assert time.monotonic() - began < 10
    assert done.returncode == 0
    assert "VRAM used          unknown: timeout" in done.stdout
    assert "GTT used           3.7 GiB" in done.stdout


def test_watch_prints_changes_only(state: Box) -> None:
    command = [*HOLDTOP, "status", "--watch", "--state-dir", str(state.state)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        assert watch.stdout.readline().endswith("+ gpu free\n")
        running = state.run("sleep", NAP, options=("--lane", "seen", "--grace", "1s"))
        assert watch.stdout.readline().endswith("- gpu free\n")
        assert "+ gpu held by seen," in watch.stdout.readline()
        running.send_signal(signal.SIGTERM)
        ended(running)
        while "+ gpu free" not in watch.stdout.readline():
            pass
        time.sleep(1.5)
        watch.send_signal(signal.SIGINT)
        assert watch.stdout.read() == ""
        assert watch.wait() == 130
