"""What the page of logs adds to a screen: search, levels, and the lines of one ticket."""

from __future__ import annotations

from textual.widgets import Input

from holdtop.console.events import LEVELS
from holdtop.console.messages import SearchEnded
from holdtop.console.screens.finding import Finding
from holdtop.console.widgets.lines import LinesPanel
from holdtop.console.widgets.small import Field


class Searching(Finding):
    """Has a ``Field`` called ``search`` and one ``LinesPanel``."""

    @property
    def lines(self) -> LinesPanel:
        return self.query_one(LinesPanel)

    def say(self, words: str) -> None:
        """A note for some seconds."""
        raise NotImplementedError

    def action_find(self) -> None:
        self._open("search")

    def action_unfilter(self) -> None:
        self.query_one("#search", Field).display = False
        self.lines.find("")
        super().action_unfilter()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        super().on_input_submitted(message)
        if message.input.id == "search":
            self.lines.find(message.value)

    def on_search_ended(self, message: SearchEnded) -> None:
        if message.why:
            self.say(message.why)
            self.lines.marks.close()
            self.look_again()

    def action_again(self, direction: int) -> None:
        if why := self.lines.again(direction):
            self.say(why)

    def came_back(self, file: str, why: str) -> None:
        """A log was read back, or there is no more of it, and ``why``."""
        if said := self.lines.came_back(file, why):
            self.say(said)

    def action_level(self) -> None:
        names = list(LEVELS)
        self._world.level = names[(names.index(self._world.level) + 1) % len(names)]
        self.look_again()

    def action_only(self) -> None:
        if self._world.log_file:
            self.say("this file names no tickets: choose the events of all holds first")
            return
        if self._world.ticket is None and not self._world.only:
            self.say("no ticket is selected: choose one on the first page")
            return
        self._world.only = not self._world.only
        self.look_again()
