"""Where sensors and processes are read from: this box, or a recorded tree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Roots:
    """``overlay`` lays device facts over the live table: ``meminfo``, ``pressure/*``, ``PID/fd``, ``PID/fdinfo``."""

    sys: str = "/sys"
    proc: str = "/proc"
    overlay: str | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] = os.environ) -> Roots:
        return cls(
            environ.get("HOLDTOP_SYS") or "/sys",
            environ.get("HOLDTOP_PROC") or "/proc",
            environ.get("HOLDTOP_PROC_OVERLAY") or None,
        )

    @property
    def live(self) -> bool:
        """The process table is the kernel's own: what it shows may be acted on."""
        return self.proc == "/proc"

    @property
    def said(self) -> tuple[str, ...]:
        """What is not the live box, as the variables would say it."""
        named = (
            ("HOLDTOP_SYS", self.sys, "/sys"),
            ("HOLDTOP_PROC", self.proc, "/proc"),
            ("HOLDTOP_PROC_OVERLAY", self.overlay, None),
        )
        return tuple(f"{name}={path}" for name, path, usual in named if path != usual)

    def proc_file(self, name: str) -> str:
        """A file of ``/proc``; the overlay's where it exists."""
        if self.overlay and os.path.lexists(laid_over := os.path.join(self.overlay, name)):
            return laid_over
        return os.path.join(self.proc, name)
