"""Each recorded machine gives its documented right answers. They were written down from what was published of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdtop.model.values import Snapshot
from holdtop.sampler import look_once
from tests.reading.machines import CAPTURES, recorded

GIB = 1024**3

RIGHT: dict[str, dict[str, float | str | None]] = {
    "150e-strix-point": {
        "gtt_used_bytes": 3946811392,
        "gtt_total_bytes": 16441004032,
        "vram_used_bytes": 514580480,
        "vram_total_bytes": 536870912,
        "gpu_busy_percent": 3,
        "gpu_power_watts": 9.087,
        "npu_busy_percent": 0,
        "tctl_celsius": "no k10temp",
        "device": "0000:c1:00.0",
        "kind": "apu",
    },
    "15bf-phoenix": {
        "gtt_total_bytes": 31433977856,
        "vram_total_bytes": 4294967296,
        "gpu_busy_percent": 0,
        "gpu_power_watts": 3.103,
        "npu_busy_percent": "revision 2.1 is not decoded",
        "kind": "apu",
    },
    "1586-strix-halo-gtt-96g": {
        "gtt_total_bytes": 103079215104,
        "gtt_used_bytes": "mem_info_gtt_used is not there",
        "vram_total_bytes": 4 * GIB,
        "kind": "apu",
        "device": "unknown-card1",
    },
    "1586-strix-halo-idle-124g": {
        "gtt_used_bytes": 18874368,
        "gtt_total_bytes": 133143986176,
        "vram_used_bytes": 155189248,
        "kind": "apu",
    },
    "1586-orphaned-gtt-43g": {
        "gtt_used_bytes": 43122 * 1024**2,
        "mem_available_bytes": 83088998 * 1024,
        "mem_total_bytes": "no line MemTotal",
        "kind": "apu",
    },
    "1586-carveout-96g": {
        "gtt_total_bytes": 16630415360,
        "vram_total_bytes": 103079215104,
        "mem_total_bytes": 32474398 * 1024,
        "kind": "apu",
    },
    "dgpu-rx6900xt": {
        "vram_total_bytes": 17163091968,
        "gpu_power_watts": 36,
        "device": "0000:0c:00.0",
        "kind": "gpu",
        "npu_busy_percent": "no such reading",
    },
    "dgpu-rx9070": {"gpu_busy_percent": 25, "gpu_power_watts": 49, "kind": "gpu"},
    "zenpower": {"tctl_celsius": 43.0, "device": None, "gtt_used_bytes": "no AMD GPU"},
    "k10temp-two-ccd": {"tctl_celsius": 61.5},
    "no-k10temp": {"tctl_celsius": "no k10temp"},
    "psi-idle": {"memory_pressure_some_avg10_percent": 0, "mem_available_bytes": "meminfo is not there"},
}


def look(name: str, state: Path) -> Snapshot:
    return look_once(state_dir=str(state), roots=recorded(name))


@pytest.mark.parametrize("name", RIGHT)
def test_right_answers(name: str, tmp_path: Path) -> None:
    snapshot = look(name, tmp_path)
    kind = next((device.kind for device in snapshot.devices if device.pci_address == snapshot.device), None)
    given = {"device": snapshot.device, "kind": kind}
    for key, right in RIGHT[name].items():
        if key in given:
            assert given[key] == right, key
        elif isinstance(right, str):
            assert snapshot.readings[key].value is None
            assert right in (snapshot.readings[key].why or ""), key
        else:
            assert snapshot.readings[key].value == right, key


def test_every_recording_is_used_and_named() -> None:
    trees = {path.name for path in CAPTURES.iterdir() if (path / "SOURCE").is_file()}
    assert trees == {*RIGHT, "fdinfo-llama-server"}
    for name in trees:
        assert len((CAPTURES / name / "SOURCE").read_text().splitlines()) == 1


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
