"""The page of logs: which logs there are, and one of them, filtered and searched."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding

from holdtop.console.events import LEVELS, LogLine
from holdtop.console.marks import Marks
from holdtop.console.messages import Found, Reach
from holdtop.console.view.logs import EVENTS, source_head, source_row
from holdtop.console.view.queue import short_id
from holdtop.console.view.text import Line
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.panels import EventPanel
from holdtop.console.widgets.rows import Rows
from holdtop.console.world import World
from holdtop.render import bytes_text

#: Cells by which an arrow moves long lines.
SHIFT = 20
#: How often a search backwards reads more for one key: 4 MiB of a log.
SEEK = 16


class SourcePanel(Rows[str]):
    """The events of all holds (an empty path), each file that the configuration names, and the holds' own logs."""

    NAME = "Logs"

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="sources")
        self.world = world
        self.key = ""

    def key_of(self, item: str) -> Hashable:
        return item

    def see(self) -> None:
        self.show(["", *self.world.logs, *reversed(self.world.held_logs)])

    def draw(self, item: str, width: int, selected: bool) -> Sequence[Line]:
        return (source_row(item, self.world.kept.lines(item), width, self.look.glyphs, selected=selected),)

    def head(self) -> Line | None:
        return source_head(self.size.width, self.look.glyphs)

    def detail(self) -> str:
        return "followed live" if len(self.items) > 1 else 'more of them: logs = ["/path"] in the configuration'


class LinesPanel(EventPanel):
    """One log, of which a search marks lines, and which is read back from its first line on."""

    NAME = "Log"
    BINDINGS: ClassVar = [
        Binding("left", "shift(-1)", show=False),
        Binding("right", "shift(1)", show=False),
    ]

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, world, id="lines")
        self.marks = Marks(self)
        self._shift = 0
        #: More was asked for and has not come; and how often the search may still ask.
        self._reaching = False
        self._seek = 0

    def chosen(self, lines: Iterable[LogLine]) -> list[LogLine]:
        bad, ticket = LEVELS[self.world.level], self.world.only_ticket
        severe = (line for line in lines if not bad or line.role in bad)
        return super().chosen(line for line in severe if ticket is None or line.ticket == ticket.id)

    def see(self) -> None:
        self.show(self.chosen(self.world.kept.lines(self.world.log_file)))
        self.marks.look_at(self.items)

    # Searching

    def find(self, wanted: str) -> None:
        """Mark what matches; the last one of what is there now is gone to. Empty: mark nothing."""
        self._seek = 0
        self.marks.close()
        if wanted:
            self.marks.start(wanted)
        self.see()

    def on_found(self, message: Found) -> None:
        first = self.marks.take(message)
        if self._seek and not self.marks.waits:
            self._older()
        elif first:
            self._go(self.marks.next_place(self.items, len(self.items), -1))
        self.look_again()

    def again(self, direction: int) -> str:
        """Go to the next marked line in a direction, round the end; backwards, more is read first. Says why not."""
        if not self.marks.searches:
            return "nothing is searched for: f finds a word"
        if direction < 0:
            self._seek = SEEK
            self._older()
            return ""
        place = self.marks.next_place(self.items, self.index, direction)
        self._go(place)
        return "" if place is not None else "no line of what is shown is marked: N looks further back"

    def _older(self) -> None:
        """Go to a marked line above; while there is none, read back, as often as may be."""
        place = self.marks.next_place(self.items, self.index, -1, around=False)
        if place is not None:
            self._seek = 0
            self._go(place)
        elif self._seek and not self._reaching:
            self._seek -= 1
            self._reach()

    def _go(self, place: int | None) -> None:
        if place is not None:
            self._top = max(0, place - self.size.height // 3)  # with what led to it
            self.action_move(place - self.index)

    # Reading back

    def action_move(self, by: int) -> None:
        asks = by < 0 and self.index + by <= 0
        super().action_move(by)
        if asks:
            self._reach()
        if self._following:
            self.world.kept.let_go(self.world.log_file)
            self.see()

    def _reach(self) -> None:
        """Ask for what stands before the first line."""
        if not self._reaching:
            self._reaching = True
            self.post_message(Reach(self.world.log_file))

    def came_back(self, file: str, why: str) -> str:
        """What was asked for has come, or ``why`` there is no more. What is to be said of it."""
        self._reaching = False
        if file != self.world.log_file:
            return ""
        # The note that more was left out goes; the cursor stays where it stood in the text.
        self.key = next((id(entry) for entry in self.items[self.index :] if entry.kind != "note"), self.key)
        self.see()
        if why or self.world.kept.full(file):
            sought, self._seek = self._seek, 0
            if sought:
                self._go(self.marks.next_place(self.items, self.index, -1))
            return why or "no more is kept of what was read back: End lets go of it"
        if self._seek and not self.marks.waits:
            self._older()  # what came is filtered away
        return ""

    # Drawing

    def action_shift(self, direction: int) -> None:
        shown = self.items[self._top : self._top + self.size.height]
        longest = max((len(entry.text) for entry in shown), default=0)
        self._shift = max(0, min(self._shift + direction * SHIFT, longest - SHIFT))
        self.look_again()

    def draw(self, item: LogLine, width: int, selected: bool) -> Sequence[Line]:
        return self.row(item, width, selected, found=self.marks.marked(item), shift=self._shift)

    def detail(self) -> str:
        world = self.world
        ticket = self.world.only_ticket
        said = [
            os.path.basename(world.log_file) or EVENTS,
            super().detail(),
            f"{bytes_text(left_out)} left out" if (left_out := world.kept.left_out[world.log_file]) > 0 else "",
            "" if world.level == "all" else f"{world.level} only",
            f"ticket {short_id(ticket.id)} only" if ticket else "",
            self.marks.words(self.look.glyphs),
            f"from column {self._shift + 1}" if self._shift else "",
        ]
        return ", ".join(filter(None, said))

    def on_unmount(self) -> None:
        self.marks.close()
