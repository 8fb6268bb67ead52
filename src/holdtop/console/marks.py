"""The lines of one log that a search has marked, of those that are there and of those that come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.message_pump import MessagePump

from holdtop.console.events import LogLine
from holdtop.console.messages import Found, SearchEnded, tell
from holdtop.console.view.glyphs import Glyphs
from holdtop.render import counted

if TYPE_CHECKING:
    from holdtop.console.search import Search


class Marks:
    """Tells ``target`` of what is found (``Found``) and why a search is over (``SearchEnded``)."""

    def __init__(self, target: MessagePump) -> None:
        self._target = target
        self._search: Search | None = None
        #: By their ids: what the search was given, and what of it matches.
        self._given: dict[int, LogLine] = {}
        self._found: dict[int, LogLine] = {}
        #: Answers that are still to come.
        self._asked = 0

    @property
    def searches(self) -> bool:
        """Whether a search is in force."""
        return self._search is not None

    @property
    def waits(self) -> bool:
        """Whether an answer is still to come."""
        return self._asked > 0

    def start(self, wanted: str) -> None:
        from holdtop.console.search import Search  # with its child process, for who searches

        self.close()
        target = self._target
        search = Search(
            wanted, lambda lines: tell(target, Found(search, lines)), lambda why: tell(target, SearchEnded(search, why))
        )
        self._search = search

    def close(self) -> None:
        if self._search is not None:
            self._search.close()
        self._search, self._given, self._found, self._asked = None, {}, {}, 0

    def look_at(self, items: Sequence[LogLine]) -> None:
        """These are shown: what is new among them is searched, marks of others are dropped."""
        if self._search is None:
            return
        shown = {id(entry): entry for entry in items}
        self._found = {key: entry for key, entry in self._found.items() if key in shown}
        self._asked += self._search.feed([entry for key, entry in shown.items() if key not in self._given])
        self._given = shown

    def take(self, message: Found) -> bool:
        """An answer came; whether it is the first one that marks anything. An old search's answers are nothing."""
        if message.search is not self._search:
            return False
        self._asked -= 1
        first = not self._found
        self._found |= {id(entry): entry for entry in message.lines if id(entry) in self._given}
        return first and bool(self._found)

    @property
    def count(self) -> int:
        """How many lines are marked."""
        return len(self._found)

    def marked(self, entry: LogLine) -> bool:
        return id(entry) in self._found

    def next_place(self, items: Sequence[LogLine], here: int, direction: int, *, around: bool = True) -> int | None:
        """Where the next marked line is from ``here`` in a direction (``around`` the end); ``None``: there is none."""
        marked = [place for place, entry in enumerate(items) if self.marked(entry)]
        ahead = [place for place in marked if (place > here if direction > 0 else place < here)]
        if ahead:
            return ahead[0] if direction > 0 else ahead[-1]
        return (marked[0] if direction > 0 else marked[-1]) if marked and around else None

    def words(self, glyphs: Glyphs) -> str:
        """For the title: what is searched for, and how many lines have it."""
        if self._search is None:
            return ""
        if self.waits and not self._found:
            return f"searching for {self._search.wanted}{glyphs.ellipsis}"
        return f"{counted(len(self._found), 'line', 'lines')} with {self._search.wanted}"
