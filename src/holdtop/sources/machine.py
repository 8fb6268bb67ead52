"""What the machine is: its kernel, the drivers loaded, what sits on the PCI bus. No device is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdtop.sources.files import listing, read_text

_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")
#: The data fabric of Strix Halo, on whose function k10temp finds the sensor, and its GPU (vendor, device).
STRIX_HALO = frozenset({("0x1022", "0x12bb"), ("0x1002", "0x1586")})
#: NPUs that amdxdna drives, of AMD as a maker of processors.
_NPUS = frozenset({("0x1022", "0x1502"), ("0x1022", "0x17f0")})
_GPU_VENDOR = "0x1002"
#: PCI class of displays, 3D controllers without a connector included.
_DISPLAY = "0x03"


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function."""

    address: str
    vendor: str
    device: str
    #: The driver that is bound to it; ``None``: none is.
    driver: str | None
    kind: str


def release(proc: str) -> str | None:
    """The running kernel's release, as in ``6.18.1-arch1``; ``None`` when it cannot be read."""
    return read_text(os.path.join(proc, "sys/kernel/osrelease")) or None


def version(text: str | None) -> tuple[int, int] | None:
    """The first two numbers of a release, which is what kernels promise by."""
    form = _VERSION.match(text or "")
    return (int(form[1]), int(form[2])) if form else None


def loaded(sys: str, module: str) -> bool:
    """Loaded, or built in with parameters or a version to show (sysfs(5), ``/sys/module``)."""
    return os.path.isdir(os.path.join(sys, "module", module))


def module_version(sys: str, module: str) -> str | None:
    """What the module says of itself; the kernel's own drivers say nothing, only those built beside it do."""
    return read_text(os.path.join(sys, "module", module, "version")) or None


def functions(sys: str) -> Iterator[Function]:
    """AMD's displays (``gpu``) and NPUs (``npu``) on the bus, with or without a driver."""
    bus = os.path.join(sys, "bus/pci/devices")
    for address in listing(bus):
        path = os.path.join(bus, address)
        vendor, device = (read_text(os.path.join(path, name)) for name in ("vendor", "device"))
        display = vendor == _GPU_VENDOR and read_text(os.path.join(path, "class")).startswith(_DISPLAY)
        if display or (vendor, device) in _NPUS:
            link = os.path.join(path, "driver")
            driver = os.path.basename(os.path.realpath(link)) if os.path.exists(link) else None
            yield Function(address, vendor, device, driver, "gpu" if display else "npu")


def is_strix_halo(sys: str) -> bool:
    """By what is on the bus, and in a recording by its card."""
    places = [os.path.join(sys, "bus/pci/devices", name) for name in listing(os.path.join(sys, "bus/pci/devices"))]
    places += [os.path.join(sys, "class/drm", name, "device") for name in listing(os.path.join(sys, "class/drm"))]
    return any((read_text(f"{path}/vendor"), read_text(f"{path}/device")) in STRIX_HALO for path in places)


def chips(sys: str) -> list[str]:
    """The names of all sensor chips (``/sys/class/hwmon``)."""
    folder = os.path.join(sys, "class/hwmon")
    return [read_text(os.path.join(folder, name, "name")) for name in listing(folder)]


def command_line(proc: str) -> list[str]:
    """The kernel's parameters; none when they cannot be read."""
    return read_text(os.path.join(proc, "cmdline")).split()
