"""Instants of a snapshot as spans of time. Nothing here reads a clock: the snapshot has its own time."""

from __future__ import annotations

import os
import time
from datetime import datetime

from holdtop.render import UNKNOWN

_TICKS = os.sysconf("SC_CLK_TCK")
#: CLOCK_BOOTTIME counts a suspended machine too, as start_ticks do (proc(5)), CLOCK_MONOTONIC does not.
_SUSPENDED = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic()


def parse(instant: str | None) -> datetime | None:
    """An RFC 3339 text with offset; ``None`` for anything else."""
    if instant is None:
        return None
    try:
        parsed = datetime.fromisoformat(instant)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None


def seconds_until(instant: str | None, now: str) -> float | None:
    """From ``now`` to ``instant``, negative when it has passed; ``None`` when either is not known."""
    then, base = parse(instant), parse(now)
    return None if then is None or base is None else (then - base).total_seconds()


def process_age(start_ticks: int, at: float) -> float:
    """Seconds from a process's start to the monotonic instant ``at``."""
    return max(0.0, at + _SUSPENDED - start_ticks / _TICKS)


def coarse(seconds: float | None, unknown: str = UNKNOWN) -> str:
    """Like ``duration_text`` but its greatest unit alone below a day, so that a table rarely changes."""
    if seconds is None:
        return unknown
    sign, whole = ("-", int(-seconds)) if seconds < 0 else ("", int(seconds))
    if whole < 60:
        return f"{sign}{whole}s"
    if whole < 3600:
        return f"{sign}{whole // 60}m"
    if whole < 86400:
        return f"{sign}{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{sign}{whole // 86400}d{whole % 86400 // 3600:02}h"
