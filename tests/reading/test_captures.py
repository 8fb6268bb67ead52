"""Each recorded machine gives its documented right answers. They were written down from what was published of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdtop.model.values import Snapshot
from holdtop.sampler import look_once
from holdtop.sources import users
from tests.reading.machines import CAPTURES, KEPT, recorded

GIB = 1024**3

RIGHT: dict[str, dict[str, float | str | None]] = {
    "150e-strix-point": {
        "gtt_used_bytes": 3946811392,
        "gtt_total_bytes": 16441004032,
        "vram_used_bytes": 514580480,
        "vram_total_bytes": 536870912,
        "vis_vram_used_bytes": 514580480,
        "vis_vram_total_bytes": 536870912,
        "preempt_used_bytes": 0,
        "gpu_busy_percent": 3,
        "gpu_power_watts": 9.087,
        "gpu_celsius": 38,
        "gpu_clock_mhz": 848,
        "memory_clock_mhz": 836,  # no state of pp_dpm_mclk is marked: from the table
        "npu_busy_percent": 0,
        "tctl_celsius": "no k10temp",
        "device": "0000:c1:00.0",
        "kind": "apu",
        "pool": "gtt",
    },
    "15bf-phoenix": {
        "gtt_used_bytes": 211398656,
        "gtt_total_bytes": 31433977856,
        "vram_used_bytes": 1272893440,
        "vram_total_bytes": 4294967296,
        "gpu_busy_percent": 0,
        "gpu_power_watts": 3.103,
        "gpu_celsius": 25,
        "gpu_clock_mhz": 800,
        "memory_clock_mhz": 400,
        "npu_busy_percent": "revision 2.1 has no such field",
        "device": "0000:64:00.0",
        "kind": "apu",
        "pool": "gtt",
    },
    "163f-van-gogh": {
        "gtt_total_bytes": "mem_info_gtt_total is not there",
        "gpu_busy_percent": 0,
        "gpu_power_watts": 3.218,  # the slow limit's channel, which is the first
        "gpu_celsius": 56,
        "gpu_clock_mhz": 200,
        "memory_clock_mhz": 687,  # two states are marked, of one clock
        "device": "0000:04:00.0",
        "kind": "apu",
        "pool": None,
    },
    "1586-strix-halo-gtt-96g": {
        "gtt_total_bytes": 103079215104,
        "gtt_used_bytes": "mem_info_gtt_used is not there",
        "vram_total_bytes": 4 * GIB,
        "ttm_limit_bytes": 103079215104,
        "ttm_pool_limit_bytes": 103079215104,
        "kind": "apu",
        "device": "unknown-card1",
        "pool": "gtt",
    },
    "1586-strix-halo-idle-124g": {
        "gtt_used_bytes": 18874368,
        "gtt_total_bytes": 133143986176,
        "vram_used_bytes": 155189248,
        "kind": "apu",
        "pool": "gtt",
    },
    "1586-loaded-124g": {
        "gtt_used_bytes": 25348276224,
        "gtt_total_bytes": 133143986176,
        "vram_total_bytes": "mem_info_vram_total is not there",
        "pool": "gtt",
    },
    "1586-orphaned-gtt-43g": {
        "gtt_used_bytes": 43122 * 1024**2,
        "ttm_limit_bytes": 133143986176,
        "ttm_pool_limit_bytes": "page_pool_size is not there",
        "mem_available_bytes": 83088998 * 1024,
        "mem_total_bytes": "no line MemTotal",
        "gpu_reclaimable_bytes": "no line GPUReclaim",
        "kind": "apu",
        "pool": "gtt",
    },
    "1586-orphaned-gtt-35g": {
        "gtt_used_bytes": 35 * GIB,
        "gtt_total_bytes": 120 * GIB,
        "ttm_limit_bytes": 120 * GIB,
        "kind": "apu",
        "pool": "gtt",
    },
    "1586-carveout-96g": {
        "gtt_total_bytes": 16630415360,
        "vram_total_bytes": 103079215104,
        "ttm_limit_bytes": 4058844 * 4096,
        "mem_total_bytes": 32474398 * 1024,
        "kind": "apu",
        "pool": "vram",
    },
    "apu-small-carveout": {
        "gtt_used_bytes": 964 * 1024**2,
        "gtt_total_bytes": 13649 * 1024**2,
        "vram_used_bytes": 489 * 1024**2,
        "vram_total_bytes": 512 * 1024**2,
        "kind": "apu",
        "pool": "gtt",
    },
    "polaris": {"mem_available_bytes": 10576684 * 1024, "pool": "vram"},
    "dgpu-rx6900xt": {
        "gtt_used_bytes": 62369792,
        "vram_used_bytes": 668274688,
        "vram_total_bytes": 17163091968,
        "gpu_busy_percent": 3,
        "gpu_power_watts": 36,
        "gpu_celsius": 56,
        "gpu_clock_mhz": 500,
        "memory_clock_mhz": 1000,
        "device": "0000:0c:00.0",
        "kind": "gpu",
        "npu_busy_percent": "no such reading",
        "pool": "vram",
    },
    "dgpu-rx9070": {
        "gpu_busy_percent": 25,
        "gpu_power_watts": 49,
        "gpu_celsius": 48,
        "gpu_clock_mhz": 900,
        "memory_clock_mhz": 1124,
        "device": "0000:03:00.0",
        "kind": "gpu",
        "pool": None,
    },
    "npu-phoenix": {"device": None, "npu_busy_percent": "no AMD GPU", "npu_power_watts": "no sensor chip amdxdna"},
    "zenpower": {"tctl_celsius": 43.0, "device": None, "gtt_used_bytes": "no AMD GPU"},
    "k10temp-two-ccd": {"tctl_celsius": 61.5},
    "no-k10temp": {
        "tctl_celsius": "no k10temp",
        "gpu_celsius": 51,
        "gpu_power_watts": 2,
        "device": "unknown-hwmon0",
        "pool": None,
    },
    "psi-idle": {"memory_pressure_some_avg10_percent": 0, "mem_available_bytes": "meminfo is not there"},
}


#: The one client of each recorded descriptor: its card, resident bytes of GTT and VRAM, the NPU's bytes.
CLIENTS: dict[str, tuple[str, int | None, int | None, int | None]] = {
    "fdinfo-llama-server": ("", 25258000 * 1024, 5348 * 1024, None),
    "fdinfo-before-6.5": ("0000:08:00.0", 8192 * 1024, 2068 * 1024, None),
    "npu-fdinfo-zeroes": ("0000:c5:00.1", None, None, None),  # that driver says 0 whatever is in use
}


def look(name: str, state: Path) -> Snapshot:
    return look_once(state_dir=str(state), roots=recorded(name))


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers(name: str, tmp_path: Path) -> None:
    snapshot = look(name, tmp_path)
    card = snapshot.card
    given = {"device": snapshot.device, "kind": card.kind if card else None, "pool": card.pool if card else None}
    for key, right in RIGHT[name].items():
        if key in given:
            assert given[key] == right, key
        elif isinstance(right, str):
            assert snapshot.readings[key].value is None
            assert right in (snapshot.readings[key].why or ""), key
        else:
            assert snapshot.readings[key].value == right, key


@pytest.mark.parametrize("name", CLIENTS)
def test_right_clients(name: str) -> None:
    (user,) = users.scan(recorded(name)).users.values()
    (client,) = user.clients
    assert (client.key[0], client.gtt_bytes, client.vram_bytes, client.npu_bytes) == CLIENTS[name]
    assert user.resources == {"npu" if client.npu else "gpu"}


def test_every_recording_is_used_and_named() -> None:
    trees = {path.parent for root in (CAPTURES, KEPT) for path in root.glob("*/SOURCE")}
    assert {tree.name for tree in trees} == {*RIGHT, *CLIENTS, "dgpu-suspended"}
    for tree in trees:
        assert len((tree / "SOURCE").read_text().splitlines()) == 1


@pytest.mark.parametrize("name", ["apu-small-carveout", "1586-strix-halo-idle-124g"])
def test_a_full_carve_out_beside_gtt_is_no_alarm(name: str, tmp_path: Path) -> None:
    assert look(name, tmp_path).flags == ()


def test_what_stands_in_for_a_reading_is_labelled(tmp_path: Path) -> None:
    """Strix Point: no Tctl, and no marked memory clock. The name says what is measured, the source where."""
    readings = look("150e-strix-point", tmp_path).readings
    assert (readings["gpu_celsius"].source or "").endswith("hwmon6/temp1_input")
    assert (readings["memory_clock_mhz"].source or "").endswith("device/gpu_metrics")
    assert (readings["cpu_celsius"].source or "").endswith("device/gpu_metrics")


def test_an_npu_without_a_card_is_a_device(tmp_path: Path) -> None:
    (npu,) = look("npu-phoenix", tmp_path).devices
    assert (npu.kind, npu.resource, npu.pool) == ("npu", "npu", None)


def test_a_llama_server_holds_its_model_in_gtt(tmp_path: Path) -> None:
    """A tool that counts VRAM alone shows 5 MiB for it."""
    snapshot = look("fdinfo-llama-server", tmp_path)
    (process,) = snapshot.leftovers
    assert (process.pid, process.name) == (4242, "llama-server")
    assert (process.gtt_bytes, process.vram_bytes) == (25258000 * 1024, 5348 * 1024)
    assert (process.rss_bytes, process.uid, process.cpu_percent) == (None, None, None)
    assert [flag.kind for flag in snapshot.flags] == ["stray"]


def test_memory_without_a_process_table_is_unknown(tmp_path: Path) -> None:
    """Nobody was asked, so nobody can be said to hold nothing."""
    memory = look("1586-orphaned-gtt-43g", tmp_path).memory
    assert (memory.payload_bytes, memory.unattributed_bytes) == (None, None)
