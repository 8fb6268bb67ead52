"""Small widgets that the screens share: footer, scrolled text, a choice, a field for one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input

from holdtop.console.view.footer import footer
from holdtop.console.view.text import Line, Span, line
from holdtop.console.widgets.panel import Look, Panel
from holdtop.render import cells, clean

#: Seconds for which a note stands in the footer.
NOTE_FOR = 5.0


class FooterPanel(Panel):
    """The keys that fit, in their order; a note for some seconds."""

    SURFACE = "panel"

    def __init__(self, look: Look, keys: Sequence[tuple[str, str]], note: str = "") -> None:
        super().__init__(look, id="footer")
        self._keys = keys
        self._note = note
        self._timer: Timer | None = None

    def on_mount(self) -> None:
        self.say(self._note)

    def offer(self, keys: Sequence[tuple[str, str]]) -> None:
        """The keys of another page, on which a note of the one before would mislead."""
        if keys != self._keys:
            self._keys, self._note = keys, ""
            self.look_again()

    def say(self, note: str) -> None:
        self._note = note
        self.look_again()
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(NOTE_FOR, self._forget) if note else None

    def _forget(self) -> None:
        self._note = ""
        self.look_again()

    def lines(self, size: Size) -> Sequence[Line]:
        return (footer(self._keys, self._note, size.width, self.look.glyphs),)


class TextPanel(Panel):
    """Lines that can be scrolled."""

    def __init__(self, look: Look, *, id: str) -> None:
        super().__init__(look, id=id)
        self._lines: Sequence[Line] = ()
        self._top = 0
        #: Its last line has been on the screen.
        self.read = False

    def on_resize(self) -> None:
        self.scroll_lines(0)  # what is below the last line is not shown
        super().on_resize()

    @property
    def length(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def show(self, lines: Sequence[Line], *, end: bool = False) -> None:
        self._lines = lines
        self.scroll_lines(len(lines) if end else 0)

    def scroll_lines(self, by: int) -> None:
        self._top = max(0, min(self._top + by, len(self._lines) - self.size.height))
        self.read = self.read or 0 < len(self._lines) <= self._top + self.size.height
        self.look_again()

    def lines(self, size: Size) -> Sequence[Line]:
        shown = list(self._lines[self._top : self._top + size.height])
        below = len(self._lines) - self._top - len(shown)
        if below > 0 and shown:
            shown[-1] = line(Span(f" {self.look.glyphs.ellipsis} {below + 1} more lines below: PgDn", "info"))
        return shown

    def wheel(self, by: int) -> None:
        self.scroll_lines(by)


class Choice(Panel, can_focus=True):
    """A button of one line. Its text is ours, never foreign."""

    BINDINGS: ClassVar = [Binding("enter,space", "choose", show=False)]

    class Chosen(Message):
        def __init__(self, choice: Choice) -> None:
            super().__init__()
            self.choice = choice

        @property
        def control(self) -> Choice:
            return self.choice

    def __init__(self, look: Look, label: str, *, id: str) -> None:
        super().__init__(look, id=id)
        self._label = label
        self.rename(label)

    def rename(self, label: str) -> None:
        self._label = label
        self.styles.width = cells(label) + 6
        self.look_again()

    def lines(self, size: Size) -> Sequence[Line]:  # noqa: ARG002 - one line whatever the size
        mark = self.look.glyphs.focus if self.has_focus else " "
        return (line(Span(f"{mark}[ {self._label} ]", "text", True), selected=self.has_focus),)

    def action_choose(self) -> None:
        self.post_message(self.Chosen(self))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.action_choose()


class Field(Input):
    """One line of text. What is pasted into it is cleaned like all other text."""

    def validate_value(self, value: str) -> str:
        return clean(value, 200)
