"""Looking never waits for a read that hangs, and no thread joins another one there."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdtop.model.values import Snapshot
from holdtop.sampler import Sampler, look_once
from holdtop.sampler.looks import look_all
from holdtop.sampler.source import Source
from holdtop.sources.roots import Roots
from tests.hold.lanes import until
from tests.reading.machines import fdinfo, recorded


@pytest.fixture
def machine(tmp_path: Path) -> Roots:
    """A copy of the recorded APU whose files may be changed, with the live process table."""
    shutil.copytree(recorded("150e-strix-point").sys, tmp_path / "sys")
    return Roots(sys=str(tmp_path / "sys"))


@pytest.fixture
def stuck(machine: Roots) -> Iterator[str]:
    """``gpu_busy_percent`` is a FIFO: its reader hangs until somebody writes. Let go in the end."""
    path = f"{machine.sys}/class/drm/card1/device/gpu_busy_percent"
    os.unlink(path)
    os.unlink(path.replace("gpu_busy_percent", "gpu_metrics"))  # or the table would say it
    os.mkfifo(path)
    yield path
    let_go(path)


def let_go(path: str) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return  # nobody reads
    os.write(fd, b"7\n")
    os.close(fd)


#: Those that ran before: a read that hung in another file's test may have left its box behind.
earlier: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def _know_earlier() -> None:
    earlier.clear()
    earlier.update(threading.enumerate())


def own_threads() -> list[str]:
    found = set(threading.enumerate()) - earlier
    return sorted(thread.name for thread in found if thread.name.startswith("holdtop"))


def no_thread_is_left(roots: Roots, state_dir: Path) -> None:
    """A look in which nothing hangs lets them go; on a busy machine one may be late for it."""

    def gone() -> bool:
        look_once(state_dir=str(state_dir), roots=roots)
        ends = time.monotonic() + 5
        while own_threads() and time.monotonic() < ends:
            time.sleep(0.02)
        return not own_threads()

    until(gone, 30)


def run(sampler: Sampler, enough: Callable[[], bool]) -> None:
    sampler.start()
    until(enough)
    sampler.stop()


def test_one_look(machine: Roots, tmp_path: Path) -> None:
    snapshot = look_once(state_dir=str(tmp_path), roots=machine)
    assert snapshot.readings["gpu_busy_percent"].value == 3
    assert snapshot.roots == (f"HOLDTOP_SYS={machine.sys}",)
    until(lambda: not own_threads(), 5)


def test_a_look_without_sensors_reads_none(machine: Roots, stuck: str, tmp_path: Path) -> None:
    began = time.monotonic()
    snapshot = look_once(state_dir=str(tmp_path), roots=machine, sensors=False, deadline=30)
    assert time.monotonic() - began < 10
    assert {reading.why for reading in snapshot.readings.values()} == {"no sensor was asked"}
    assert snapshot.resources[0].state == "free"


def test_a_hanging_read_is_a_timeout_and_no_second_thread_joins_it(machine: Roots, stuck: str, tmp_path: Path) -> None:
    threads = []
    for _ in range(3):
        began = time.monotonic()
        snapshot = look_once(state_dir=str(tmp_path), roots=machine, deadline=0.6)
        assert time.monotonic() - began < 10
        assert (snapshot.readings["gpu_busy_percent"].why or "").startswith("timeout")
        assert snapshot.readings["gtt_used_bytes"].value == 3946811392, "the others answered"
        threads.append(own_threads())
    assert threads[1] == threads[0] == threads[2]
    let_go(stuck)
    until(lambda: look_once(state_dir=str(tmp_path), roots=machine).readings["gpu_busy_percent"].value == 7)
    os.unlink(stuck)
    Path(stuck).write_text("8\n")
    assert look_once(state_dir=str(tmp_path), roots=machine).readings["gpu_busy_percent"].value == 8


def test_a_sampler_goes_on_while_a_read_hangs(machine: Roots, stuck: str, tmp_path: Path) -> None:
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=str(tmp_path), roots=machine, refresh=0.1, on_snapshot=seen.append)
    run(sampler, lambda: len(seen) > 5)
    assert (seen[-1].readings["gpu_busy_percent"].why or "").startswith("timeout")
    assert seen[-1].readings["gtt_used_bytes"].value == 3946811392
    assert sum(name == "holdtop gpu_busy_percent" for name in own_threads()) == 1
    let_go(stuck)
    until(lambda: not own_threads(), 5)


def test_a_value_that_hangs_grows_old(machine: Roots, tmp_path: Path) -> None:
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=str(tmp_path), roots=machine, refresh=0.1, on_snapshot=seen.append)
    path = f"{machine.sys}/class/drm/card1/device/gpu_busy_percent"
    sampler.start()
    until(lambda: bool(seen) and seen[-1].readings["gpu_busy_percent"].value == 3)
    os.mkfifo(path + ".new")
    os.rename(path + ".new", path)

    def age() -> float:
        at = seen[-1].readings["gpu_busy_percent"].at
        assert at is not None
        return seen[-1].at - at

    until(lambda: age() > 0.8)
    assert seen[-1].readings["gpu_busy_percent"].value == 3
    gtt = seen[-1].readings["gtt_used_bytes"].at
    assert gtt is not None
    assert seen[-1].at - gtt < 0.5
    sampler.stop()
    let_go(path)


def test_stopping_returns_at_once(machine: Roots, stuck: str, tmp_path: Path) -> None:
    sampler = Sampler(state_dir=str(tmp_path), roots=machine, refresh=30)
    sampler.start()
    until(lambda: sampler.newest)
    began = time.monotonic()
    sampler.stop()
    assert time.monotonic() - began < 10
    let_go(stuck)
    until(lambda: not own_threads(), 5)


def test_a_card_that_comes_and_goes(machine: Roots, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It gets another number and another value: readings follow, keyed by the address."""
    monkeypatch.setattr("holdtop.sampler.box.CARDS_PERIOD", 0.0)
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=str(tmp_path), roots=machine, refresh=0.1, on_snapshot=seen.append)
    sampler.start()
    until(lambda: bool(seen) and seen[-1].readings["gtt_used_bytes"].value == 3946811392)
    drm = Path(machine.sys, "class/drm")
    (drm / "card1").rename(drm / "card2")
    (drm / "card2/device/mem_info_gtt_used").write_text("5000000\n")
    until(lambda: seen[-1].readings["gtt_used_bytes"].value == 5000000)
    assert seen[-1].device == "0000:c1:00.0"
    shutil.rmtree(drm / "card2")
    until(lambda: seen[-1].readings["gtt_used_bytes"].why == "no AMD GPU was found")
    assert seen[-1].devices == ()
    sampler.stop()


def test_a_card_that_comes_and_goes_while_a_read_of_it_hangs(
    machine: Roots, stuck: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The read that hangs is the card's own when it is back: no second one joins it."""
    monkeypatch.setattr("holdtop.sampler.box.CARDS_PERIOD", 0.0)
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=str(tmp_path), roots=machine, refresh=0.1, on_snapshot=seen.append)
    sampler.start()
    drm = Path(machine.sys, "class/drm")
    for _ in range(3):
        until(lambda: bool(seen) and "timeout" in (seen[-1].readings["gpu_busy_percent"].why or ""))
        (drm / "card1").rename(drm / "away")
        until(lambda: seen[-1].devices == ())
        assert own_threads().count("holdtop gpu_busy_percent") == 1
        (drm / "away").rename(drm / "card1")
    until(lambda: seen[-1].devices)
    assert own_threads().count("holdtop gpu_busy_percent") == 1
    let_go(stuck)
    until(lambda: seen[-1].readings["gpu_busy_percent"].value == 7)
    sampler.stop()

    def all_ended() -> bool:
        let_go(stuck)
        return not own_threads()

    until(all_ended, 5)


def test_a_source_reads_no_more_often_than_its_period() -> None:
    reads: list[float] = []
    source = Source("test", lambda: reads.append(time.monotonic()), period=0.3)
    for _ in range(10):
        source.ask()
        source.wait(time.monotonic() + 1)
    assert len(reads) == 1
    source.hurry()
    source.ask()
    source.wait(time.monotonic() + 1)
    assert len(reads) == 2
    source.close()


@pytest.mark.parametrize("file", ["uptime", "sys/kernel/random/boot_id", "meminfo", "1/stat"])
def test_whatever_hangs_of_a_recording_holds_nobody_up(tmp_path: Path, file: str) -> None:
    path = tmp_path / "proc" / file
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    roots = Roots(str(tmp_path), str(tmp_path / "proc"))
    began = time.monotonic()
    snapshot = look_once(state_dir=str(tmp_path), roots=roots, deadline=0.5)
    assert time.monotonic() - began < 5
    assert (snapshot.boot_id, snapshot.resources[0].state) == (None, "free")
    gone = path.rename(path.with_name("gone"))
    let_go(str(gone))
    no_thread_is_left(roots, tmp_path)


#: By file of the card or of a chip: the readings that are lost when it hangs, on a machine where some have a second
#: source in ``gpu_metrics``.
OF_FILE: dict[str, set[str]] = {
    "class/drm/card1/device/mem_info_gtt_used": {"gtt_used_bytes"},
    "class/drm/card1/device/mem_info_vram_total": {"vram_total_bytes"},
    "class/drm/card1/device/gpu_metrics": {"cpu_celsius", "memory_clock_mhz", "npu_busy_percent", "npu_power_watts"},
    "class/drm/card1/device/hwmon/hwmon6/power1_average": set(),
    "class/drm/card1/device/hwmon/hwmon6/name": set(),
}


@pytest.mark.parametrize("file", OF_FILE)
def test_a_file_that_hangs_takes_its_own_readings_and_no_others(machine: Roots, tmp_path: Path, file: str) -> None:
    whole = look_once(state_dir=str(tmp_path), roots=machine, deadline=20).readings
    path = Path(machine.sys) / file
    path.unlink()
    os.mkfifo(path)
    moved = Path(machine.sys).rename(tmp_path / "moved")  # or what was read before would be shown, grown old
    left = look_once(state_dir=str(tmp_path), roots=Roots(sys=str(moved)), deadline=2).readings
    lost = {name for name, reading in whole.items() if reading.value is not None and left[name].value is None}
    assert lost == OF_FILE[file]
    assert not any((reading.source or "").endswith(file) for reading in left.values() if reading.value is not None)
    let_go(str(moved / file))
    (moved / file).unlink()
    no_thread_is_left(Roots(sys=str(moved)), tmp_path)


def test_a_descriptor_that_hangs_leaves_owners_unknown_and_then_old(machine: Roots, tmp_path: Path) -> None:
    path = tmp_path / "overlay" / str(os.getpid()) / "fdinfo" / "9"
    path.parent.mkdir(parents=True)
    path.write_text(fdinfo(7, "0000:c1:00.0", resident_gtt="1024 KiB"))
    roots = Roots(machine.sys, overlay=str(tmp_path / "overlay"))
    seen: list[Snapshot] = []
    sampler = Sampler(state_dir=str(tmp_path), roots=roots, refresh=0.1, device_refresh=0.1, on_snapshot=seen.append)
    sampler.start()
    until(lambda: bool(seen) and seen[-1].memory.other_bytes == 1 << 20)
    os.mkfifo(path.with_name("next"))
    path.with_name("next").rename(path)
    until(lambda: seen[-1].at - (seen[-1].memory.scanned_at or 0) > 3, 20)
    assert seen[-1].memory.other_bytes == 1 << 20, "old, and shown as that"
    asked_now = look_once(state_dir=str(tmp_path), roots=roots, deadline=0.5).memory
    assert (asked_now.other_bytes, asked_now.scanned_at) == (None, None)
    assert "timeout" in asked_now.unavailable["other_bytes"]
    sampler.stop()
    let_go(str(path))  # both of them
    path.unlink()
    no_thread_is_left(roots, tmp_path)


@pytest.mark.parametrize("file", ["properties", "gpu_id"])
def test_kfd_hangs_alone(machine: Roots, tmp_path: Path, file: str) -> None:
    path = Path(machine.sys) / "class/kfd/kfd/topology/nodes/1" / file
    path.unlink()
    os.mkfifo(path)
    snapshot = look_once(state_dir=str(tmp_path), roots=machine, deadline=3)
    assert [(device.pci_address, device.kind) for device in snapshot.devices] == [("0000:c1:00.0", "apu")]
    assert snapshot.readings["gtt_used_bytes"].value is not None
    assert snapshot.memory.scanned_at is not None
    let_go(str(path))
    path.unlink()
    no_thread_is_left(machine, tmp_path)


def test_half_a_place_is_said(tmp_path: Path) -> None:
    (look,) = look_all(None, None, {"GPU_QUEUE_DIR": str(tmp_path / "q"), "HOME": str(tmp_path)})
    assert look.half_named
    assert "GPU_TOKEN_FILE is not" in (look.problem or "")


def test_a_second_queue_that_lives_is_found(tmp_path: Path) -> None:
    home, shared = tmp_path / "home", tmp_path / "shared"
    home.mkdir()
    shared.mkdir()
    environ = {"ONEBIT_HOLD_DIR": str(shared), "HOME": str(home)}
    assert [look.elsewhere for look in look_all(None, None, environ)] == [()]
    (home / "GPU-TOKEN").write_text("lane 1234 2026-01-01T00:00:00Z\n")
    (look,) = look_all(None, None, environ)
    assert [(other.rule, other.token_path) for other in look.elsewhere] == [("home", str(home / "GPU-TOKEN"))]
    assert look_all(None, str(shared), environ)[0].elsewhere == (), "a named directory is meant to be apart"


def test_places_are_resolved_again_at_each_tick(tmp_path: Path, box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    monkeypatch.setattr("holdtop.hold.places.DEFAULT_STATE_DIR", str(shared))
    seen: list[Snapshot] = []
    sampler = Sampler(refresh=0.1, on_snapshot=seen.append, sensors=False)
    sampler.start()
    until(lambda: bool(seen) and seen[-1].resources[0].rule == "home")
    shared.mkdir()
    until(lambda: seen[-1].resources[0].rule == "default-state-dir")
    sampler.stop()
