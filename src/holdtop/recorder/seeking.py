"""Instants as somebody types them who looks for one in a recording."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from holdtop.errors import UsageError
from holdtop.model.clock import parse

FORMS = "02:14, 02:14:05, a whole instant (2030-01-02T02:14:05+01:00), -10m, +30s, start or end"
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)
_SPAN = re.compile(r"([+-])(\d{1,9})([smhd]?)", re.ASCII)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def instant(text: str, shown: datetime, first: datetime, last: datetime) -> datetime:
    """What ``text`` means while ``shown`` is looked at; a time of day is the last one that is in the recording.

    Raises ``UsageError`` for what is none of ``FORMS``.
    """
    text = text.strip()
    if text in ("start", "end"):
        return first if text == "start" else last
    if clock := _CLOCK.fullmatch(text):
        hour, minute, second = (int(part or 0) for part in clock.groups())
        found = last.replace(hour=hour, minute=minute, second=second, microsecond=0)
        return found if found <= last else found - timedelta(days=1)
    if span := _SPAN.fullmatch(text):
        by = min(last - first, timedelta(seconds=int(span[2])) * _SECONDS[span[3]])
        return min(max(shown + (by if span[1] == "+" else -by), first), last)
    if (whole := parse(text)) is not None:
        return whole
    raise UsageError(f"{text!r} is no instant; write {FORMS}")
