"""A box's sensors, recorded and rewritten while a hold watches them."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30


class Sensors:
    """A box's sensors as files that a test rewrites."""

    def __init__(self, top: Path) -> None:
        self.overlay, self.sys = top / "overlay", top / "sys"
        self.chip = self.sys / "class/hwmon/hwmon3"
        self.overlay.mkdir()
        self.chip.mkdir(parents=True)
        self.memory(60)
        (self.chip / "name").write_text("k10temp\n")
        (self.chip / "temp2_label").write_text("Tctl\n")
        (self.chip / "temp1_label").write_text("Tdie\n")
        self.heat(50)

    def _write(self, path: Path, text: str) -> None:
        aside = path.with_name(".aside")
        aside.write_text(text)
        aside.rename(path)

    def memory(self, gib: float) -> None:
        self._write(self.overlay / "meminfo", f"MemTotal: 131072000 kB\nMemAvailable: {int(gib * (1 << 20))} kB\n")

    def heat(self, tctl: float, tdie: float = 40) -> None:
        self._write(self.chip / "temp2_input", f"{int(tctl * 1000)}\n")
        self._write(self.chip / "temp1_input", f"{int(tdie * 1000)}\n")

    def card(self) -> None:
        """An APU with 96 GiB of GTT, nothing of it in use; synthetic."""
        device = self.sys / "class/drm/card1/device"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x1002\n")
        (device / "uevent").write_text("PCI_SLOT_NAME=0000:c5:00.0\n")
        for name, size in (("gtt_total", 96 * GIB), ("vram_total", GIB // 2), ("vram_used", GIB // 4)):
            (device / f"mem_info_{name}").write_text(f"{size}\n")
        self.gtt = device / "mem_info_gtt_used"
        self.use(0)

    def use(self, gib: float) -> None:
        self._write(self.gtt, f"{int(gib * GIB)}\n")

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOLDTOP_PROC_OVERLAY": str(self.overlay), "HOLDTOP_SYS": str(self.sys)}
