"""How the demo's sensors move: with the load of whoever holds, as on a real box.

The recorded tree gives the shape (card, totals, names of files); this writes the values that change: GTT in
use, busy, power, Tctl, and, as an overlay over ``/proc``, ``meminfo`` and memory pressure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from holdtop.demo.world import World

#: GTT that belongs to nobody on a healthy box: scan-out and the driver's own, in bytes.
SCAN_OUT = 14 * 1024**2
#: The little that every client keeps in the carve-out, in KiB.
VRAM_KIB = 5348
#: RAM of the recorded Strix Halo that the kernel has, in KiB (124.9 GiB of 128 GB).
RAM = 130_967_142
#: RAM that everything but the device uses, as a part of all RAM.
OTHER_RAM = 0.13
#: A program's memory grows for this long after its start, in seconds.
GROWTH = 6.0


class Sensors:
    def __init__(self, world: World) -> None:
        self._world = world
        total = next(iter(sorted(world.sys.glob("class/drm/card*/device/mem_info_gtt_total"))))
        self._device = total.parent
        #: The pool of the device, in bytes.
        self.pool = int(total.read_text())
        self._pdev = self._pci_address()
        self._hwmon = self._chip(self._device / "hwmon", "amdgpu", label=("power1_label", "PPT"))
        self._k10temp = self._chip(world.sys / "class" / "hwmon", "k10temp", label=("temp1_label", "Tctl"))
        self._seen: dict[int, float] = {}
        self._tctl = 48.0

    def move(self, shares: Mapping[int, float], busy: bool, now: float) -> None:
        """Write all values. ``shares``: of the pool, by pid; ``busy``: somebody holds; ``now``: monotonic."""
        begun = now if self._seen else now - GROWTH  # who is there at the first look has been there for long
        self._seen = {pid: self._seen.get(pid, begun) for pid in shares}
        used = 0
        for pid, share in shares.items():
            kib = int(self.pool * share * min(1.0, (now - self._seen[pid]) / GROWTH)) >> 10
            used += kib << 10
            self._world.lay_over(pid, self._fdinfo(pid, kib))
        self._world.forget_all_but(shares)
        load = 84 + 11 * math.sin(now / 2.3) + 4 * math.sin(now * 1.9) if busy else 1 + math.sin(now)
        self._tctl += (44 + 0.42 * load - self._tctl) * 0.12
        self._write_sysfs(used + SCAN_OUT, load)
        self._write_proc(used + SCAN_OUT)

    def _write_sysfs(self, used: int, load: float) -> None:
        watts = 7.5 + 0.48 * load
        put, device = self._world.put, self._device
        put(device / "mem_info_gtt_used", f"{used}\n")
        put(device / "gpu_busy_percent", f"{max(0, min(100, round(load)))}\n")
        for name in ("power1_average", "power1_input"):
            if (self._hwmon / name).exists() or name == "power1_average":
                put(self._hwmon / name, f"{round(watts * 1000) * 1000}\n")
        put(self._k10temp / "temp1_input", f"{round(self._tctl * 8) * 125}\n")

    def _write_proc(self, used: int) -> None:
        available = int(RAM * (1 - OTHER_RAM)) - (used >> 10)
        meminfo = {
            "MemTotal": RAM,
            "MemFree": available // 2,
            "MemAvailable": available,
            "Buffers": 204800,
            "Cached": available // 3,
            "SwapTotal": 0,
        }
        lines = (f"{name + ':':<16}{size:>9} kB\n" for name, size in meminfo.items())
        self._world.put(self._world.overlay / "meminfo", "".join(lines))
        stalled = max(0.0, 6.0 * (used / self.pool - 0.7))
        pressure = "".join(
            f"{kind} avg10={part:.2f} avg60={part / 2:.2f} avg300={part / 4:.2f} total=1186212\n"
            for kind, part in (("some", stalled), ("full", stalled / 3))
        )
        self._world.put(self._world.overlay / "pressure" / "memory", pressure)

    def _fdinfo(self, pid: int, kib: int) -> str:
        """As amdgpu prints it on Linux 6.18 (Documentation/gpu/drm-usage-stats.rst); one client a process."""
        used = {"vram": f"{VRAM_KIB} KiB", "gtt": f"{kib} KiB"}
        facts = {
            "pos": "0",
            "flags": "02100002",
            "mnt_id": "29",
            "ino": "1013",
            "drm-driver": "amdgpu",
            "drm-client-id": str(pid),
            "drm-pdev": self._pdev,
            "pasid": "32771",
        }
        for kind in ("total", "shared", "resident", "purgeable"):
            for region in ("vram", "gtt", "cpu", "doorbell"):
                facts[f"drm-{kind}-{region}"] = used.get(region, "0") if kind in ("total", "resident") else "0"
        facts |= {
            "drm-memory-vram": used["vram"],
            "drm-memory-gtt": used["gtt"],
            "drm-memory-cpu": "0 KiB",
            "amd-evicted-vram": "0 KiB",
            "amd-requested-vram": used["vram"],
            "amd-requested-gtt": used["gtt"],
            "drm-engine-compute": "107322799 ns",
        }
        return "".join(f"{key}:\t{value}\n" for key, value in facts.items())

    def _pci_address(self) -> str:
        try:
            found = re.search(r"^PCI_SLOT_NAME=(\S+)$", (self._device / "uevent").read_text(), re.M)
        except OSError:
            found = None
        return found[1] if found else "0000:c4:00.0"

    def _chip(self, directory: Path, name: str, label: tuple[str, str]) -> Path:
        """The hwmon of that name; added where the recording, which may be partial, has none."""
        for chip in sorted(directory.glob("hwmon*")):
            if (chip / "name").is_file() and (chip / "name").read_text().strip() == name:
                return chip
        chip = directory / "hwmon9"
        self._world.put(chip / "name", f"{name}\n")
        self._world.put(chip / label[0], f"{label[1]}\n")
        return chip
