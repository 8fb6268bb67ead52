"""The panels of the main screen, each a view of the one world."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence

from textual.geometry import Size

from holdtop.console.events import LogLine, log_row, matches
from holdtop.console.view.figures import other_pool
from holdtop.console.view.flags import ROWS, flag_rows
from holdtop.console.view.gauges import gauge_lines, gauge_strip
from holdtop.console.view.header import header
from holdtop.console.view.memory import headroom, memory_lines
from holdtop.console.view.queue import entry_row, queue_head, queue_row
from holdtop.console.view.resources import resource_lines
from holdtop.console.view.subject import Entry, FlagKey, TicketKey, flag_key
from holdtop.console.view.text import Line, Span, line, title, wrapped
from holdtop.console.view.tree import Node, tree_detail, tree_head, tree_row, tree_words
from holdtop.console.widgets.panel import Look, Panel
from holdtop.console.widgets.rows import Rows
from holdtop.console.world import World
from holdtop.model.values import Flag, Snapshot, Ticket
from holdtop.render import counted


class Shown(Panel):
    """A panel without rows: what it shows follows from the world alone."""

    def __init__(self, look: Look, world: World, *, id: str) -> None:
        super().__init__(look, id=id)
        self.world = world

    def lines(self, size: Size) -> Sequence[Line]:
        return self.of(self.world.snapshot, size) if self.world.snapshot is not None else ()

    def of(self, snapshot: Snapshot, size: Size) -> Sequence[Line]:
        raise NotImplementedError


class HeaderPanel(Shown):
    SURFACE = "panel"

    def lines(self, size: Size) -> Sequence[Line]:
        world = self.world
        shown = header(
            world.snapshot,
            size.width,
            self.look.glyphs,
            read_only=world.read_only,
            silent_for=world.silent_for,
            replay=world.replay,
        )
        return (shown,)


class ResourcePanel(Shown):
    def of(self, snapshot: Snapshot, size: Size) -> Sequence[Line]:
        return resource_lines(snapshot, size.width, self.look.glyphs)


class MemoryPanel(Shown):
    def of(self, snapshot: Snapshot, size: Size) -> Sequence[Line]:
        width, height = size
        named = height > 2
        drawn = memory_lines(snapshot, width, height - named, self.look.glyphs, named=named)
        return [title("Memory", headroom(snapshot), width, self.look.glyphs), *drawn] if named else drawn


class GaugePanel(Shown):
    def of(self, snapshot: Snapshot, size: Size) -> Sequence[Line]:
        history, glyphs, (width, height) = self.world.history, self.look.glyphs, size
        if height < 4:
            return gauge_strip(snapshot, history, width, height, glyphs)
        device = f" {glyphs.dot} ".join(filter(None, (snapshot.device or "no card found", other_pool(snapshot))))
        drawn = gauge_lines(snapshot, history, width, height - 1, glyphs)
        return [title("Device", device, width, glyphs), *drawn]


class QueuePanel(Rows[Ticket | Entry]):
    NAME = "Queue"

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="queue")
        self.world = world

    def see(self) -> None:
        self.show([*self.world.tickets(), *self.world.entries()])

    def key_of(self, item: Ticket | Entry) -> TicketKey:
        return TicketKey(item.resource, item.id)

    def draw(self, item: Ticket | Entry, width: int, selected: bool) -> Sequence[Line]:
        now = self.world.snapshot.taken_at if self.world.snapshot else ""
        chosen = selected and self.key_of(item) == self.world.subject
        if isinstance(item, Entry):
            return (entry_row(item, width, self.look.glyphs, selected=chosen),)
        ghost = self.world.ghosts().get(item.resource) if item.position == 0 else None
        pool = self.world.pool
        return (queue_row(item, now, width, self.look.glyphs, pool=pool, ghost=ghost, selected=chosen),)

    def detail(self) -> str:
        resources = self.world.snapshot.resources if self.world.snapshot else ()
        waiting = sum(len(resource.waiting) for resource in resources)
        sort = "" if self.world.sort == "position" else f" by {self.world.sort}"
        return f"{waiting or 'nobody'} waiting{sort}{_filtered(self.world)}"

    def head(self) -> Line | None:
        return queue_head(self.size.width, self.look.glyphs, self.world.pool) if self.items else None

    def empty(self) -> Sequence[Line]:
        words = "No ticket matches the filter." if self.world.wanted else "Nobody holds, nobody waits."
        return (line(Span(f"   {words}", "muted")),)


class TreePanel(Rows[Node]):
    NAME = "Processes"

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="tree")
        self.world = world

    def see(self) -> None:
        self.show(self.world.nodes())

    def key_of(self, item: Node) -> Hashable:
        return item.process.pid, item.process.start_ticks

    def draw(self, item: Node, width: int, selected: bool) -> Sequence[Line]:
        at = self.world.snapshot.at if self.world.snapshot else 0.0
        marked, chosen = self.world.marks([item.process.pid]), selected and self.has_focus
        return (tree_row(item, at, width, self.look.glyphs, selected=chosen, marked=marked),)

    def detail(self) -> str:
        snapshot = self.world.snapshot
        return tree_detail(snapshot, self.world.subject) if snapshot else ""

    def head(self) -> Line | None:
        return tree_head(self.size.width, self.look.glyphs, self.world.pool) if self.items else None

    def empty(self) -> Sequence[Line]:
        if self.world.snapshot is None:
            return ()
        if self.world.page == "ticket":  # all else stands above
            return (line(Span("   No process of it is known.", "muted")),)
        if self.world.wanted and self.world.subject is None:
            return (line(Span("   No row matches the filter.", "muted")),)
        words = tree_words(self.world.snapshot, self.world.subject)
        return [part for text in words for part in wrapped(text, self.size.width, self.look.glyphs)]


class FlagPanel(Rows[Flag]):
    NAME = "Flags"
    TALL = ROWS

    def __init__(self, look: Look, world: World, keys: Mapping[str, str]) -> None:
        """``keys``: which key calls an act."""
        super().__init__(look, id="flags")
        self.world = world
        self._keys = keys

    def see(self) -> None:
        self.show(self.world.flags())

    def key_of(self, item: Flag) -> FlagKey:
        return flag_key(item)

    def draw(self, item: Flag, width: int, selected: bool) -> Sequence[Line]:
        now = self.world.snapshot.taken_at if self.world.snapshot else ""
        chosen = selected and self.key_of(item) == self.world.subject
        marked = self.world.marks(item.pids)
        keys = {} if self.world.read_only else self._keys  # none ends anything there, in a recording least of all
        return flag_rows(item, now, width, self.look.glyphs, keys, selected=chosen, marked=marked)

    def detail(self) -> str:
        if marked := self.world.marked:
            return f"{counted(len(marked), 'process', 'processes')} marked, {self._keys['kill']} ends all of them"
        return "worst first" if self.items else ""

    def empty(self) -> Sequence[Line]:
        if self.world.snapshot is None:
            return ()
        return (line(Span("   Nothing is wrong.", "muted")),)


class EventPanel(Rows[LogLine]):
    """The newest lines at the bottom; moving up stops following, the end follows again."""

    NAME = "Events"

    def __init__(self, look: Look, world: World, *, id: str = "events") -> None:
        super().__init__(look, id=id)
        self.world = world
        self._following = True

    @property
    def index(self) -> int:
        last = max(0, len(self.items) - 1)
        return last if self._following else min(super().index, last)

    def key_of(self, item: LogLine) -> Hashable:
        return id(item)

    def action_move(self, by: int) -> None:
        place = self.index + by
        self._following = place >= len(self.items) - 1
        super().action_move(by)

    def chosen(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Those that are shown. A subclass narrows them first."""
        world = self.world
        return [line for line in lines if not world.wanted or matches(line, world.kept.lane_of(line), world.wanted)]

    def see(self) -> None:
        self.show(self.chosen(self.world.kept.lines()))

    def draw(self, item: LogLine, width: int, selected: bool) -> Sequence[Line]:
        return self.row(item, width, selected)

    def row(self, item: LogLine, width: int, selected: bool, *, found: bool = False, shift: int = 0) -> Sequence[Line]:
        marked = selected and self.has_focus and not self._following
        lane, glyphs = self.world.kept.lane_of(item), self.look.glyphs
        return (log_row(item, lane, width, glyphs, selected=marked, found=found, shift=shift),)

    def detail(self) -> str:
        state = "the newest last" if self._following else "stopped here, End follows again"
        return f"{state}{_filtered(self.world)}"

    def empty(self) -> Sequence[Line]:
        words = "No line matches the filter." if self.world.wanted else "Nothing yet."
        return (line(Span(f"   {words}", "muted")),)


def _filtered(world: World) -> str:
    return f", filtered: {world.wanted}" if world.wanted else ""
