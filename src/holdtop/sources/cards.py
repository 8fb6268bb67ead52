"""Which cards and NPUs there are, keyed by PCI address.

Numbers in names (card1, renderD128, hwmon6) change between boots and kernels and mean nothing. A recorded tree may
lack any of the files: what is there decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from holdtop.model.raw import NAMELESS
from holdtop.sources import kfd
from holdtop.sources.files import listing, read_text

AMD = "0x1002"
_CARD = re.compile(r"card[0-9]+")
#: All chips there are, below the root of a sysfs.
_CHIPS = "{}/class/hwmon"
_ACCEL = re.compile(r"accel[0-9]+")
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
#: Beginnings of the names of amdgpu's files by which a card without a vendor file is known.
_MARKS = ("mem_info_", "gpu_busy_percent", "gpu_metrics")
#: The file of amdxdna by which an NPU without a vendor file is known: accelerators of others have none.
_NPU_MARK = "vbnv"


@dataclass(frozen=True, slots=True)
class Card:
    pci_address: str
    kind: Literal["apu", "gpu", "npu"]
    #: The PCI device's directory: without the card's number where the kernel's own link leads there.
    path: str
    #: The directory of its sensor chips, or the one chip of it that a recording has kept.
    chips: str
    #: The driver has left a dump of a hang or reset, which the kernel keeps for five minutes (devcoredump.c).
    dumped: bool = field(default=False, compare=False)


def find(sys: str, known: kfd.Nodes | None = None) -> list[Card]:
    """AMD's cards and NPUs below a sysfs root (``/sys/class/drm``, ``/sys/class/accel``), APUs first.

    ``known``: what KFD says of them; it is asked when that is ``None``.
    """
    known = kfd.nodes(sys) if known is None else known
    gpus = list(_gpus(sys, known)) or list(_chips_alone(sys))
    if len(gpus) == 1 and not os.path.isdir(gpus[0].chips):
        gpus = [replace(gpus[0], chips=_CHIPS.format(sys))]  # whose else would they be
    cards = [*gpus, *_npus(sys)]
    return sorted(cards, key=lambda card: (("apu", "gpu", "npu").index(card.kind), card.pci_address))


def _gpus(sys: str, known: kfd.Nodes) -> Iterator[Card]:
    drm = os.path.join(sys, "class/drm")
    for name in filter(_CARD.fullmatch, listing(drm)):
        path = os.path.realpath(os.path.join(drm, name, "device"))
        vendor, files = read_text(os.path.join(path, "vendor")), set(listing(path))
        if vendor == AMD or (not vendor and any(file.startswith(_MARKS) for file in files)):
            address = _address(path, name)
            kind: Literal["apu", "gpu"] = "apu" if _is_apu(path, files, known.get(address, {})) else "gpu"
            yield Card(address, kind, path, os.path.join(path, "hwmon"), "devcoredump" in files)


def _chips_alone(sys: str) -> Iterator[Card]:
    """Of a recording that has kept the sensors and not the card."""
    for name in listing(_CHIPS.format(sys)):
        chip = os.path.join(_CHIPS.format(sys), name)
        if read_text(os.path.join(chip, "name")) == "amdgpu":
            kind: Literal["apu", "gpu"] = "gpu" if _has_fan(chip) else "apu"
            yield Card(f"{NAMELESS}{name}", kind, os.path.join(chip, "device"), chip)


def _npus(sys: str) -> Iterator[Card]:
    accel = os.path.join(sys, "class/accel")
    for name in filter(_ACCEL.fullmatch, listing(accel)):
        path = os.path.realpath(os.path.join(accel, name, "device"))
        vendor = read_text(os.path.join(path, "vendor"))
        if vendor == "0x1022" or (not vendor and _NPU_MARK in listing(path)):
            yield Card(_address(path, name), "npu", path, os.path.join(path, "hwmon"))


def _address(path: str, name: str) -> str:
    for line in read_text(os.path.join(path, "uevent")).splitlines():
        key, _, value = line.partition("=")
        if key == "PCI_SLOT_NAME" and PCI.fullmatch(value):
            return value
    target = os.path.basename(path)
    return target if PCI.fullmatch(target) else f"{NAMELESS}{name}"


def _is_apu(path: str, files: set[str], node: Mapping[str, str]) -> bool:
    """No sizes: carve-outs of any size exist. KFD's word first, then files that only one of the two kinds has."""
    if kfd.WHOLE.fullmatch(local := node.get("local_mem_size", "")):
        return int(local) == 0  # bytes of memory of its own
    if files & {"mem_busy_percent", "mem_info_vram_vendor"}:
        return False
    hwmon = os.path.join(path, "hwmon")
    return not any(_has_fan(os.path.join(hwmon, name)) for name in listing(hwmon))


def _has_fan(chip: str) -> bool:
    return os.path.exists(os.path.join(chip, "fan1_input"))
