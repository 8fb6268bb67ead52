"""Cards and NPUs: what they are, what is read of them in every weather, and what is never touched."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtop.model.values import Reading
from holdtop.sampler.devices import devices, first_known
from holdtop.sources import files, gpu, host
from holdtop.sources.cards import Card, find
from holdtop.sources.files import number
from holdtop.sources.roots import Roots
from tests.reading.machines import CAPTURES, KEPT, recorded, tree

APU = recorded("150e-strix-point").sys


def read(card: Card) -> dict[str, Reading]:
    return dict(first_known(reader() for _, reader in gpu.sources(card)))


@pytest.fixture
def apu(tmp_path: Path) -> Path:
    """The device's directory of a recorded APU whose files may be changed."""
    shutil.copytree(APU, tmp_path, dirs_exist_ok=True)
    return tmp_path / "class/drm/card1/device"


@pytest.mark.parametrize(
    "text", ["", "N/A\n", "12 34\n", "0x10\n", "9" * 20 + "\n", "-1\n", "\0", "1e3\n", "٣\n", "1\n2\n"]
)
def test_number_that_is_none(tmp_path: Path, text: str) -> None:
    reading = number(str(tree(tmp_path, {"mem_info": text}) / "mem_info"), files.BYTES)
    assert reading.value is None
    assert "mem_info" in (reading.why or "")


def test_half_a_number_is_none(tmp_path: Path) -> None:
    reading = number(str(tree(tmp_path, {"mem_info": "3946"}) / "mem_info"), files.BYTES)
    assert (reading.value, reading.why) == (None, "mem_info is cut short: its line has no end")


def test_number_with_padding(tmp_path: Path) -> None:
    assert number(str(tree(tmp_path, {"f": b"3\n" + bytes(4094)}) / "f"), files.PERCENT).value == 3


def test_a_directory_in_a_files_place_has_a_reason(tmp_path: Path) -> None:
    (tmp_path / "gpu_busy_percent").mkdir()
    reading = number(str(tmp_path / "gpu_busy_percent"), files.PERCENT)
    assert reading.value is None
    assert reading.why


def test_cards_are_keyed_by_address_and_apus_come_first(tmp_path: Path) -> None:
    """Synthetic: the recorded APU as card1 beside the recorded card of its own as card0."""
    for name in ("150e-strix-point", "dgpu-rx6900xt"):
        shutil.copytree(CAPTURES / name / "sys", tmp_path, dirs_exist_ok=True)
    tree(tmp_path / "class/drm", {"card0-DP-1/status": "connected\n", "card7/device/vendor": "0x8086\n"})
    assert [(card.kind, card.pci_address) for card in find(str(tmp_path))] == [
        ("apu", "0000:c1:00.0"),
        ("gpu", "0000:0c:00.0"),
    ]


def test_a_card_keeps_its_path_when_its_number_changes(tmp_path: Path) -> None:
    """Synthetic, as the kernel lays it out: the number is a link to the one directory of the device."""
    device = tree(tmp_path / "devices/pci0000:00/0000:c3:00.0", {"vendor": "0x1002\n"})
    found = []
    for name in ("card0", "card2"):
        node = device / "drm" / name
        node.mkdir(parents=True)
        (node / "device").symlink_to(device)
        (tmp_path / "class/drm").mkdir(parents=True)
        (tmp_path / "class/drm" / name).symlink_to(node)
        found += find(str(tmp_path))
        shutil.rmtree(tmp_path / "class")
    assert found[0] == found[1]
    assert found[0].pci_address == "0000:c3:00.0"


def test_chips_that_were_kept_without_their_card(tmp_path: Path) -> None:
    """Synthetic: a recording of chips alone, of an APU and of a card with a fan; then of a card beside its chip."""
    chips = {"hwmon3": ("amdgpu\n", "45000\n"), "hwmon4": ("amdgpu\n", "61000\n"), "hwmon5": ("k10temp\n", "1000\n")}
    for chip, (name, celsius) in chips.items():
        tree(tmp_path / "class/hwmon" / chip, {"name": name, "temp1_input": celsius})
    tree(tmp_path / "class/hwmon/hwmon4", {"fan1_input": "900\n"})
    found = find(str(tmp_path))
    assert [(card.kind, card.pci_address, read(card)["gpu_celsius"].value) for card in found] == [
        ("apu", "unknown-hwmon3", 45),
        ("gpu", "unknown-hwmon4", 61),
    ]
    shutil.rmtree(tmp_path / "class/hwmon/hwmon4")
    tree(tmp_path / "class/drm/card1/device", {"mem_info_gtt_used": "1048576\n"})
    (card,) = find(str(tmp_path))
    assert (card.pci_address, read(card)["gpu_celsius"].value) == ("unknown-card1", 45)
    assert read(card)["gtt_used_bytes"].value == 1048576
    tree(tmp_path / "class/drm/card2/device", {"mem_info_gtt_used": "1048576\n"})
    assert {read(card)["gpu_celsius"].why for card in find(str(tmp_path))} == {"no sensor chip amdgpu"}, "whose is it?"


def test_accelerators_of_others_are_no_npu(tmp_path: Path) -> None:
    """Synthetic: one of another vendor, and one on no PCI bus at all."""
    tree(tmp_path / "class/accel", {"accel0/device/vendor": "0x8086\n", "accel1/device/uevent": "DRIVER=rocket\n"})
    assert find(str(tmp_path)) == []
    shutil.copytree(KEPT / "npu-phoenix/sys", tmp_path, dirs_exist_ok=True)
    assert [(card.kind, card.pci_address) for card in find(str(tmp_path))] == [("npu", "unknown-accel0")]


def test_kfd_decides_what_a_card_is(apu: Path, tmp_path: Path) -> None:
    """Synthetic: a card that looks like an APU's by its files, and has memory of its own by KFD."""
    properties = tmp_path / "class/kfd/kfd/topology/nodes/1/properties"
    text = properties.read_text()
    assert "local_mem_size 0" in text
    properties.write_text(text.replace("local_mem_size 0", "local_mem_size 17163091968"))
    assert [card.kind for card in find(str(tmp_path))] == ["gpu"]


@settings(max_examples=40)
@given(st.binary(max_size=200), st.sampled_from(["domain", "location_id", "local_mem_size", "simd_count"]))
def test_cards_of_any_bytes(data: bytes, key: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        kfd = "class/kfd/kfd/topology/nodes/1/properties"
        nodes: dict[str, str | bytes] = {
            "vendor": b"0x1002\n",
            "uevent": b"PCI_SLOT_NAME=" + data,
            "hwmon/hwmon1/name": data,
        }
        tree(Path(root), {f"class/drm/card0/device/{name}": text for name, text in nodes.items()})
        tree(
            Path(root), {kfd: b"simd_count 4\nlocation_id 1\n" + key.encode() + b" " + data, "class/accel/accel0": data}
        )
        (card,) = find(root)
        assert re.fullmatch(r"unknown-card0|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", card.pci_address)


TRAPS = ("gpu_busy_percent", "gpu_metrics", "pp_dpm_mclk", "hwmon/hwmon6/power1_average", "hwmon/hwmon6/temp1_input")


@pytest.mark.parametrize("status", ["suspended", "suspending"])
def test_a_suspended_card_is_not_woken(apu: Path, tmp_path: Path, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters of memory are read; of what asks the card itself no file is so much as opened."""
    assert all((apu / name).exists() for name in TRAPS)
    (card,) = find(str(tmp_path))
    tree(apu, {"power/runtime_status": f"{status}\n"})
    opened: list[str] = []

    def watched(path: str, *how: Any, **more: Any) -> Any:
        opened.append(path)
        return open(path, *how, **more)

    monkeypatch.setattr(files, "open", watched, raising=False)
    found = read(card)
    assert {os.path.relpath(path, apu) for path in opened} == {
        "power/runtime_status",
        *(f"mem_info_{name}" for name in ("gtt_used", "gtt_total", "vram_used", "vram_total")),
        *(f"mem_info_{name}" for name in ("vis_vram_used", "vis_vram_total", "preempt_used")),
    }
    assert {name for name, reading in found.items() if reading.value is not None} == {
        name for name in found if name.endswith("_bytes")
    }
    assert {reading.why for reading in found.values() if reading.value is None} == {
        "the device is suspended and is not woken for a reading"
    }


def test_the_recorded_suspended_card(tmp_path: Path) -> None:
    """As published: the counters can be read. Their values, the vendor and what must not be read are synthetic."""
    shutil.copytree(KEPT / "dgpu-suspended/sys", tmp_path, dirs_exist_ok=True)
    device = tmp_path / "class/drm/card0/device"
    tree(
        device,
        {"vendor": "0x1002\n", "mem_info_vram_used": "5\n", "gpu_busy_percent": "9\n", "mem_busy_percent": "1\n"},
    )
    (card,) = find(str(tmp_path))
    found = read(card)
    assert (card.kind, found["vram_used_bytes"].value, found["gpu_busy_percent"].value) == ("gpu", 5, None)


@pytest.mark.parametrize("code", sorted(errno.errorcode))
def test_every_error_of_a_read_is_a_reason(
    apu: Path, tmp_path: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (card,) = find(str(tmp_path))
    npu = Card("0000:c4:00.1", "npu", card.path, card.chips)

    def fails(path: str, *_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(files, "open", fails, raising=False)
    roots = Roots(str(tmp_path), str(tmp_path))
    found = [*read(card).values(), *read(npu).values(), host.tctl(roots.sys)]
    found += [*host.memory(roots).values(), *host.pressure(roots).values(), *host.ttm(roots.sys).values()]
    assert [(reading.value, reading.why) for reading in found if reading.value is not None or not reading.why] == []
    assert [card.kind for card in find(str(tmp_path))] == ["apu"], "known by its files' names"


#: What each of these means was reported from a machine: C and the chip.
MEANINGS = {
    errno.EBUSY: "busy (a suspended card, or a reset)",
    errno.EPERM: "refused by the driver (a suspended card, or a reset)",
    errno.EOPNOTSUPP: "not supported by this device",
    errno.EINVAL: "not supported by this device",
    errno.ENODEV: "gone",
    errno.EACCES: "may not be read by this account",
}


@pytest.mark.parametrize("code", MEANINGS)
def test_an_error_is_told_in_words(code: int) -> None:
    assert MEANINGS[code] in files.why(OSError(code, os.strerror(code)), "/sys/class/drm/card1/device/gpu_busy_percent")


def test_where_the_busy_file_fails_the_table_says_it(apu: Path, tmp_path: Path) -> None:
    """And where that reports nothing either, the file's own reason stands."""
    (apu / "gpu_busy_percent").unlink()
    (card,) = find(str(tmp_path))
    assert (read(card)["gpu_busy_percent"].value, read(card)["gpu_busy_percent"].source) == (3, f"{apu}/gpu_metrics")
    (apu / "gpu_metrics").unlink()
    assert read(card)["gpu_busy_percent"].why == "gpu_busy_percent is not there"


CLOCKS = {
    "0: 400Mhz *\n1: 800Mhz \n": 400,
    "0: 687Mhz *\n1: 687Mhz *\n": 687,
    "S: 96Mhz\n4: 1124Mhz *\n" + "\0" * 100: 1124,
    "0: 400Mhz \n1: 800Mhz \n": None,
    "0: 400Mhz *\n1: 800Mhz *\n": None,
    "0: 400Mhz *\n1: 80": 400,
    "\n": None,
    "0: 99999Mhz *\n": None,
}


@pytest.mark.parametrize("text", CLOCKS)
def test_the_memory_clock_is_the_one_that_is_marked(apu: Path, tmp_path: Path, text: str) -> None:
    (apu / "gpu_metrics").unlink()
    tree(apu, {"pp_dpm_mclk": text})
    (card,) = find(str(tmp_path))
    assert read(card)["memory_clock_mhz"].value == CLOCKS[text]


@given(st.one_of(st.binary(max_size=60), st.text(alphabet="0123456789: Mhz*-\n\0", max_size=60).map(str.encode)))
def test_any_bytes_in_every_file_of_a_card(data: bytes) -> None:
    """No crash, and no number that does not stand in the bytes."""
    names = ("power1_average", "power1_input", "temp1_input", "freq1_input")
    device = dict.fromkeys(("gpu_busy_percent", "mem_info_gtt_used", "pp_dpm_mclk", "power/runtime_status"), data)
    device |= {f"hwmon/hwmon1/{name}": data for name in names} | {"hwmon/hwmon1/name": b"amdgpu\n", "gpu_metrics": data}
    with tempfile.TemporaryDirectory() as root:
        tree(Path(root), device)
        found = read(Card("0000:c1:00.0", "apu", root, f"{root}/hwmon"))
    written = {int(digits) for digits in re.findall(rb"[0-9]+", data)}
    for name, reading in found.items():
        assert (reading.value is None) != (reading.why is None)
        scale = 1_000_000 if name in ("gpu_power_watts", "gpu_clock_mhz") else 1000 if name == "gpu_celsius" else 1
        assert reading.value is None or round(reading.value * scale) in written, name


NPU = Card("0000:c4:00.1", "npu", "/npu", "/npu/hwmon")
CARD = Card("0000:c3:00.0", "apu", "/apu", "/apu/hwmon")


def test_what_an_npu_does_not_say_the_table_of_its_apu_does() -> None:
    own = {"npu_power_watts": Reading(why="no sensor chip amdxdna"), "npu_celsius": Reading(50)}
    table = {
        "npu_power_watts": Reading(2.5, source="gpu_metrics"),
        "npu_busy_percent": Reading(40),
        "gpu_celsius": Reading(60),
    }
    card, npu = devices({CARD: table, NPU: own})
    assert {name: reading.value for name, reading in npu.readings.items()} == {
        "npu_power_watts": 2.5,
        "npu_celsius": 50,
        "npu_busy_percent": 40,
    }
    assert (card.kind, card.readings, npu.kind, npu.resource) == ("apu", table, "npu", "npu")


def test_an_npu_with_sensors_of_its_own(tmp_path: Path) -> None:
    """Synthetic: hwmon of amdxdna as its source prints it, on Linux 7."""
    chip = {"name": "amdxdna\n", "power1_input": "1250000\n", "power1_label": "NPU_power\n", "temp1_input": "47000\n"}
    tree(tmp_path / "hwmon/hwmon8", chip)
    found = read(Card("0000:c4:00.1", "npu", str(tmp_path), str(tmp_path / "hwmon")))
    assert {name: reading.value for name, reading in found.items()} == {"npu_power_watts": 1.25, "npu_celsius": 47}
