"""Parsers: right on what kernels write, silent on what they do not, and never a number that was not there."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.model.raw import Client
from holdtop.sources import fdinfo, host
from holdtop.sources.processes import parse_stat
from holdtop.sources.roots import Roots
from tests.reading.machines import stat_line, tree

NAMES = ("a) R 1 1 (b", "x)", ") ", "two words", "line\nline", "\x1b[2J", "", "((", "tab\tname")


@pytest.mark.parametrize("name", NAMES)
def test_stat_of_a_hostile_name(name: str) -> None:
    stat = parse_stat(stat_line(77, 5, name, state="D", start=4321).encode())
    assert (stat.pid, stat.ppid, stat.name, stat.state, stat.start_ticks) == (77, 5, name, "D", 4321)
    assert stat.cpu_ticks == 300
    assert stat.rss_bytes == 512 * 4096


def test_stat_of_a_name_that_is_no_utf8() -> None:
    stat = parse_stat(stat_line(77, 5, "N").encode().replace(b"N", b"\xff\x1b"))
    assert stat.name.encode("utf-8", "surrogateescape") == b"\xff\x1b"


@given(st.integers(0, 120), st.integers(0, 120), st.binary(max_size=8))
def test_stat_of_damaged_lines(start: int, length: int, put: bytes) -> None:
    whole = stat_line(77, 5, "x").encode()
    data = whole[:start] + put + whole[start + length :]
    try:
        stat = parse_stat(data)
    except ValueError:
        return
    fields = [int(part) for part in re.findall(rb"[0-9]+", data)]
    assert stat.start_ticks in fields
    assert stat.pid in fields


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("25258000 KiB", 25258000 * 1024),
        ("3 MiB", 3 * 1024**2),
        ("1073741824", 1073741824),
        ("0", 0),
        ("512 kB", 512 * 1024),
        ("12 MB", None),
        ("-1 KiB", None),
        ("1.5 MiB", None),
        ("KiB", None),
        ("", None),
        ("999999999999999999 MiB", None),
        ("٣ KiB", None),
    ],
)
def test_size(text: str, right: int | None) -> None:
    assert fdinfo.size(text) == right


FDINFO = {
    "resident before memory": ("drm-resident-gtt:\t8 KiB\ndrm-memory-gtt:\t4 KiB\n", 8192),
    "memory where no resident": ("drm-memory-gtt: \t4 KiB\n", 4096),
    "before Linux 5.19": ("pdev:\t0000:05:00.0\ngtt mem:\t100 kB\n", 102400),
    "bytes without a unit": ("drm-resident-gtt:\t4096\n", 4096),
    "a bad line does not hide a good one": ("drm-resident-gtt:\tmany\ndrm-memory-gtt:\t4 KiB\n", 4096),
    "half of a line": ("drm-resident-gtt:\t4194304 KiB\ndrm-resident-gtt:\t419", 4 << 30),
    "half of the only size": ("drm-driver:\tamdgpu\ndrm-memory-gtt:\t4194304", None),
    "a total beside nonsense": ("drm-resident-gtt:\tmany\ndrm-total-gtt:\t8 GiB\n", None),
    "no memory keys": ("drm-driver:\tamdgpu\n", None),
    "the first of two counts": ("drm-memory-gtt:\t4 KiB\ndrm-memory-gtt:\t9 KiB\n", 4096),
}


@pytest.mark.parametrize("case", FDINFO)
def test_fdinfo(case: str) -> None:
    text, right = FDINFO[case]
    client = fdinfo.parse(text.encode(), 7)
    assert client is not None
    assert client.gtt_bytes == right


def test_fdinfo_of_no_drm_descriptor() -> None:
    assert fdinfo.parse(b"pos:\t0\nflags:\t02\nmnt_id:\t15\neventfd-count: 0\n", 7) is None


def test_a_client_is_known_by_device_and_id() -> None:
    one = fdinfo.parse(b"drm-pdev:\t0000:c5:00.0\ndrm-client-id:\t7\n", 7)
    assert one is not None
    assert one.key == ("0000:c5:00.0", "drm-client-id 7")
    old = fdinfo.parse(b"pdev:\t0000:05:00.0\npasid:\t32771\ngtt mem: 1 kB\n", 7)
    assert old is not None
    assert old.key == ("0000:05:00.0", "pasid 32771")


def _numbers(client: Client | None) -> set[int]:
    if client is None:
        return set()
    return {size for size in (client.gtt_bytes, client.vram_bytes) if size}


@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.tuples(
                st.sampled_from(["drm-resident-gtt", "drm-memory-vram", "drm-pdev", "gtt mem", "x"]),
                st.text(alphabet="0123456789 KiMB:\t-.x", max_size=20),
            )
        ).map(lambda lines: "".join(f"{key}:\t{value}\n" for key, value in lines).encode()),
    )
)
def test_fdinfo_invents_nothing(data: bytes) -> None:
    found = _numbers(fdinfo.parse(data, 7))
    written = {int(digits) for digits in re.findall(rb"[0-9]+", data)}
    units = (1, 1024, 1024**2, 1024**3)
    assert found <= {size * unit for size in written for unit in units}


@given(st.binary(max_size=300))
def test_meminfo_and_pressure_of_any_bytes(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        tree(Path(root), {"meminfo": data, "pressure/memory": data})
        readings = {**host.memory(Roots(proc=root)), **host.pressure(Roots(proc=root))}
    for reading in readings.values():
        assert (reading.value is None) != (reading.why is None)
        if reading.value is not None:
            assert re.search(rb"MemTotal|MemAvailable|some avg10=", data)


MEMINFO = {
    "as it is": ("", None, 40, "no line GPUReclaim"),
    "a pool that can be had back": ("GPUReclaim: 30 kB\n", 30, 40, None),
    "never more than MemAvailable leaves": ("GPUReclaim: 90 kB\n", 60, 40, None),
    "of a line that is cut short nothing": ("GPUReclaim: 30", None, 40, "no line GPUReclaim"),
    "a MemAvailable that cannot be": ("MemAvailable: 101 kB\nGPUReclaim: 30 kB\n", None, None, "not within MemTotal"),
}


@pytest.mark.parametrize("case", MEMINFO)
def test_the_gpus_page_pool(tmp_path: Path, case: str) -> None:
    """Synthetic, by Linux 7's fs/proc/meminfo.c."""
    line, pool, available, why = MEMINFO[case]
    tree(tmp_path, {"meminfo": f"MemTotal: 100 kB\nMemAvailable: 40 kB\n{line}"})
    readings = host.memory(Roots(proc=str(tmp_path)))
    assert readings["gpu_reclaimable_bytes"].value == (None if pool is None else pool * 1024)
    assert readings["mem_available_bytes"].value == (None if available is None else available * 1024)
    assert why is None or why in (readings["gpu_reclaimable_bytes"].why or "")


def test_a_page_pool_with_nothing_to_hold_it_against(tmp_path: Path) -> None:
    tree(tmp_path, {"meminfo": "MemTotal: 100 kB\nGPUReclaim: 30 kB\n"})
    assert host.memory(Roots(proc=str(tmp_path)))["gpu_reclaimable_bytes"].value is None


@pytest.mark.parametrize("module", ["ttm", "amdttm"])
def test_the_kernels_limits_on_the_gpus_share(tmp_path: Path, module: str) -> None:
    """Synthetic: out of the kernel's tree the module has another name."""
    tree(tmp_path / "module" / module / "parameters", {"pages_limit": "25165824\n", "page_pool_size": "0\n"})
    readings = host.ttm(str(tmp_path))
    assert readings["ttm_limit_bytes"].value == 96 * 1024**3
    assert "not plausible" in (readings["ttm_pool_limit_bytes"].why or "")


def test_meminfo_without_a_line(tmp_path: Path) -> None:
    tree(tmp_path, {"meminfo": "MemTotal:  1000 kB\n"})
    readings = host.memory(Roots(proc=str(tmp_path)))
    assert readings["mem_total_bytes"].value == 1024000
    assert readings["mem_available_bytes"].value is None, "missing is neither plenty nor nothing"


TCTL = {
    "hwmon0/name": "acpitz\n",
    "hwmon0/temp1_input": "32000\n",
    "hwmon3/name": "nct6792\n",
    "hwmon3/temp1_input": "82000\n",
    "hwmon3/temp2_input": "-128000\n",
    "hwmon5/name": "k10temp\n",
    "hwmon5/temp1_label": "Tdie\n",
    "hwmon5/temp1_input": "99000\n",
    "hwmon5/temp2_label": "Tctl\n",
}


@pytest.mark.parametrize(
    ("said", "right"), [("61250\n", 61.25), ("65273000\n", None), ("-128000\n", None), ("0\n", None), ("", None)]
)
def test_tctl_is_found_by_name_and_label(tmp_path: Path, said: str, right: float | None) -> None:
    """Synthetic: other chips, another channel, and values that no processor has."""
    tree(tmp_path / "class/hwmon", {**TCTL, "hwmon5/temp2_input": said})
    reading = host.tctl(str(tmp_path))
    assert reading.value == right
    assert (reading.source or "").endswith("hwmon5/temp2_input")


@given(st.binary(max_size=30), st.binary(max_size=30), st.binary(max_size=30))
def test_tctl_of_any_bytes(name: bytes, label: bytes, said: bytes) -> None:
    with tempfile.TemporaryDirectory() as root:
        chips = {"hwmon0/name": name, "hwmon0/temp1_label": b"Tctl\n", "hwmon0/temp1_input": b"50000\n"}
        chips |= {"hwmon1/name": b"k10temp\n", "hwmon1/temp1_label": label, "hwmon1/temp1_input": b"60000\n"}
        chips |= {"hwmon2/name": b"k10temp\n", "hwmon2/temp1_label": b"Tctl\n", "hwmon2/temp1_input": said}
        tree(Path(root) / "class/hwmon", chips)
        reading = host.tctl(root)
    assert (reading.value is None) != (reading.why is None)
    assert reading.value is None or round(reading.value * 1000) in map(int, re.findall(rb"[0-9]+", said))


def test_tctl_moves_with_its_number(tmp_path: Path) -> None:
    tree(tmp_path / "class/hwmon", {**TCTL, "hwmon5/temp2_input": "61000\n"})
    assert host.tctl(str(tmp_path)).value == 61
    (tmp_path / "class/hwmon/hwmon5").rename(tmp_path / "class/hwmon/hwmon2")
    assert host.tctl(str(tmp_path)).value == 61
