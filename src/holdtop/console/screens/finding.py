"""A screen with a filter: one field that all its lists obey."""

from __future__ import annotations

from typing import ClassVar

from textual.screen import Screen
from textual.widgets import Input

from holdtop.console.widgets.small import Field
from holdtop.console.world import World


class Finding(Screen[None]):
    """Has a ``Field`` called ``find``; the filter lives in the world and is the same on every screen."""

    #: Nothing takes the keys by itself: ``home`` says who does.
    AUTO_FOCUS: ClassVar = ""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    @property
    def ready(self) -> bool:
        """Whether its widgets are there: a message of a thread may come before them."""
        return bool(self.query("#find"))

    def look_again(self) -> None:
        """Show the world as it is now."""
        raise NotImplementedError

    def home(self) -> None:
        """Give the keys back to a list."""
        raise NotImplementedError

    def on_mount(self) -> None:
        for field in self.query(Field):
            field.display = False
        self.look_again()
        self.home()

    def action_filter(self) -> None:
        self._open("find")

    def action_unfilter(self) -> None:
        field = self.query_one("#find", Field)
        field.value = ""
        if field.display:
            self._close(field)

    def on_input_changed(self, message: Input.Changed) -> None:
        if message.input.id == "find":
            self._world.filter(message.value)
            self.look_again()

    def on_input_submitted(self, message: Input.Submitted) -> None:
        self._close(message.input)

    def _open(self, id: str) -> None:
        field = self.query_one(f"#{id}", Field)
        field.display = True
        self.set_focus(field)  # at once: what is typed next is no key of the screen

    def _close(self, field: Input) -> None:
        field.display = False
        self.home()
