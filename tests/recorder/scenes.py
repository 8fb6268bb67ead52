"""A short story to record: somebody takes, a flag goes up, the hold is ended by its limit, the box is quiet again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from holdtop.model.values import Snapshot
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import COARSE, FINE, Bounds
from tests.console.boxes import BUSY, FLAGS, HOLDER, QUIET, resource

START = datetime.fromisoformat("2030-01-02T02:14:00+00:00")
RECEIPT: dict[str, Any] = {
    "at": "2030-01-02T02:14:03+00:00",
    "ticket": HOLDER.id,
    "lane": HOLDER.lane,
    "command": "train --password hunter2",
    "reason": "max-hold",
    "status": 124,
    "held_seconds": 5400.0,
    "verdict": "dirty",
    "left": [{"pid": 5005, "name": "rocm-smi", "why": "unkillable"}],
    "memory": {"pool": "gtt", "before_bytes": 1 << 30, "peak_bytes": 41 << 30, "after_bytes": 8 << 30, "state": "left"},
}


def at(second: float, snapshot: Snapshot) -> Snapshot:
    taken = (START + timedelta(seconds=second)).isoformat(timespec="seconds")
    return replace(snapshot, taken_at=taken, at=1000.0 + second)


#: Five looks, a second apart.
STORY = tuple(
    at(second, snapshot)
    for second, snapshot in enumerate(
        (
            QUIET,
            replace(BUSY, flags=()),
            BUSY,
            replace(BUSY, flags=FLAGS[:1], resources=(resource("gpu", None, receipts=(RECEIPT,)),)),
            replace(QUIET, resources=(resource("gpu", None, receipts=(RECEIPT,)),)),
        )
    )
)

SETTLING: dict[str, Any] = {**RECEIPT, "reason": "exited", "status": 0, "verdict": "settling", "left": []}
#: A hold whose memory comes back after its token: one release, and one leak while it lasts.
SETTLED = tuple(
    at(second, replace(QUIET, resources=(resource("gpu", None, receipts=receipts),)))
    for second, receipts in enumerate(
        ((), (SETTLING,), ({**SETTLING, "at": "2030-01-02T02:14:09+00:00", "verdict": "clean"},))
    )
)


def record(
    path: Path, looks: Iterable[Snapshot], bounds: Sequence[Bounds] = (FINE, COARSE), said: list[str] | None = None
) -> None:
    recorder = Recorder(str(path), (said if said is not None else []).append, bounds)
    for snapshot in looks:
        recorder.take(snapshot)
    recorder.close()


def read(path: Path) -> list[Snapshot]:
    recording = Recording(str(path))
    return [recording.snapshot(position) for position in range(len(recording.instants))]
