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
#: From top to bottom in one column.
ORDER = ("flags", "memory", "gauges", "queue", "tree", "events")
#: Rows with which every gauge has a graph of two rows, of one row, or a line without a graph below it.
GAUGES_TALL = (22, 15, 8)
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
    return shown | (_columns(top, width, room, demand) if wide else _stack(top, width, room, demand))


def _wanted(demand: Demand) -> dict[str, int]:
    """Heights with which each panel would be content, titles and column heads included."""
    return {
        "memory": 2,
        "gauges": 2,
        "queue": max(3, 2 + demand.queue),
        "tree": max(4, 2 + demand.tree),
        "flags": max(3, 1 + demand.flags),
        "events": 3,
    }


def _stack(top: int, width: int, room: int, demand: Demand) -> dict[str, Box]:
    heights = dict(LEAST)
    if not demand.flags:
        del heights["flags"]  # the header says that nothing is wrong
    for name in DROPPED_FIRST:
        if sum(heights.values()) <= room:
            break
        heights.pop(name, None)
    _grow(heights, room, _wanted(demand))
    boxes = {}
    for name in ORDER:
        if name in heights:
            boxes[name] = Box(0, top, width, heights[name])
            top += heights[name]
    return boxes


def _grow(heights: dict[str, int], room: int, wanted: Mapping[str, int]) -> None:
    """Give out what is left, in turn, to who is not content; the rest to one panel. A flag has two rows."""
    left = room - sum(heights.values())
    while hungry := [name for name in ORDER if name in heights and heights[name] < wanted[name]]:
        before = left
        for name in hungry:
            rows = 2 if name == "flags" else 1
            if rows <= left:
                heights[name] += rows
                left -= rows
        if left == before:
            break
    for name in ("events", "tree", "queue", "flags"):
        if name in heights:
            heights[name] += left
            return


def _columns(top: int, width: int, room: int, demand: Demand) -> dict[str, Box]:
    """Flags and memory over the whole width; queue and tree at the left, gauges at the right; below, events."""
    boxes = {}
    if demand.flags:
        flags = min(1 + demand.flags, max(3, room // 4 // 2 * 2 + 1))
        boxes["flags"] = Box(0, top, width, flags)
        top, room = top + flags, room - flags
    boxes["memory"] = Box(0, top, width, 3)
    top, room = top + 3, room - 3
    least = max(4, min(8, room // 4))
    gauges = next((rows for rows in GAUGES_TALL if room - rows >= least + 4), GAUGES_TALL[-1])
    wanted = max(2 + demand.queue, LEAST["queue"]) + max(2 + demand.tree, 6)
    upper = min(max(gauges, wanted), room - least)
    boxes["events"] = Box(0, top + upper, width, room - upper)
    right = max(40, width * 2 // 5 if width >= 150 else width // 3)
    left = width - right - 1
    boxes["gauges"] = Box(left + 1, top, right, upper)
    queue = max(LEAST["queue"], min(2 + demand.queue, upper - max(6, min(2 + demand.tree, upper // 2))))
    boxes["queue"] = Box(0, top, left, queue)
    boxes["tree"] = Box(0, top + queue, left, upper - queue)
    return boxes
