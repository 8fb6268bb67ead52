"""The main screen's surface: puts each panel where ``arrange`` says, and keeps the keys on one that is shown."""

from __future__ import annotations

from collections.abc import Mapping

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from holdtop.console.arrange import Demand, arrange
from holdtop.console.widgets import panels
from holdtop.console.widgets.panel import Look, Panel
from holdtop.console.world import World

#: The panels that take keys, in the order of Tab.
LISTS = ("queue", "tree", "flags", "events")


class _Arranged(Layout):
    name = "arranged"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        del greedy  # the boxes fill the size in any case
        demand = parent.demand if isinstance(parent, Board) else Demand()
        boxes = arrange(size.width, size.height, demand)
        if "footer" in boxes:
            boxes["find"] = boxes["footer"]
        return [
            WidgetPlacement(Region(*boxes[child.id]), NULL_OFFSET, Spacing(), child)
            for child in children
            if child.id in boxes
        ]


class Board(Widget):
    """Holds the panels. A panel that has no place is not drawn and gets no key."""

    def __init__(self, look: Look, world: World, keys: Mapping[str, str], *others: Widget) -> None:
        """``keys``: which key calls an act."""
        self.queue = panels.QueuePanel(look, world)
        self.processes = panels.TreePanel(look, world)
        self.flags = panels.FlagPanel(look, world, keys)
        self.events = panels.EventPanel(look, world)
        self._fixed: tuple[Panel, ...] = (
            panels.HeaderPanel(look, world, id="header"),
            panels.ResourcePanel(look, world, id="resources"),
            panels.MemoryPanel(look, world, id="memory"),
            panels.GaugePanel(look, world, id="gauges"),
        )
        super().__init__(*self._fixed, self.queue, self.processes, self.flags, self.events, *others, id="board")
        self.demand = Demand()
        self._arranged = _Arranged()

    @property
    def layout(self) -> Layout:
        """Styles know Textual's own layouts only."""
        return self._arranged

    def show(self, world: World) -> None:
        """Show the world as it is now; only lines that differ are drawn."""
        self.queue.show([*world.tickets(), *world.entries()])
        self.flags.show(world.flags())
        self.processes.show(world.nodes())
        self.events.show_log()
        for panel in self._fixed:
            panel.look_again()
        resources = len(world.snapshot.resources) if world.snapshot else 1
        demand = Demand(resources, len(self.queue.items), len(self.processes.items), 2 * len(self.flags.items))
        if demand != self.demand:
            self.demand = demand
            self.queue.refresh(layout=True)  # a child asks, as a parent keeps its own last arrangement

    def go(self, direction: int) -> None:
        """Give the keys to the next panel, or to the first one when none has them."""
        boxes = arrange(*self.size, self.demand)
        placed = [name for name in LISTS if name in boxes]
        focused = self.screen.focused
        now = focused.id if focused is not None else None
        if not placed:
            self.screen.set_focus(None)
            return
        place = placed.index(now) + direction if now in placed else 0
        self.screen.set_focus(self.query_one(f"#{placed[place % len(placed)]}"))

    def on_resize(self) -> None:
        self.call_after_refresh(self._keep_keys)

    def _keep_keys(self) -> None:
        focused = self.screen.focused
        if focused is not None and focused.id in LISTS and focused.id not in arrange(*self.size, self.demand):
            self.go(1)
