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
    facts: int = 0
    sources: int = 0


class Stack(NamedTuple):
    """The panels of a page in one column."""

    #: Least useful heights, titles included; from top to bottom.
    least: Mapping[str, int]
    #: What goes first when it gets tight.
    dropped_first: tuple[str, ...]
    #: Who takes what nobody needs: the first of these that is shown.
    fillers: tuple[str, ...]
    #: Who is content before anybody else gets more than the least.
    first: str = ""


PAGES: Mapping[str, Stack] = {
    "now": Stack(
        {"flags": 3, "memory": 1, "gauges": 1, "queue": 3, "tree": 3, "events": 2},
        ("events", "gauges", "tree", "memory", "queue", "flags"),
        ("events", "tree", "queue", "flags"),
    ),
    "ticket": Stack(
        {"queue": 3, "facts": 3, "tree": 4, "past": 3, "own": 3},
        ("past", "own", "tree", "queue", "facts"),
        ("own", "tree", "queue", "facts"),
        "facts",
    ),
    "logs": Stack({"sources": 3, "lines": 3}, ("sources", "lines"), ("lines",)),
    "audit": Stack({"acts": 3, "receipts": 4}, ("receipts", "acts"), ("acts",)),
    "runners": Stack({"runners": 3}, ("runners",), ("runners",)),
}
DROPPED_FIRST = PAGES["now"].dropped_first
#: Rows of the queue, with title and head, that no other panel grows before: four tickets.
QUEUED = 6
#: The row of the pages' names is shown from this height on.
TABBED = 16
#: Rows with which every gauge has a graph of two rows, of one row, or a line without a graph below it.
GAUGES_TALL = (22, 15, 8)
WIDE = 110
TALL = 30
#: A terminal smaller than this cannot show whom an act would hit.
LEAST = (40, 10)


def arrange(width: int, height: int, demand: Demand, page: str = "now") -> dict[str, Box]:
    """The panels of a page that are shown, by name, in cells of the screen."""
    if width < 1 or height < 1:
        return {}
    shown = {"header": Box(0, 0, width, 1)}
    if height < 2:
        return shown
    shown["footer"] = Box(0, height - 1, width, 1)
    top = 1
    if height >= TABBED:
        shown["tabs"] = Box(0, 1, width, 1)
        top = 2
    wide = width >= WIDE and height >= TALL
    resources = max(0, min(demand.resources, height - 1 - top, 8 if wide else 4)) if page == "now" else 0
    if resources:
        shown["resources"] = Box(0, top, width, resources)
    top += resources
    room = height - 1 - top
    if (width < 40 and page == "now") or room < 1:
        return shown
    if wide and page == "now":
        return shown | _columns(top, width, room, demand)
    if page == "ticket":
        demand = demand._replace(queue=min(demand.queue, room // 5))
    boxes = _stack(PAGES[page], top, width, room, _wanted(demand, room))
    return shown | (_side_by_side(boxes, "past", "own") if wide else boxes)


def _wanted(demand: Demand, room: int) -> dict[str, int]:
    """Heights with which each panel would be content, titles and column heads included."""
    return {
        "memory": 2,
        "gauges": 2,
        "queue": max(3, 2 + demand.queue),
        "tree": max(4, 2 + demand.tree),
        "flags": max(3, 1 + demand.flags) if demand.flags else 0,
        "events": 2,
        "facts": max(3, 1 + demand.facts),
        "past": max(3, min(2 + 5, room // 4)),
        "own": max(3, room // 4),
        "sources": max(3, min(2 + demand.sources, room // 3)),
        "lines": 3,
        "acts": 3,
        "receipts": max(4, room // 2),
        "runners": 3,
    }


def _stack(page: Stack, top: int, width: int, room: int, wanted: Mapping[str, int]) -> dict[str, Box]:
    heights = dict(page.least)
    if not wanted["flags"]:
        heights.pop("flags", None)  # the header says that nothing is wrong
    for name in page.dropped_first:
        if sum(heights.values()) <= room:
            break
        heights.pop(name, None)
    if "queue" in heights and "events" in heights:  # who waits comes before more of anything else
        queue = min(wanted["queue"], QUEUED)
        heights["queue"] += min(max(0, queue - heights["queue"]), room - sum(heights.values()))
    if page.first in heights:
        heights[page.first] += min(wanted[page.first] - heights[page.first], room - sum(heights.values()))
    _grow(heights, room, wanted, page.fillers)
    boxes = {}
    for name in heights:
        boxes[name] = Box(0, top, width, heights[name])
        top += heights[name]
    return boxes


def _grow(heights: dict[str, int], room: int, wanted: Mapping[str, int], fillers: tuple[str, ...]) -> None:
    """Give out what is left, in turn, to who is not content; the rest to one panel. A flag has two rows."""
    left = room - sum(heights.values())
    while hungry := [name for name in heights if heights[name] < wanted[name]]:
        before = left
        for name in hungry:
            rows = 2 if name == "flags" else 1
            if rows <= left:
                heights[name] += rows
                left -= rows
        if left == before:
            break
    for name in fillers:
        if name in heights:
            heights[name] += left
            return


def _side_by_side(boxes: dict[str, Box], one: str, other: str) -> dict[str, Box]:
    """Two panels, one above the other, as two columns."""
    if one not in boxes or other not in boxes:
        return boxes
    (_, top, width, height), more = boxes[one], boxes[other].height
    half = width // 2
    return boxes | {
        one: Box(0, top, half - 1, height + more),
        other: Box(half, top, width - half, height + more),
    }


def _columns(top: int, width: int, room: int, demand: Demand) -> dict[str, Box]:
    """Flags and memory over the whole width; queue and tree at the left, gauges at the right; below, events."""
    boxes = {}
    if demand.flags:
        flags = min(1 + demand.flags, max(3, room // 4 // 2 * 2 + 1))
        boxes["flags"] = Box(0, top, width, flags)
        top, room = top + flags, room - flags
    boxes["memory"] = Box(0, top, width, 3)
    top, room = top + 3, room - 3
    least, least_queue = max(4, min(8, room // 4)), PAGES["now"].least["queue"]
    gauges = next((rows for rows in GAUGES_TALL if room - rows >= least + 4), GAUGES_TALL[-1])
    wanted = max(2 + demand.queue, least_queue) + max(2 + demand.tree, 6)
    upper = min(max(gauges, wanted), room - least)
    boxes["events"] = Box(0, top + upper, width, room - upper)
    right = max(40, width // 3)
    left = width - right - 1
    boxes["gauges"] = Box(left + 1, top, right, upper)
    queue = min(2 + demand.queue, max(QUEUED, upper - max(6, min(2 + demand.tree, upper // 2))))
    queue = min(max(least_queue, queue), upper - 3)
    boxes["queue"] = Box(0, top, left, queue)
    boxes["tree"] = Box(0, top + queue, left, upper - queue)
    return boxes
