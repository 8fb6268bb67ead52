"""``gpu_metrics`` by the kernel's own structures: declared here in full, so that no offset is believed twice."""

from __future__ import annotations

import ctypes
import statistics
from collections.abc import Iterator
from ctypes import c_uint16 as u16
from ctypes import c_uint32 as u32
from ctypes import c_uint64 as u64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.sources import metrics
from tests.reading.machines import recorded

_HEAD: list[Any] = [("structure_size", u16), ("format_revision", ctypes.c_uint8), ("content_revision", ctypes.c_uint8)]


def _words(*names: str) -> list[Any]:
    return [(name, u16) for name in names]


#: kgd_pp_interface.h of the Linux kernel, struct gpu_metrics_vX_Y: every field in order.
_V1_3 = [
    *_words("temperature_edge", "hotspot", "mem", "vrgfx", "vrsoc", "vrmem"),
    *_words("gfx_activity", "umc_activity", "mm_activity", "socket_power"),
    ("energy", u64),
    ("clock_counter", u64),
    *_words(*(f"average_{clock}" for clock in ("gfxclk", "socclk", "uclk", "vclk0", "dclk0", "vclk1", "dclk1"))),
    *_words(*(f"current_{clock}" for clock in ("gfxclk", "socclk", "uclk", "vclk0", "dclk0", "vclk1", "dclk1"))),
    ("throttle_status", u32),
    *_words("fan_speed", "pcie_width", "pcie_speed", "padding"),
    ("gfx_activity_acc", u32),
    ("mem_activity_acc", u32),
    ("temperature_hbm", u16 * 4),
    ("firmware_timestamp", u64),
    *_words("voltage_soc", "voltage_gfx", "voltage_mem", "padding1"),
    ("indep_throttle_status", u64),
]
_V2_1 = [
    *_words("temperature_gfx", "temperature_soc"),
    ("temperature_core", u16 * 8),
    ("temperature_l3", u16 * 2),
    *_words("gfx_activity", "mm_activity"),
    ("clock_counter", u64),
    *_words("socket_power", "cpu_power", "soc_power", "gfx_power"),
    ("core_power", u16 * 8),
    *_words(*(f"average_{clock}" for clock in ("gfxclk", "socclk", "uclk", "fclk", "vclk", "dclk"))),
    *_words(*(f"current_{clock}" for clock in ("gfxclk", "socclk", "uclk", "fclk", "vclk", "dclk"))),
    ("coreclk", u16 * 8),
    ("l3clk", u16 * 2),
    ("throttle_status", u32),
    ("fan_pwm", u16),
    ("padding", u16 * 3),
]
_V2_2 = [*_V2_1, ("indep_throttle_status", u64)]
_V2_3 = [
    *_V2_2,
    *_words("average_temperature_gfx", "average_temperature_soc"),
    ("average_temperature_core", u16 * 8),
    ("average_temperature_l3", u16 * 2),
]
_V2_4 = [*_V2_3, ("voltages", u16 * 3), ("currents", u16 * 3)]
_V3_0 = [
    *_words("temperature_gfx", "temperature_soc"),
    ("temperature_core", u16 * 16),
    *_words("temperature_skin", "gfx_activity", "vcn_activity"),
    ("ipu_activity", u16 * 8),
    ("core_c0_activity", u16 * 16),
    *_words("dram_reads", "dram_writes", "ipu_reads", "ipu_writes"),
    ("clock_counter", u64),
    ("socket_power", u32),
    ("ipu_power", u16),
    *((name, u32) for name in ("apu_power", "gfx_power", "dgpu_power", "all_core_power")),
    ("core_power", u16 * 16),
    *_words("sys_power", "stapm_limit", "current_stapm_limit"),
    *_words("gfxclk", "socclk", "vpeclk", "ipuclk", "fclk", "vclk", "uclk", "mpipuclk"),
    ("coreclk", u16 * 16),
    *_words("core_maxfreq", "gfx_maxfreq"),
    *((f"residency_{of}", u32) for of in ("prochot", "spl", "fppt", "sppt", "thm_core", "thm_gfx", "thm_soc")),
    ("alpha", u32),
]
_APU = {
    "gpu_celsius": ("temperature_gfx", 100),
    "cpu_celsius": ("temperature_core", 100),
    "gpu_power_watts": ("socket_power", 1000),
}
_V2_SAID = {
    **_APU,
    "gpu_busy_percent": ("gfx_activity", 100),
    "gpu_clock_mhz": ("current_gfxclk", 1),
    "memory_clock_mhz": ("current_uclk", 1),
}
#: By revision: the size that was found in real tables, the fields, and what each reading is: a field and its unit.
KERNEL: dict[tuple[int, int], tuple[int, list[Any], dict[str, tuple[str, int]]]] = {
    (1, 3): (
        120,
        _V1_3,
        {
            "gpu_celsius": ("temperature_edge", 1),
            "gpu_busy_percent": ("gfx_activity", 1),
            "gpu_power_watts": ("socket_power", 1),
            "gpu_clock_mhz": ("current_gfxclk", 1),
            "memory_clock_mhz": ("current_uclk", 1),
        },
    ),
    (2, 1): (120, _V2_1, _V2_SAID),
    (2, 2): (128, _V2_2, _V2_SAID),
    (2, 3): (152, _V2_3, _V2_SAID),
    (2, 4): (168, _V2_4, _V2_SAID),
    (3, 0): (
        264,
        _V3_0,
        {
            **_APU,
            "gpu_busy_percent": ("gfx_activity", 1),
            "npu_busy_percent": ("ipu_activity", 1),
            "npu_power_watts": ("ipu_power", 1000),
            "gpu_clock_mhz": ("gfxclk", 1),
            "memory_clock_mhz": ("uclk", 1),
        },
    ),
}
#: A zero of these means that there is no figure: a running package draws power, has a clock and is not frozen.
NO_ZERO = {"gpu_celsius", "cpu_celsius", "gpu_power_watts", "gpu_clock_mhz", "memory_clock_mhz"}


def table(revision: tuple[int, int], fill: int = 0xFF) -> Any:
    """A table in which nothing is reported, to be filled in."""
    size, fields, _ = KERNEL[revision]
    layout: Any = type("Table", (ctypes.LittleEndianStructure,), {"_fields_": _HEAD + fields})
    assert ctypes.sizeof(layout) == size
    made = layout.from_buffer(bytearray([fill]) * size)
    made.structure_size, made.format_revision, made.content_revision = size, *revision
    return made


def numbers(value: Any) -> Iterator[int]:
    yield from (value,) if isinstance(value, int) else value


@pytest.mark.parametrize("revision", KERNEL)
def test_each_field_is_where_the_kernel_puts_it(revision: tuple[int, int]) -> None:
    for name, (field, per_unit) in KERNEL[revision][2].items():
        made = table(revision)
        if isinstance(getattr(made, field), int):
            setattr(made, field, 42 * per_unit)
        else:
            getattr(made, field)[:3] = [42 * per_unit] * 3
        found = metrics.decode(bytes(made))
        assert {key: reading.value for key, reading in found.items() if reading.value is not None} == {name: 42}


@pytest.mark.parametrize("revision", KERNEL)
@given(data=st.data())
def test_no_number_is_made_up(revision: tuple[int, int], data: st.DataObject) -> None:
    """Any bytes behind a good header: each value is what the kernel's field says, or there is none and a reason."""
    size, _, said = KERNEL[revision]
    small = st.sampled_from([b"\xff\xff", b"\0\0", b"\x2a\0", b"\x10\x27", b"\xff\x7f"])
    body = data.draw(st.one_of(st.binary(min_size=size), st.lists(small, min_size=size // 2).map(b"".join)))
    made = table(revision)
    raw = bytes(made)[:4] + body[4:size]
    made = type(made).from_buffer_copy(raw)
    for name, reading in metrics.decode(raw + body).items():
        assert (reading.value is None) != (reading.why is None)
        if reading.value is not None:
            field, per_unit = said[name]
            ones = 0xFFFFFFFF if (revision, field) == ((3, 0), "socket_power") else 0xFFFF
            real = [one for one in numbers(getattr(made, field)) if one != ones and (one or name not in NO_ZERO)]
            fold = statistics.fmean if name == "npu_busy_percent" else max
            assert reading.value == pytest.approx(fold(real) / per_unit)


@given(st.binary(max_size=400))
def test_any_bytes(data: bytes) -> None:
    known = {bytes(table(revision))[:4] for revision in KERNEL}
    for reading in metrics.decode(data).values():
        assert (reading.value is None) != (reading.why is None)
        assert reading.value is None or data[:4] in known


REAL = recorded("150e-strix-point").sys + "/class/drm/card1/device/gpu_metrics"


def test_what_cannot_be_used() -> None:
    with open(REAL, "rb") as file:
        data = file.read()
    cases = {
        "is empty": b"",
        "is cut short": data[:3],
        "is cut short: 263 of 264 bytes": data[:-1],
        "table of zeroes": bytes(264),
        "is a table of zeroes": data[:4] + bytes(4096),
        "revision 3.9 is not decoded": data[:3] + b"\x09" + data[4:],
        "revision 2.0 is not decoded": b"\x78\0\x02\0" + data[4:],
        "says it has 200 bytes, not the 264 of its revision": b"\xc8\0" + data[2:],
        "says 101, which is not plausible": data[:46] + b"\x65\0" + data[48:],
        "does not report it": data[:46] + b"\xff" * 16 + data[62:],
    }
    for why, bad in cases.items():
        reading = metrics.decode(bad)["npu_busy_percent"]
        assert reading.value is None
        assert why in (reading.why or ""), why
    assert metrics.decode(data + bytes(4096))["npu_busy_percent"].value == 0, "what follows the table is ignored"


def test_a_core_that_is_not_there_is_not_the_coldest() -> None:
    """One machine reports zeroes for all cores, another for those that it lacks, and neither means 0 degrees."""
    made = table((3, 0))
    made.temperature_core = type(made.temperature_core)(0, 5012, 0, 4800)
    assert metrics.decode(bytes(made))["cpu_celsius"].value == 50.12
    made.temperature_core = type(made.temperature_core)()
    assert metrics.decode(bytes(made))["cpu_celsius"].why == "gpu_metrics does not report it"
