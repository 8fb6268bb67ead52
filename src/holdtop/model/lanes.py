"""What each lane's holds took so far: the figures of ``holdtop history``. What no hold has said is ``None``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdtop.model.past import Archive, PeakSource, Run, peaks_of


@dataclass(frozen=True, slots=True)
class Summary:
    """Some runs together: of a lane, or of one command of it."""

    runs: int
    #: The middle one, and one that nine in ten do not exceed.
    held_median_seconds: float | None
    held_p90_seconds: float | None
    waited_median_seconds: float | None
    waited_p90_seconds: float | None
    #: The greatest.
    peak_bytes: int | None
    peak_source: PeakSource | None
    last: Run


@dataclass(frozen=True, slots=True)
class Lane:
    name: str
    whole: Summary
    #: By command, as the receipts spell it; whatever ran last first.
    commands: dict[str, Summary]


def lanes(archive: Archive) -> list[Lane]:
    """Whoever held last first."""
    found = []
    for name, runs in archive.lanes.items():
        commands: dict[str, list[Run]] = {}
        for one in reversed(runs):
            commands.setdefault(one.command, []).append(one)
        found.append(Lane(name, summary(runs), {command: summary(some[::-1]) for command, some in commands.items()}))
    newest = {one.lane: place for place, one in enumerate(archive.runs)}
    return sorted(found, key=lambda lane: newest[lane.name], reverse=True)


def summary(runs: Sequence[Run]) -> Summary:
    """``runs``: oldest first, at least one."""
    held, waited = _known(one.held_seconds for one in runs), _known(one.waited_seconds for one in runs)
    peaks, source = peaks_of(runs)
    return Summary(
        runs=len(runs),
        held_median_seconds=_ranked(held, 0.5),
        held_p90_seconds=_ranked(held, 0.9),
        waited_median_seconds=_ranked(waited, 0.5),
        waited_p90_seconds=_ranked(waited, 0.9),
        peak_bytes=max(peaks, default=None),
        peak_source=source,
        last=runs[-1],
    )


def _known(values: Iterable[float | None]) -> list[float]:
    return sorted(value for value in values if value is not None)


def _ranked(ordered: Sequence[float], part: float) -> float | None:
    """The nearest rank: a value that was really seen."""
    return ordered[math.ceil(part * len(ordered)) - 1] if ordered else None
