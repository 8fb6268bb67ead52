"""A table of which only the visible rows are ever drawn, with a cursor that stays on its row's identity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message

from holdtop.console.view.text import Line, title
from holdtop.console.widgets.panel import Look, Panel

T = TypeVar("T")


class Rows(Panel, Generic[T], can_focus=True):
    """Rows of one kind of thing. A subclass names them, says their identity, and draws one."""

    BINDINGS: ClassVar = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move(-1000000000)", show=False),
        Binding("end", "move(1000000000)", show=False),
    ]
    NAME = ""
    #: Lines of one row.
    TALL = 1

    class Moved(Message):
        """The cursor went to another row."""

        def __init__(self, rows: Rows[Any]) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows[Any]:
            return self.rows

    def __init__(self, look: Look, *, id: str) -> None:
        super().__init__(look, id=id)
        self.items: Sequence[T] = ()
        self.key: Hashable = None
        self._top = 0
        #: Where the cursor's row was last: it is looked for elsewhere only when it is not there.
        self._at = 0

    # What a subclass says

    def key_of(self, item: T) -> Hashable:
        raise NotImplementedError

    def draw(self, item: T, width: int, selected: bool) -> Sequence[Line]:
        """The ``TALL`` lines of one row."""
        raise NotImplementedError

    def detail(self) -> str:
        """What stands in the title behind the name."""
        return ""

    def head(self) -> Line | None:
        """The row of column names, if there is one."""
        return None

    def empty(self) -> Sequence[Line]:
        """What is shown when there is no row."""
        return ()

    # The cursor

    @property
    def index(self) -> int:
        """Where the cursor is; 0 when its row is gone."""
        if not 0 <= self._at < len(self.items) or self.key_of(self.items[self._at]) != self.key:
            keys = map(self.key_of, self.items)
            self._at = next((index for index, key in enumerate(keys) if key == self.key), 0)
        return self._at

    @property
    def current(self) -> T | None:
        return self.items[self.index] if self.items else None

    def show(self, items: Sequence[T]) -> None:
        """Show these. The cursor stays with its row; when that is gone, it stays at its place."""
        place = self.index
        self.items = items
        if items and self.key_of(items[self.index]) != self.key:
            self.key = self.key_of(items[min(place, len(items) - 1)])
        self.look_again()

    def action_move(self, by: int) -> None:
        if self.items:
            place = min(len(self.items) - 1, max(0, self.index + by))
            self.key = self.key_of(self.items[place])
            self.look_again()
            self.post_message(self.Moved(self))

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(1, self._room(self.size.height) - 1))

    # Drawing

    def _room(self, height: int) -> int:
        """Rows that fit below title and head."""
        above = 2 if self.head() is not None else 1
        return max(1, (height - above) // self.TALL)

    def lines(self, size: Size) -> Sequence[Line]:
        width, room, place = size.width, self._room(size.height), self.index
        self._top = max(0, min(self._top, place, len(self.items) - room))
        self._top = max(self._top, place - room + 1)
        shown = self.items[self._top : self._top + room]
        detail = self.detail()
        if len(self.items) > room:
            detail = f"{place + 1} of {len(self.items)}, {detail}"
        drawn = [title(self.NAME, detail, width, self.look.glyphs, focused=self.has_focus)]
        if (head := self.head()) is not None:
            drawn.append(head)
        if not self.items:
            return [*drawn, *self.empty()]
        for offset, item in enumerate(shown):
            drawn += self.draw(item, width, self._top + offset == place)
        return drawn

    # The mouse

    def on_click(self, event: events.Click) -> None:
        above = 2 if self.head() is not None else 1
        place = self._top + (event.y - above) // self.TALL
        if event.y >= above and place < len(self.items):
            self.action_move(place - self.index)

    def wheel(self, by: int) -> None:
        self.action_move(by)
