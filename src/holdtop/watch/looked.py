"""When the watch last looked, and at what: its status for the service manager."""

from __future__ import annotations

from holdtop.model.standing import LONG
from holdtop.model.values import Snapshot
from holdtop.render import clean


def looked_at(snapshot: Snapshot) -> str:
    """When the box was last looked at, and at what."""
    resources = ", ".join(f"{resource.name} {resource.state}" for resource in snapshot.resources)
    known = sum(reading.value is not None for reading in snapshot.readings.values())
    said = f"looked {snapshot.taken_at} at {resources}; {known} of {len(snapshot.readings)} readings known"
    return clean(f"{said}; flags: {len(snapshot.flags)}", LONG)
