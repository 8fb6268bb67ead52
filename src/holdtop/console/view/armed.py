"""The limits at which running holds end themselves, as levels of the gauges."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdtop.model.values import Snapshot
from holdtop.render import GIB

#: A hold's ceiling of Tctl (``95C``) and floor of MemAvailable (``8GiB``): foreign text, as all of a ticket.
_CEILING = re.compile(r"(\d{1,4}(?:\.\d+)?)\s?C?")
_FLOOR = re.compile(r"(\d{1,6}(?:\.\d+)?)\s?(?:GiB)?")


def armed(snapshot: Snapshot) -> dict[str, float]:
    """By the name of the reading, in its unit; of several holds the one that ends first."""
    ceilings = [float(number) for number in _limits(snapshot, "tctl-abort", _CEILING)]
    floors = [float(number) * GIB for number in _limits(snapshot, "mem-abort-gib", _FLOOR)]
    levels = {}
    if ceilings:
        levels["tctl_celsius"] = min(ceilings)
    if floors:
        levels["mem_available_bytes"] = max(floors)
    return levels


def _limits(snapshot: Snapshot, name: str, form: re.Pattern[str]) -> Iterator[str]:
    for resource in snapshot.resources:
        limits = resource.holder.limits if resource.holder and resource.state != "ghost" else {}
        if found := form.fullmatch(limits.get(name, "")):
            yield found[1]
