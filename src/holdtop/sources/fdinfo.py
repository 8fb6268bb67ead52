"""Parse ``/proc/PID/fdinfo/FD`` of a DRM descriptor (https://docs.kernel.org/gpu/drm-usage-stats.html).

Kernels differ: ``drm-resident-REGION`` where it is, else ``drm-memory-REGION``, else the "gtt mem" of before 5.19;
``drm-total-REGION``, which counts what has no pages yet, where nothing else is said.
A size has the unit KiB or MiB, or none and is bytes then. The NPU's driver comes in three forms: it says nothing; it
has one region "memory", which an early driver leaves at zero; or it counts its buffers by their origin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from holdtop.model.raw import Client

_SIZE = re.compile(r"([0-9]{1,18})(?:[ \t]+(B|KiB|MiB|GiB|kB))?")
_UNIT = {None: 1, "B": 1, "kB": 1024, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
#: No machine has more, in bytes: such a figure is a fault.
_ABSURD = 1 << 50
_NPU = "amdxdna_accel_driver"
#: Drivers of AMD's devices; kernels before 5.19 name none.
_OURS = ("amdgpu", "radeon", _NPU)


def parse(data: bytes, pid: int) -> Client | None:
    """The client behind one descriptor; ``None`` when it is no DRM descriptor.

    Where a kernel names no client, all such descriptors of a device in one process count as one.
    """
    facts = _facts(data)
    if not any(key.startswith("drm-") or key in ("gtt mem", "vram mem") for key in facts):
        return None
    ids = (f"{key} {facts[key]}" for key in ("drm-client-id", "pasid") if key in facts)
    driver = facts.get("drm-driver")
    device = facts.get("drm-pdev") or facts.get("pdev") or facts.get("drm-driver", "")
    return Client(
        key=(device, next(ids, f"pid {pid}")),
        gtt_bytes=_region(facts, "gtt"),
        vram_bytes=_region(facts, "vram"),
        gtt_shared_bytes=size(facts.get("drm-shared-gtt", "")) or 0,
        vram_shared_bytes=size(facts.get("drm-shared-vram", "")) or 0,
        npu=driver == _NPU,
        npu_bytes=_npu_bytes(facts),
        foreign=driver not in (None, *_OURS),
    )


def _npu_bytes(facts: Mapping[str, str]) -> int | None:
    """In use is what is internal and external; the region's total counts the device's buffers twice beside them."""
    parts = [size(facts.get(f"{_NPU}-{part}-alloc", "")) for part in ("internal", "external")]
    if all(part is not None for part in parts):
        return sum(part for part in parts if part is not None)
    return size(facts.get("drm-total-memory", "")) or None  # a zero there means: not reported


def _facts(data: bytes) -> Mapping[str, str]:
    """``key: value`` lines. What is none is skipped, and a last one without an end; of one key the first counts."""
    facts: dict[str, str] = {}
    for line in os.fsdecode(data).split("\n")[:-1]:
        key, colon, value = line.partition(":")
        if colon:
            facts.setdefault(key.strip(), value.strip())
    return facts


def _region(facts: Mapping[str, str], region: str) -> int | None:
    keys = [key for key in (f"drm-resident-{region}", f"drm-memory-{region}", f"{region} mem") if key in facts]
    sizes = (size(facts[key]) for key in keys or [f"drm-total-{region}"] if key in facts)
    return next((found for found in sizes if found is not None), None)


def size(text: str) -> int | None:
    """A size in bytes; ``None`` for anything else."""
    form = _SIZE.fullmatch(text)
    if form is None:
        return None
    count = int(form[1]) * _UNIT[form[2]]
    return count if count < _ABSURD else None
