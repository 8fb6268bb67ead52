"""Which panel stands where, as pure arithmetic: the same answer for the same size and demand.

Two columns where there is room, one below that. When it gets tight, panels are dropped in a fixed order
(``DROPPED_FIRST``) until the rest has its least height; what is left over then goes to who can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Box(NamedTuple):
    x: int
    y: int
    width: int
    height: int


class Demand(NamedTuple):
    """Rows that the panels could fill, without their titles."""

    resources: int = 1
    queue: int = 0
    tree: int = 0
    flags: int = 0


#: Least useful heights, titles included.
LEAST: Mapping[str, int] = {"memory": 1, "gauges": 1, "queue": 3, "tree": 4, "flags": 3, "events": 3}
DROPPED_FIRST = ("events", "gauges", "tree", "memory", "queue", "flags")
WIDE = 110
TALL = 30


def arrange(width: int, height: int, demand: Demand) -> dict[str, Box]:
    """The panels that are shown, by name, in cells of the screen."""
    if width < 1 or height < 1:
        return {}
    shown = {"header": Box(0, 0, width, 1)}
    if height < 2:
        return shown
    shown["footer"] = Box(0, height - 1, width, 1)
    wide = width >= WIDE and height >= TALL
    resources = max(0, min(demand.resources, height - 2, 8 if wide else 4))
    if resources:
        shown["resources"] = Box(0, 1, width, resources)
    top, room = 1 + resources, height - 2 - resources
    if width < 40 or room < 1:
        return shown
    return shown | (_columns(top, width, room, demand) if wide else _stack(0, top, width, room, demand))


def _wanted(demand: Demand) -> dict[str, int]:
    """Heights with which each panel would be content, titles and column heads included."""
    return {
        "memory": 2,
        "gauges": 2,
        "queue": max(3, 2 + demand.queue),
        "tree": max(4, 2 + demand.tree),
        "flags": max(3, 1 + demand.flags),
        "events": 12,
    }


def _stack(x: int, top: int, width: int, room: int, demand: Demand) -> dict[str, Box]:
    heights = dict(LEAST)
    if not demand.flags:
        del heights["flags"]  # the header says that nothing is wrong
    for name in DROPPED_FIRST:
        if sum(heights.values()) <= room:
            break
        heights.pop(name, None)
    _grow(heights, room, _wanted(demand), ("memory", "gauges", "flags", "queue", "tree", "events"))
    order = ("memory", "gauges", "queue", "tree", "flags", "events")
    boxes = {}
    for name in order:
        if name in heights:
            boxes[name] = Box(x, top, width, heights[name])
            top += heights[name]
    return boxes


def _grow(heights: dict[str, int], room: int, wanted: Mapping[str, int], names: tuple[str, ...]) -> None:
    """Give out what is left, a row at a time in turn, to who is not content; the rest to one panel."""
    left = room - sum(heights.values())
    while left > 0:
        hungry = [name for name in names if name in heights and heights[name] < wanted[name]]
        if not hungry:
            break
        for name in hungry[:left]:
            heights[name] += 1
        left -= min(left, len(hungry))
    for name in ("tree", "queue", "flags", "events"):
        if left > 0 and name in heights:
            heights[name] += left
            return


def _columns(top: int, width: int, room: int, demand: Demand) -> dict[str, Box]:
    memory = 3 if room >= 34 else 2
    boxes = {"memory": Box(0, top, width, memory)}
    top, room = top + memory, room - memory
    events = max(6, room // 4)
    boxes["events"] = Box(0, top + room - events, width, events)
    room -= events
    right = max(44, width * 2 // 5)
    left = width - right - 1
    gauges = 22 if room >= 34 else 15 if room >= 28 else 8
    boxes["gauges"] = Box(left + 1, top, right, gauges)
    boxes["flags"] = Box(left + 1, top + gauges, right, room - gauges)
    queue = max(LEAST["queue"], min(2 + demand.queue, room - max(8, min(2 + demand.tree, room // 2))))
    boxes["queue"] = Box(0, top, left, queue)
    boxes["tree"] = Box(0, top + queue, left, room - queue)
    return boxes
