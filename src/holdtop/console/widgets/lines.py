"""The page of logs: which logs there are, and one of them, filtered and searched."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding

from holdtop.console.events import LEVELS, LogLine
from holdtop.console.messages import Found, SearchEnded, tell
from holdtop.console.search import Search
from holdtop.console.view.logs import EVENTS, source_head, source_row
from holdtop.console.view.queue import short_id
from holdtop.console.view.text import Line
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.panels import EventPanel
from holdtop.console.widgets.rows import Rows
from holdtop.console.world import World
from holdtop.model.values import Ticket
from holdtop.render import bytes_text, counted

#: Cells by which an arrow moves long lines.
SHIFT = 20


class SourcePanel(Rows[str]):
    """The events of all holds (an empty path), and each file that the configuration names."""

    NAME = "Logs"

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="sources")
        self.world = world
        self.key = ""

    def key_of(self, item: str) -> Hashable:
        return item

    def see(self) -> None:
        self.show(["", *self.world.logs])

    def draw(self, item: str, width: int, selected: bool) -> Sequence[Line]:
        return (source_row(item, self.world.lines(item), width, self.look.glyphs, selected=selected),)

    def head(self) -> Line | None:
        return source_head(self.size.width, self.look.glyphs)

    def detail(self) -> str:
        return "followed live" if self.world.logs else 'more of them: logs = ["/path"] in the configuration'


class LinesPanel(EventPanel):
    """One log, of which a search marks lines."""

    NAME = "Log"
    BINDINGS: ClassVar = [
        Binding("left", "shift(-1)", show=False),
        Binding("right", "shift(1)", show=False),
    ]

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, world, id="lines")
        self._search: Search | None = None
        #: By their ids: what the search was given, and what of it matches.
        self._given: dict[int, LogLine] = {}
        self._found: dict[int, LogLine] = {}
        #: Answers of the search that are still to come.
        self._asked = 0
        self._shift = 0

    def chosen(self, lines: Iterable[LogLine]) -> list[LogLine]:
        bad, ticket = LEVELS[self.world.level], self._ticket
        severe = (line for line in lines if not bad or line.role in bad)
        return super().chosen(line for line in severe if ticket is None or line.ticket == ticket.id)

    @property
    def _ticket(self) -> Ticket | None:
        """Whose lines alone are shown; lines of a file are nobody's."""
        return self.world.ticket if self.world.only and not self.world.log_file else None

    def see(self) -> None:
        self.show(self.chosen(self.world.lines(self.world.log_file)))
        if self._search is not None:
            shown = {id(entry): entry for entry in self.items}
            self._found = {key: entry for key, entry in self._found.items() if key in shown}
            self._asked += self._search.feed([entry for key, entry in shown.items() if key not in self._given])
            self._given = shown

    @property
    def searches(self) -> bool:
        """Whether a search is in force."""
        return self._search is not None

    def find(self, wanted: str) -> None:
        """Mark what matches; the last one of what is there now is gone to. Empty: mark nothing."""
        self.end_search()
        if wanted:
            search = Search(wanted, lambda lines: tell(self, Found(search, lines)), lambda why: self._over(search, why))
            self._search = search
        self.see()
        self.look_again()

    def _over(self, search: Search, why: str) -> None:
        tell(self, SearchEnded(search, why))

    def end_search(self) -> None:
        if self._search is not None:
            self._search.close()
        self._search, self._given, self._found, self._asked = None, {}, {}, 0

    def on_found(self, message: Found) -> None:
        if message.search is not self._search:
            return
        self._asked -= 1
        first = not self._found
        self._found |= {id(entry): entry for entry in message.lines if id(entry) in self._given}
        if first and self._found:
            self.again(-1, self.items[-1])
        self.look_again()

    def again(self, direction: int, start: LogLine | None = None) -> bool:
        """Go to the next marked line in a direction, round the end; whether there is one."""
        marked = [place for place, entry in enumerate(self.items) if id(entry) in self._found]
        if not marked:
            return False
        here = self.index
        if start is not None and id(start) in self._found:
            place = len(self.items) - 1
        elif direction > 0:
            place = next((place for place in marked if place > here), marked[0])
        else:
            place = next((place for place in reversed(marked) if place < here), marked[-1])
        self._top = max(0, place - self.size.height // 3)  # with what led to it
        self.action_move(place - here)
        return True

    def action_shift(self, direction: int) -> None:
        shown = self.items[self._top : self._top + self.size.height]
        longest = max((len(entry.text) for entry in shown), default=0)
        self._shift = max(0, min(self._shift + direction * SHIFT, longest - SHIFT))
        self.look_again()

    def draw(self, item: LogLine, width: int, selected: bool) -> Sequence[Line]:
        return self.row(item, width, selected, found=id(item) in self._found, shift=self._shift)

    def detail(self) -> str:
        world = self.world
        ticket = self._ticket
        said = [
            os.path.basename(world.log_file) or EVENTS,
            super().detail(),
            f"{bytes_text(left_out)} left out" if (left_out := world.left_out[world.log_file]) else "",
            "" if world.level == "all" else f"{world.level} only",
            f"ticket {short_id(ticket.id)} only" if ticket else "",
            self._sought(),
            f"from column {self._shift + 1}" if self._shift else "",
        ]
        return ", ".join(filter(None, said))

    def _sought(self) -> str:
        if self._search is None:
            return ""
        found = f"{counted(len(self._found), 'line', 'lines')} with {self._search.wanted}"
        searching = f"searching for {self._search.wanted}{self.look.glyphs.ellipsis}"
        return found if self._found or not self._asked else searching

    def on_unmount(self) -> None:
        self.end_search()
