"""Limits on sensors: bad values in a row end the tree, one does not, and a blind guard is never a silent one."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.hold.lanes import HOLDTOP, NAP, Box, ended, sleepers, until


class Sensors:
    """A box's sensors as files that a test rewrites."""

    def __init__(self, top: Path) -> None:
        self.overlay, self.sys = top / "overlay", top / "sys"
        self.chip = self.sys / "class/hwmon/hwmon3"
        self.overlay.mkdir()
        self.chip.mkdir(parents=True)
        self.memory(60)
        (self.chip / "name").write_text("k10temp\n")
        (self.chip / "temp2_label").write_text("Tctl\n")
        (self.chip / "temp1_label").write_text("Tdie\n")
        self.heat(50)

    def _write(self, path: Path, text: str) -> None:
        aside = path.with_name(".aside")
        aside.write_text(text)
        aside.rename(path)

    def memory(self, gib: float) -> None:
        self._write(self.overlay / "meminfo", f"MemTotal: 131072000 kB\nMemAvailable: {int(gib * (1 << 20))} kB\n")

    def heat(self, tctl: float, tdie: float = 40) -> None:
        self._write(self.chip / "temp2_input", f"{int(tctl * 1000)}\n")
        self._write(self.chip / "temp1_input", f"{int(tdie * 1000)}\n")

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOLDTOP_PROC_OVERLAY": str(self.overlay), "HOLDTOP_SYS": str(self.sys)}


@pytest.fixture
def sensors(tmp_path: Path) -> Sensors:
    return Sensors(tmp_path)


def test_memory_under_the_floor_ends_the_tree(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--mem-abort-gib", "8", "--grace", "1"], env=sensors.environ)
    state.until_running()
    sensors.memory(0.9)
    status, errors = ended(lane)
    assert status == 122
    assert "MemAvailable 0.9 GiB is below" in errors
    assert sleepers() == []
    assert state.leftovers() == []


def test_one_bad_sample_ends_nothing(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--mem-abort-gib", "8", "--max-hold", "5"], env=sensors.environ)
    state.until_running()
    for _ in range(4):
        time.sleep(0.9)
        sensors.memory(1)
        time.sleep(0.15)
        sensors.memory(60)
    assert ended(lane)[0] == 124


def test_only_tctl_counts_and_an_absurd_value_is_no_heat(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--tctl-abort", "95", "--grace", "1"], env=sensors.environ)
    state.until_running()
    sensors.heat(50, tdie=120)
    time.sleep(4)
    assert lane.poll() is None
    sensors.heat(65273)
    time.sleep(4)
    assert lane.poll() is None
    sensors.heat(96.5)
    status, errors = ended(lane)
    assert status == 123
    assert "Tctl 96.5 C" in errors
    assert "blind" in errors, "the absurd value was said to be none"


def test_a_sensor_that_moves_is_found_again(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--tctl-abort", "95", "--grace", "1"], env=sensors.environ)
    state.until_running()
    sensors.chip.rename(sensors.chip.with_name("hwmon7"))
    sensors.chip = sensors.chip.with_name("hwmon7")
    sensors.heat(97)
    assert ended(lane)[0] == 123


def test_a_sensor_that_vanishes_is_said_and_ends_nothing(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--mem-abort-gib", "8", "--max-hold", "6"], env=sensors.environ)
    state.until_running()
    (sensors.overlay / "meminfo").write_text("MemTotal: 1 kB\n")
    status, errors = ended(lane)
    assert status == 124
    assert errors.count("is blind") == 1


@pytest.mark.parametrize("limit", [["--tctl-abort", "95"], ["--mem-abort-gib", "8"]])
def test_a_limit_without_a_sensor_refuses_the_start(state: Box, sensors: Sensors, limit: list[str]) -> None:
    (sensors.chip / "temp2_label").unlink()
    (sensors.overlay / "meminfo").write_text("garbage")
    status, errors = ended(state.run("true", options=limit, env=sensors.environ))
    assert status == 125
    assert limit[0] in errors
    assert state.tickets() == []
    status, errors = ended(state.run("true", options=[*limit, "--sensor-missing", "warn"], env=sensors.environ))
    assert status == 0
    assert "::warning::" in errors


def test_a_sensor_that_never_answers_stops_no_deadline(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--mem-abort-gib", "8", "--max-hold", "7"], env=sensors.environ)
    started = state.until_running()
    os.mkfifo(sensors.overlay / ".fifo")
    (sensors.overlay / ".fifo").rename(sensors.overlay / "meminfo")
    threads = Path(f"/proc/{started['keeper_pid']}/task")
    time.sleep(3)
    assert len(list(threads.iterdir())) <= 3
    status, errors = ended(lane)
    assert status == 124
    assert "is blind: no answer" in errors


def test_a_sensor_that_never_answered_refuses_the_start_soon(state: Box, sensors: Sensors) -> None:
    (sensors.overlay / "meminfo").unlink()
    os.mkfifo(sensors.overlay / "meminfo")
    before = time.monotonic()
    status, errors = ended(state.run("true", options=["--mem-abort-gib", "8"], env=sensors.environ))
    assert status == 125
    assert "did not answer" in errors
    assert time.monotonic() - before < 10


def test_the_shell_tools_variable_arms_the_floor(state: Box, sensors: Sensors) -> None:
    for name in ("GPU_HOLD_MEM_ABORT_GIB", "GPU_HOLD_MEM_ABORT_GB"):
        sensors.memory(1)
        environ = {**sensors.environ, name: "8", "GPU_HOLD_KILL_GRACE": "1"}
        assert ended(state.run("sleep", NAP, env=environ))[0] == 122
    assert ended(state.run("true", env={**sensors.environ, "GPU_HOLD_MEM_ABORT_GIB": "0"}))[0] == 0
    status, errors = ended(state.run("true", env={**sensors.environ, "GPU_HOLD_MEM_ABORT_GIB": "lots"}))
    assert status == 2
    assert "GPU_HOLD_MEM_ABORT_GIB" in errors


def test_guard_limits_and_contains_without_a_queue(box: Path, sensors: Sensors) -> None:
    line = [*HOLDTOP, "guard", "--mem-abort-gib", "8", "--grace", "1", "--"]
    quiet = subprocess.run([*line, "sh", "-c", "exit 3"], env=sensors.environ, timeout=20, check=False)
    assert quiet.returncode == 3
    guarded = subprocess.Popen([*line, "sh", "-c", f"setsid sleep {NAP} & sleep {NAP}"], env=sensors.environ)
    until(lambda: len(sleepers()) >= 2)
    threading.Timer(0.1, sensors.memory, (2.0,)).start()
    assert guarded.wait(20) == 122
    assert sleepers() == []
    assert list((box / "home").iterdir()) == [], "it holds nothing"


def test_what_is_armed_is_written_down(state: Box, sensors: Sensors) -> None:
    options = ["--mem-abort-gib", "8", "--tctl-abort", "95.5", "--max-hold", "2h"]
    lane = state.run("sleep", NAP, options=options, env=sensors.environ)
    state.until_running()
    taken = next(event for event in state.events() if event["event"] == "taken")
    assert taken["limits"] == {
        "grace": "10s",
        "survive-wait": "60s",
        "max-hold": "7200s",
        "mem-abort-gib": "8GiB",
        "tctl-abort": "95.5C",
    }
    lane.terminate()
    ended(lane)
