"""When the watch last looked, and at what: its status for the service manager; and what it could not look at."""

from __future__ import annotations

from collections.abc import Iterator

from holdtop.model.standing import LONG
from holdtop.model.values import Snapshot
from holdtop.render import clean


def looked_at(snapshot: Snapshot) -> str:
    """When the box was last looked at, and at what."""
    resources = ", ".join(f"{resource.name} {resource.state}" for resource in snapshot.resources)
    known = sum(reading.value is not None for reading in snapshot.readings.values())
    said = f"looked {snapshot.taken_at} at {resources}; {known} of {len(snapshot.readings)} readings known"
    return clean(f"{said}{_of_runners(snapshot)}; flags: {len(snapshot.flags)}", LONG)


def _of_runners(snapshot: Snapshot) -> str:
    """Nothing where there is none."""
    if snapshot.runners_why is not None:
        return "; runners unknown"
    up = [runner.up for runner in snapshot.runners]
    said = [f"{up.count(one)} {word}" for one, word in ((True, "up"), (False, "down"), (None, "unknown")) if one in up]
    at = [runner.registration for runner in snapshot.runners]
    forges = [f"{at.count(word)} {word}" for word in ("online", "offline", "unknown") if word in at]
    return f"; runners: {', '.join(said)}, at their forges {', '.join(forges)}" if said else ""


class Unseen:
    """Runners that could not be looked at: each is said once, until it has been seen again."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def compare(self, snapshot: Snapshot) -> Iterator[str]:
        now = {runner.unit: runner.why for runner in snapshot.runners if runner.why is not None}
        for unit in sorted(now.keys() - self._said):
            yield f"could not look at {unit}: {now[unit]}"
        self._said = set(now)
