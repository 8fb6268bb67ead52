"""What the receipts of a resource tell of each lane's holds. Foreign text: what is odd in one counts as not known."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from holdtop.model.same import Same

#: Fewer holds than this say nothing about how long the next one takes.
FEWEST = 3
#: Older ones than so many say nothing about today.
NEWEST = 20
#: No hold lasts longer, in seconds; no machine has more, in bytes.
LONGEST = 10 * 365 * 86400.0
_LARGEST = 1 << 50
#: What a peak is of: the payload itself, or all that the device's level rose by, strays included.
PeakSource = Literal["payload", "level"]


@dataclass(frozen=True, slots=True)
class Run:
    """One hold that is over."""

    ticket: str
    lane: str
    #: Shell-quoted and redacted.
    command: str
    #: RFC 3339 of its end; empty when it is not known.
    at: str
    reason: str
    status: int | None
    verdict: str
    held_seconds: float | None
    waited_seconds: float | None
    peak_bytes: int | None
    peak_source: PeakSource | None


@dataclass(frozen=True, slots=True)
class Past:
    """The newest holds like one; by its command where there are enough of those, else of its lane."""

    seconds: tuple[float, ...]
    #: Bytes; the payloads' own where one was read, else what the level rose by.
    peaks: tuple[int, ...]
    peak_source: PeakSource | None


NOTHING = Past((), (), None)


class Archive:
    """All holds that are over, by lane, the oldest first: gone through once, however many tickets ask."""

    def __init__(self, receipts: Sequence[Mapping[str, object]]) -> None:
        """``receipts``: oldest first, one of each hold."""
        #: Of all lanes.
        self.runs = tuple(map(run_of, receipts))
        self.lanes: dict[str, list[Run]] = {}
        for one in self.runs:
            if one.lane:
                self.lanes.setdefault(one.lane, []).append(one)
        self.past = lru_cache(maxsize=1 << 14)(self._past)

    @staticmethod
    def of(receipts: Sequence[Mapping[str, object]]) -> Archive:
        """The same one for the same receipts: a console looks every second, and a hold ends every few minutes."""
        return _archive(Same(receipts))

    def _past(self, lane: str | None, command: tuple[str, ...]) -> Past:
        if lane not in self.lanes:
            return NOTHING
        spelt = (shlex.join(command), " ".join(command))  # the latter of one that was cut short, and has no words
        found = self.lanes[lane]
        alike = [one for one in found if one.command in spelt]
        counted = (alike if len(alike) >= FEWEST else found)[-NEWEST:]
        peaks, source = peaks_of(counted)
        return Past(tuple(one.held_seconds for one in counted if one.held_seconds is not None), peaks, source)


@lru_cache(maxsize=8)
def _archive(same: Same[Sequence[Mapping[str, object]]]) -> Archive:
    return Archive(same.value)


def peaks_of(runs: Sequence[Run]) -> tuple[tuple[int, ...], PeakSource | None]:
    """The payloads' own peaks, or where none was read, what the level rose by; and which of both."""
    known = [(one.peak_source, one.peak_bytes) for one in runs if one.peak_bytes is not None]
    own = tuple(size for source, size in known if source == "payload")
    return (own, "payload") if own else (tuple(size for _, size in known), "level" if known else None)


def sign(source: PeakSource | None) -> str:
    """``~`` before a peak in which others may have had a part."""
    return "~" if source == "level" else ""


def run_of(said: Mapping[str, object]) -> Run:
    """One receipt's hold."""
    memory = said.get("memory")
    of_memory: Mapping[str, object] = memory if isinstance(memory, Mapping) else {}
    peak, source = number(of_memory.get("peak_bytes"), _LARGEST), of_memory.get("peak_source")
    status = said.get("status")
    return Run(
        ticket=str(said.get("ticket")),
        lane=_text(said.get("lane")),
        command=_text(said.get("command")),
        at=_text(said.get("at")),
        reason=_text(said.get("reason")),
        status=status if type(status) is int and abs(status) < 1 << 31 else None,  # a bool is none
        verdict=_text(said.get("verdict")),
        held_seconds=number(said.get("held_seconds"), LONGEST),
        waited_seconds=number(said.get("waited_seconds"), LONGEST),
        peak_bytes=None if peak is None else int(peak),
        # Older holds did not tell the one from the other.
        peak_source=None if peak is None else "payload" if source == "payload" else "level",
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object, limit: float) -> float | None:
    """A number from zero to ``limit``; ``None`` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= limit:
        return float(value)
    return None
