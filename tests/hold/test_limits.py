"""Limits on sensors: bad values in a row end the tree, one does not, and a blind guard is never a silent one."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.sources import host
from holdtop.sources.roots import Roots
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, sleepers, until
from tests.hold.sensors import Sensors


def warnings(state: Box) -> list[str]:
    return [event["text"] for event in state.events() if event["event"] == "warned"]


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
    until(lambda: warnings(state))
    assert lane.poll() is None
    sensors.heat(96.5)
    status, errors = ended(lane)
    assert status == 123
    assert "Tctl 96.5 C" in errors
    (blind, *_) = warnings(state)
    assert "blind: temp2_input says 65273, which is not plausible" in blind


def test_a_sensor_that_moves_is_found_again(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--tctl-abort", "95", "--grace", "1"], env=sensors.environ)
    state.until_running()
    sensors.chip.rename(sensors.chip.with_name("hwmon7"))
    sensors.chip = sensors.chip.with_name("hwmon7")
    sensors.heat(97)
    assert ended(lane)[0] == 123


def test_a_sensor_that_vanishes_is_said_and_ends_nothing(state: Box, sensors: Sensors) -> None:
    lane = state.run("sleep", NAP, options=["--mem-abort-gib", "8", "--max-hold", "9"], env=sensors.environ)
    state.until_running()
    (sensors.overlay / "meminfo").write_text("MemTotal: 1 kB\n")
    status, errors = ended(lane)
    assert status == 124
    assert errors.count("is blind") == 1


@pytest.mark.parametrize(
    "fault",
    [
        "",
        "garbage",
        "MemTotal: 8 kB\n",
        "MemTotal: 131072000 kB\nMemAvailable: -1 kB\n",
        "MemTotal: 131072000 kB\nMemAvailable: 131072001 kB\n",
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n",
        "x" * 10_000_000,
        Path("/proc/self/mem"),  # EIO
        Path("/"),  # EISDIR
        Path("/nowhere"),
    ],
)
def test_memory_that_cannot_be_is_unknown(sensors: Sensors, fault: str | Path) -> None:
    """Neither little nor plenty: every limit would act on it."""
    meminfo = sensors.overlay / "meminfo"
    meminfo.unlink()
    meminfo.write_text(fault) if isinstance(fault, str) else meminfo.symlink_to(fault)
    reading = host.memory(Roots(overlay=str(sensors.overlay)))["mem_available_bytes"]
    assert reading.value is None
    assert reading.why


@pytest.mark.parametrize("limit", [["--tctl-abort", "95"], ["--tctl-pause", "90"], ["--mem-abort-gib", "8"]])
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
    options = ["--mem-abort-gib", "8", "--tctl-abort", "95.5", "--tctl-pause", "90", "--max-hold", "2h"]
    lane = state.run("sleep", NAP, options=options, env=sensors.environ)
    state.until_running()
    taken = next(event for event in state.events() if event["event"] == "taken")
    assert taken["limits"] == {
        "grace": "10s",
        "survive-wait": "60s",
        "max-hold": "7200s",
        "mem-abort-gib": "8GiB",
        "tctl-abort": "95.5C",
        "tctl-pause": "90C",
    }
    (record,) = state.documents(".record")
    tctl = str(sensors.chip / "temp2_input")
    assert record["sensors"] == {
        "mem-abort-gib": str(sensors.overlay / "meminfo"),
        "tctl-abort": tctl,
        "tctl-pause": tctl,
    }
    lane.terminate()
    ended(lane)


@pytest.fixture
def frozen_threads() -> Iterator[Path]:
    """A v1 freezer's list of threads: a frozen one is ended by nothing, like one that is stuck in a driver."""
    freezer = Path("/sys/fs/cgroup/freezer")
    if os.geteuid() != 0 or not (freezer / "cgroup.procs").exists():
        pytest.skip("needs root: freezes a thread with the v1 freezer")
    made = freezer / f"holdtop-test-{os.getpid()}-{time.monotonic_ns()}"
    made.mkdir()
    (made / "freezer.state").write_text("FROZEN")
    yield made / "tasks"
    (made / "freezer.state").write_text("THAWED")
    until(lambda: not (made / "tasks").read_text())
    made.rmdir()


@pytest.mark.parametrize("killed", [False, True])
def test_a_thread_that_nothing_ends_keeps_no_hold(
    state: Box, sensors: Sensors, frozen_threads: Path, killed: bool
) -> None:
    options = ["--mem-abort-gib", "8", "--max-hold", "6", "--grace", "1", "--survive-wait", "3"]
    # A killed process closes nothing before its last thread is gone: its pipes would stay open.
    where = {"stderr": subprocess.DEVNULL} if killed else {}
    lane = state.run("sleep", NAP, options=options, env=sensors.environ, **where)
    keeper = state.until_running()["keeper_pid"]

    def sampling() -> set[int] | None:
        threads = {int(tid) for tid in os.listdir(f"/proc/{keeper}/task")} - {keeper}
        return threads if len(threads) == 1 else None  # the meter's ends at once: there is no card

    (thread,) = until(sampling)
    frozen_threads.write_text(str(thread))
    if killed:
        os.kill(keeper, signal.SIGKILL)
    status, errors = ended(lane, 40)
    assert status == (125 if killed else 124), errors
    assert sleepers() == []
    assert state.leftovers() == []
