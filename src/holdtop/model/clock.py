"""Instants as text, compared without believing any clock too much."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from holdtop.model.raw import Raw


def parse(text: object) -> datetime | None:
    """An RFC 3339 instant with offset; ``None`` for anything else."""
    return _parsed(text) if isinstance(text, str) else None


@lru_cache(maxsize=1 << 15)
def _parsed(text: str) -> datetime | None:
    """Each look asks again for the stamps of everybody who waits."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None


def since(text: object, now: str) -> float | None:
    """Seconds from that instant to ``now``, negative when it lies ahead; ``None`` when either is not known."""
    then, base = parse(text), parse(now)
    return None if then is None or base is None else (base - then).total_seconds()


def age_of(start_ticks: int, raw: Raw) -> float:
    """Seconds since a process started. By the boot's own clock, which nobody sets."""
    return max(0.0, raw.since_boot - start_ticks / raw.ticks_per_second)
