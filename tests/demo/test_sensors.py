"""The moving sensors: one ledger, whatever moves, and nothing left of processes that are gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdtop.cli import demo
from holdtop.demo.sensors import SCAN_OUT, Sensors
from holdtop.demo.world import World
from holdtop.hold import places

POOL = 64 * 1024**3


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(str(tmp_path))
    device = world.sys / "class/drm/card1/device"
    device.mkdir(parents=True)
    world.overlay.mkdir()
    (device / "mem_info_gtt_total").write_text(f"{POOL}\n")
    (device / "uevent").write_text("DRIVER=amdgpu\nPCI_SLOT_NAME=0000:c4:00.0\n")
    return world


def number(path: Path) -> int:
    return int(path.read_text())


def resident(world: World, pid: int) -> int:
    text = (world.overlay / str(pid) / "fdinfo" / "99").read_text()
    assert "drm-pdev:\t0000:c4:00.0\n" in text
    found = re.search(r"^drm-resident-gtt:\t(\d+) KiB$", text, re.M)
    assert found is not None
    return int(found[1]) * 1024


def test_used_is_what_the_processes_have_and_the_scan_out(world: World) -> None:
    sensors = Sensors(world)
    for now in (100.0, 103.0, 120.0):
        sensors.move({10: 0.5, 11: 0.1}, busy=True, now=now)
        used = number(world.sys / "class/drm/card1/device/mem_info_gtt_used")
        assert used == resident(world, 10) + resident(world, 11) + SCAN_OUT
    assert resident(world, 10) == POOL // 2
    assert (world.overlay / "10/fd/99").readlink() == Path("/dev/dri/renderD128")


def test_memory_that_is_used_is_not_available(world: World) -> None:
    sensors = Sensors(world)

    def available() -> int:
        found = re.search(r"^MemAvailable: +(\d+) kB$", (world.overlay / "meminfo").read_text(), re.M)
        assert found is not None
        return int(found[1])

    sensors.move({10: 0.25}, busy=False, now=0.0)
    before = available()
    sensors.move({10: 0.25, 11: 0.5}, busy=True, now=1.0)
    assert available() == before
    sensors.move({10: 0.25, 11: 0.5}, busy=True, now=2.0)
    assert before > available() > before - POOL // 2 // 1024
    sensors.move({10: 0.25, 11: 0.5}, busy=True, now=60.0)
    assert before - available() == POOL // 2 // 1024


def test_the_dead_are_forgotten(world: World) -> None:
    sensors = Sensors(world)
    sensors.move({10: 0.5, 11: 0.1}, busy=True, now=0.0)
    sensors.move({11: 0.1}, busy=True, now=1.0)
    assert not (world.overlay / "10").exists()
    assert (world.overlay / "11").exists()
    assert (world.overlay / "meminfo").exists()


def test_load_moves_busy_power_and_heat(world: World) -> None:
    sensors = Sensors(world)
    device = world.sys / "class/drm/card1/device"

    def settled(busy: bool) -> tuple[int, int, int]:
        for second in range(120):
            sensors.move({}, busy=busy, now=float(second))
        return (
            number(device / "gpu_busy_percent"),
            number(device / "hwmon/hwmon9/power1_average"),
            number(world.sys / "class/hwmon/hwmon9/temp1_input"),
        )

    idle, loaded = settled(False), settled(True)
    assert all(high > low for high, low in zip(loaded, idle, strict=True))
    assert 60 <= loaded[0] <= 100
    assert 60_000 <= loaded[2] <= 100_000


def test_a_box_without_hardware_or_state_has_nothing_to_watch(tmp_path: Path) -> None:
    sysfs = tmp_path / "sys"
    assert "no AMD" in str(demo.nothing_to_watch(str(sysfs)))
    device = sysfs / "class/drm/card0/device"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x8086\n")
    assert "no AMD" in str(demo.nothing_to_watch(str(sysfs)))
    (device / "vendor").write_text("0x1002\n")
    assert demo.nothing_to_watch(str(sysfs)) == "nothing was ever held here"
    places.ensure(places.resolve("gpu")).close()
    assert demo.nothing_to_watch(str(sysfs)) is None
