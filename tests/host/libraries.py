"""Stand-ins for AMD's library: a package ``amdsmi`` for each way in which it answers or fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

MIB = 1024**2

#: The part of amdsmi 7.0's face that is asked, over a table of devices.
_FACE = """
import enum

class AmdSmiException(Exception):
    pass

class AmdSmiLibraryException(AmdSmiException):
    def __str__(self):
        return "Error code:\\n\\t2 | AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported"

class AmdSmiMemoryType(enum.IntEnum):
    VRAM = 0
    VIS_VRAM = 1
    GTT = 2

DEVICES = {devices!r}

def amdsmi_init():
    print("Some device(s) is/are in a low-power state")

def amdsmi_shut_down():
    raise RuntimeError("nobody should ask for this")

def amdsmi_get_processor_handles():
    return list(DEVICES)

def amdsmi_get_gpu_device_bdf(handle):
    return handle

def _memory(handle, kind, pool):
    size = DEVICES[handle].get(f"{{pool.name.lower()}}_{{kind}}_bytes")
    if size is None:
        raise AmdSmiLibraryException()
    return size

def amdsmi_get_gpu_memory_usage(handle, pool):
    return _memory(handle, "used", pool)

def amdsmi_get_gpu_memory_total(handle, pool):
    return _memory(handle, "total", pool)

def amdsmi_get_gpu_asic_info(handle):
    return {{"market_name": DEVICES[handle].get("name", "N/A")}}

def amdsmi_get_gpu_driver_info(handle):
    return {{"driver_version": "Linuxver"}}
"""

Device = Mapping[str, object]
#: As published of AMD-SMI 26.1 and 26.2 on Strix Halo: nothing but its name, and VRAM (MB as MiB).
ALL_NA: Mapping[str, Device] = {
    "0000:c3:00.0": {"name": "Radeon 8060S Graphics", "vram_used_bytes": 1553 * MIB, "vram_total_bytes": 32768 * MIB}
}
#: As published of an APU with a nearly full carve-out of 512 MB; the address is a placeholder.
SMALL_CARVE_OUT: Mapping[str, Device] = {
    "0000:c1:00.0": {
        "vram_used_bytes": 489 * MIB,
        "vram_total_bytes": 512 * MIB,
        "vis_vram_used_bytes": 489 * MIB,
        "vis_vram_total_bytes": 512 * MIB,
        "gtt_used_bytes": 964 * MIB,
        "gtt_total_bytes": 13649 * MIB,
    }
}
#: As published of a Strix Halo once its table was decoded.
STRIX_HALO: Mapping[str, Device] = {
    "0000:C2:00.0": {"name": "Radeon 8050S Graphics", "vram_used_bytes": 3056 * MIB, "vram_total_bytes": 8192 * MIB}
}
#: By the recorded Strix Point's own counters.
STRIX_POINT: Mapping[str, Device] = {
    "0000:c1:00.0": {
        "name": "Radeon 890M Graphics",
        "gtt_used_bytes": 3946811392,
        "gtt_total_bytes": 16441004032,
        "vram_used_bytes": 514580480,
        "vram_total_bytes": 536870912,
        "vis_vram_used_bytes": 514580480,
        "vis_vram_total_bytes": 536870912,
    }
}


def answering(devices: Mapping[str, Device]) -> str:
    return _FACE.format(devices=dict(devices))


def install(root: Path, source: str) -> Path:
    """The directory to put on the child's path."""
    package = root / "amdsmi"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    return root
