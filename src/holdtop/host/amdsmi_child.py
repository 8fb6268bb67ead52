"""AMD's library, asked in a process of its own: ``python -P -m holdtop.host.amdsmi_child FD``.

The library prints to stdout, raises errors of any kind, blocks and crashes; none of that leaves this process. What it
says goes to the descriptor ``FD`` as one line of JSON: ``devices``, or why there are none: ``absent`` or ``failed``.

Memory, name and driver are asked for, since the library reads them without the firmware. Not asked are temperatures
(whole degrees or thousandths, by version), busy, clocks and power (none on gfx1151 before mid-2026, and the same
firmware's word), and processes (other accounts' missing, dead ones kept, GFX time always 0).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from holdtop.payload import linux

#: The library's names of memory, by ours.
POOLS = {"gtt": "GTT", "vram": "VRAM", "vis_vram": "VIS_VRAM"}
#: Where ROCm keeps the package when it is not installed for Python (below ``ROCM_PATH``).
_ROCM_PACKAGE = "share/amd_smi"


def main() -> None:
    fd = int(sys.argv[1])
    os.set_inheritable(fd, False)
    linux.end_with_parent()
    answer: dict[str, object] = {}
    try:
        answer = _ask()
    except BaseException as error:
        answer = {"failed": f"{type(error).__name__}: {error}"}
        raise
    finally:
        with open(fd, "w", encoding="ascii") as out:
            print(json.dumps(answer), file=out)


def _ask() -> dict[str, object]:
    sys.path.append(os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), _ROCM_PACKAGE))
    try:
        import amdsmi
    except ModuleNotFoundError as error:
        if error.name != "amdsmi":
            raise
        return {"absent": "the package amdsmi is not installed"}
    except (ImportError, KeyError, OSError) as error:  # a KeyError of the library's name: amdsmi 7.0
        return {"absent": f"the package amdsmi finds no library ({type(error).__name__}: {error})"}
    amdsmi.amdsmi_init()  # and no amdsmi_shut_down, which might block: this process ends
    return {"devices": [_device(amdsmi, handle) for handle in amdsmi.amdsmi_get_processor_handles()]}


def _device(amdsmi: Any, handle: Any) -> dict[str, object]:
    said = partial(_said, amdsmi.AmdSmiException)
    memory = {}
    for name, kind in POOLS.items():
        pool = getattr(amdsmi.AmdSmiMemoryType, kind)
        memory[f"{name}_used_bytes"] = said(partial(amdsmi.amdsmi_get_gpu_memory_usage, handle, pool))
        memory[f"{name}_total_bytes"] = said(partial(amdsmi.amdsmi_get_gpu_memory_total, handle, pool))
    return {
        "pci_address": amdsmi.amdsmi_get_gpu_device_bdf(handle),
        "market_name": said(lambda: amdsmi.amdsmi_get_gpu_asic_info(handle)["market_name"]),
        "driver_version": said(lambda: amdsmi.amdsmi_get_gpu_driver_info(handle)["driver_version"]),
        "memory": memory,
    }


def _said(refusal: type[Exception], call: Callable[[], object]) -> dict[str, object]:
    """One answer, or why there is none. What is no refusal of the library's ends the whole."""
    try:
        return {"value": call()}
    except refusal as error:
        return {"why": str(error)}


if __name__ == "__main__":
    main()
