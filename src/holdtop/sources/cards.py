"""Which cards and NPUs there are, keyed by PCI address.

Numbers in names (card1, renderD128, hwmon6) change between boots and kernels and mean nothing. A recorded tree may
lack any of the files: what is there decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdtop.sources import kfd
from holdtop.sources.files import listing, read_text

AMD = "0x1002"
_CARD = re.compile(r"card[0-9]+")
_ACCEL = re.compile(r"accel[0-9]+")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: Files of amdgpu by which a card without a vendor file is known.
_MARKS = ("mem_info_gtt_total", "mem_info_vram_total", "gpu_busy_percent", "gpu_metrics")


@dataclass(frozen=True, slots=True)
class Card:
    pci_address: str
    kind: Literal["apu", "gpu", "npu"]
    #: The PCI device's directory.
    path: str


def find(sys: str) -> list[Card]:
    """AMD's cards and NPUs below a sysfs root (``/sys/class/drm``, ``/sys/class/accel``), APUs first."""
    cards = [*_gpus(sys), *_npus(sys)]
    return sorted(cards, key=lambda card: (("apu", "gpu", "npu").index(card.kind), card.pci_address))


def _gpus(sys: str) -> Iterator[Card]:
    drm = os.path.join(sys, "class/drm")
    for name in filter(_CARD.fullmatch, listing(drm)):
        path = os.path.join(drm, name, "device")
        vendor, files = read_text(os.path.join(path, "vendor")), set(listing(path))
        if vendor == AMD or (not vendor and files.intersection(_MARKS)):
            address = _address(path, name)
            yield Card(address, "apu" if _is_apu(sys, path, address, files) else "gpu", path)


def _npus(sys: str) -> Iterator[Card]:
    accel = os.path.join(sys, "class/accel")
    for name in filter(_ACCEL.fullmatch, listing(accel)):
        path = os.path.join(accel, name, "device")
        if read_text(os.path.join(path, "vendor")) in ("0x1022", ""):
            yield Card(_address(path, name), "npu", path)


def _address(path: str, name: str) -> str:
    for line in read_text(os.path.join(path, "uevent")).splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME" and _PCI.fullmatch(value):
            return value
    target = os.path.basename(os.path.realpath(path))
    return target if _PCI.fullmatch(target) else f"unknown-{name}"


def _is_apu(sys: str, path: str, address: str, files: set[str]) -> bool:
    """No sizes: carve-outs of any size exist. KFD's word first, then files that only one of the two kinds has."""
    if (local := _kfd_local_memory(sys, address)) is not None:
        return local == 0
    if files & {"mem_busy_percent", "mem_info_vram_vendor"}:
        return False
    hwmon = os.path.join(path, "hwmon")
    chips = [os.path.join(hwmon, name) for name in listing(hwmon)]
    return not any(os.path.exists(os.path.join(chip, "fan1_input")) for chip in chips)


def _kfd_local_memory(sys: str, address: str) -> int | None:
    """Bytes of memory of its own that KFD reports for the card; 0 on an APU. ``None``: KFD does not know it."""
    local = kfd.nodes(sys).get(address, {}).get("local_mem_size", "")
    return int(local) if local.isdecimal() else None
