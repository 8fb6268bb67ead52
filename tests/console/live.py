"""The real program on hand-made snapshots: ``python -m tests.console.live SCENE [THEME [LOG …]]``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from holdtop.config import Config
from holdtop.console.start import start
from holdtop.model.values import Payload, Snapshot
from tests.console.boxes import AT, BUSY, EVIL, GIB, HOLDER, QUIET, hostile, process, resource, ticket
from tests.console.fakes import FakeOperator

CROWD = replace(
    BUSY, flags=(), resources=(resource("gpu", HOLDER, *(ticket(n, position=n - 12) for n in range(13, 5013))),)
)
BOXES = {"quiet": QUIET, "crowd": CROWD}


def churned(count: int) -> Snapshot:
    """Nothing of the look before stays: other tickets, processes, flags and figures, whose names never come again."""
    first, at = 13 + 7 * count, AT + count
    waiting = [
        ticket(n, position=n - first + 1, lane=f"lane-{count}-{n}") for n in range(first, first + 100 + count % 50)
    ]
    tree = [
        process(n, n - 1 - n % 3, f"worker-{n}", f"--step={n}", cpu_percent=n % 100.0)
        for n in range(first, first + 300)
    ]
    payload = Payload(first, len(tree), count * 1024**2 % (60 * GIB), None, None, "read", tuple(tree))
    holder = replace(
        HOLDER, id=f"{count:010}-1", lane=f"lane-{count}", payload=payload, held_seconds=float(count % 9000)
    )
    flags = [replace(flag, text=f"{flag.text} {count}") for flag in BUSY.flags[: count % 4]]
    readings = {
        name: replace(reading, at=at, value=reading.value and reading.value * (1 + count % 17 / 100))
        for name, reading in BUSY.readings.items()
    }
    return replace(BUSY, at=at, readings=readings, flags=tuple(flags), resources=(resource("gpu", holder, *waiting),))


class Scene:
    """Gives a snapshot ten times a second, of a crowd once; what it shows depends on the scene's name."""

    def __init__(self, name: str, on_snapshot: Callable[[Snapshot], None]) -> None:
        self._name, self._on_snapshot = name, on_snapshot

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def stop(self) -> None:
        """Nothing to wait for."""

    def _run(self) -> None:
        count = 0
        while True:
            count += 1
            self._on_snapshot(self._snapshot(count))
            if self._name == "hang":
                time.sleep(3600)
            time.sleep(1.0 if self._name == "crowd" else 0.1)

    def _snapshot(self, count: int) -> Snapshot:
        if self._name == "churn":
            return churned(count)
        if self._name == "hostile":
            return hostile(EVIL[count // 2 % len(EVIL)])
        box = BOXES.get(self._name, BUSY)
        # Time goes on although nothing changes, as on a real box.
        readings = {name: replace(reading, at=AT + count) for name, reading in box.readings.items()}
        return replace(box, at=AT + count, readings=readings)


if __name__ == "__main__":
    scene = sys.argv[1]
    config = Config(theme=sys.argv[2] if len(sys.argv) > 2 else "dark", logs=tuple(sys.argv[3:]))
    sys.exit(start(config, lambda on: Scene(scene, on), FakeOperator(), read_only=False, state_dir=None))
