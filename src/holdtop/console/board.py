"""The surface of all pages: puts each panel where ``arrange`` says, and keeps the keys on one that is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import ArrangeResult, Layout, WidgetPlacement
from textual.widget import Widget

from holdtop.console.arrange import Box, Demand, arrange
from holdtop.console.view.tabs import Tab
from holdtop.console.widgets import panels
from holdtop.console.widgets.lines import LinesPanel, SourcePanel
from holdtop.console.widgets.pages import ActsPanel, FactsPanel, TabPanel, behind
from holdtop.console.widgets.panel import Look, Panel
from holdtop.console.widgets.rows import Rows
from holdtop.console.world import World


class _Arranged(Layout):
    name = "arranged"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> ArrangeResult:
        del greedy  # the boxes fill the size in any case
        assert isinstance(parent, Board)
        boxes = parent.boxes(size)
        if "footer" in boxes:
            boxes["find"] = boxes["search"] = boxes["footer"]
        return [
            WidgetPlacement(Region(*boxes[child.id]), NULL_OFFSET, Spacing(), child)
            for child in children
            if child.id in boxes
        ]


class Board(Widget):
    """Holds the panels of all pages. A panel that has no place is not drawn and gets no key."""

    def __init__(self, look: Look, world: World, keys: Mapping[str, str], tabs: Sequence[Tab], *others: Widget) -> None:
        """``keys``: which key calls an act."""
        self._world = world
        self.queue = panels.QueuePanel(look, world)
        self.processes = panels.TreePanel(look, world)
        self.flags = panels.FlagPanel(look, world, keys)
        self.sources = SourcePanel(look, world)
        self.lines = LinesPanel(look, world)
        self.acts = ActsPanel(look, world)
        self._facts = FactsPanel(look, world, id="facts")
        events = panels.EventPanel(look, world)
        #: Those that take keys, in the order of Tab.
        self._lists: tuple[Rows[Any], ...] = (
            *(self.queue, self.processes, self.flags, events, self.sources, self.lines),
            *behind(look, world, self.acts),
        )
        self._panels: tuple[Panel, ...] = (
            panels.HeaderPanel(look, world, id="header"),
            TabPanel(look, world, tabs),
            panels.ResourcePanel(look, world, id="resources"),
            panels.MemoryPanel(look, world, id="memory"),
            panels.GaugePanel(look, world, id="gauges"),
            self._facts,
            *self._lists,
        )
        super().__init__(*self._panels, *others, id="board")
        self._demand = Demand()
        self._arranged_for = world.page
        self._arranged = _Arranged()

    @property
    def layout(self) -> Layout:
        """Styles know Textual's own layouts only."""
        return self._arranged

    def boxes(self, size: Size) -> dict[str, Box]:
        """Where the panels of the page that is open are."""
        return arrange(size.width, size.height, self._demand, self._world.page)

    def show(self) -> None:
        """Show the world as it is now; only lines that differ are drawn."""
        shown = self.boxes(self.size)
        for panel in self._panels:
            # The first page's lists say how large they would like to be, even while they have no place.
            if panel.id in shown or (self._world.page == "now" and panel in (self.queue, self.processes, self.flags)):
                panel.see()
        if (demand := self._demanded()) != self._demand or self._world.page != self._arranged_for:
            self._demand, self._arranged_for = demand, self._world.page
            self.queue.refresh(layout=True)  # a child asks, as a parent keeps its own last arrangement

    def _demanded(self) -> Demand:
        snapshot = self._world.snapshot
        return Demand(
            resources=len(snapshot.resources) if snapshot else 1,
            queue=len(self.queue.items),
            tree=len(self.processes.items),
            flags=2 * len(self.flags.items),
            facts=len(self._facts.facts(snapshot, self.size.width)) if snapshot else 0,
            sources=len(self.sources.items),
        )

    def _placed(self) -> list[Rows[Any]]:
        boxes = self.boxes(self.size)
        return [panel for panel in self._lists if panel.id in boxes]

    @property
    def first(self) -> Rows[Any] | None:
        """Who gets the keys when a page is opened: of a log the lines."""
        placed = self._placed()
        return self.lines if self.lines in placed else next(iter(placed), None)

    def go(self, direction: int) -> None:
        """Give the keys to the next list, or to the first one when none has them."""
        placed, focused = self._placed(), self.screen.focused
        if not placed:
            self.screen.set_focus(None)
            return
        place = next((place + direction for place, panel in enumerate(placed) if panel is focused), 0)
        self.screen.set_focus(placed[place % len(placed)])

    def on_resize(self) -> None:
        self.call_after_refresh(self._keep_keys)

    def _keep_keys(self) -> None:
        self.show()  # a sentence takes more lines where it is narrow
        focused = self.screen.focused
        if focused in self._lists and focused is not None and focused.id not in self.boxes(self.size):
            self.go(1)
