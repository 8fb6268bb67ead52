"""A recorded APU with all that the doctor looks at, to which a test does one thing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from holdtop.sources.roots import Roots
from tests.reading.machines import CAPTURES, fdinfo, stat_line, tree

#: Synthetic around the recorded Strix Point and the recorded k10temp: what the doctor reads beside their files.
#: The one process holds all of the recorded GTT.
BESIDE: Mapping[str, str] = {
    "sys/module/k10temp/uevent": "",
    "sys/module/amdgpu/version": "6.14.14\n",
    "sys/module/ttm/parameters/pages_limit": "4013911\n",
    "sys/module/ttm/parameters/page_pool_size": "4013911\n",
    "sys/bus/pci/devices/0000:c1:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:c1:00.0/device": "0x150e\n",
    "sys/bus/pci/devices/0000:c1:00.0/class": "0x038000\n",
    "proc/meminfo": "MemTotal:       32111336 kB\nMemAvailable:   20000000 kB\n",
    "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
    "proc/cpuinfo": "vendor_id\t: AuthenticAMD\n",
    "proc/cmdline": "BOOT_IMAGE=/vmlinuz root=/dev/sda1 quiet\n",
    "proc/sys/kernel/osrelease": "6.18.1-arch1\n",
    "proc/sys/kernel/random/boot_id": "6e1d7f7e-5a0e-4d3a-9f0a-0f6f2a8e2b11\n",
    "proc/sys/fs/inotify/max_user_instances": "128\n",
    "proc/700/stat": stat_line(700, name="llama-server"),
    "proc/700/fdinfo/5": fdinfo(7, "0000:c1:00.0", resident_gtt="3854308 KiB"),
}
CARD = "sys/class/drm/card1/device"


def healthy(root: Path) -> Path:
    for name in ("150e-strix-point", "k10temp-two-ccd"):
        shutil.copytree(CAPTURES / name / "sys", root / "sys", dirs_exist_ok=True)
    return tree(root, BESIDE)


def change(root: Path, changes: Mapping[str, str | None]) -> None:
    """``None``: the file or directory is not there."""
    for name, content in changes.items():
        path = root / name
        if content is not None:
            tree(root, {name: content})
        elif path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def roots(root: Path) -> Roots:
    return Roots(str(root / "sys"), str(root / "proc"))
