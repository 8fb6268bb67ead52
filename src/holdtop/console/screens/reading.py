"""A text on the whole terminal, to be scrolled: what help and details are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from holdtop.console.view.text import Line
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import FooterPanel, TextPanel


class Reading(Screen[None]):
    """A subclass gives its ``text``; Esc leads back."""

    BINDINGS: ClassVar = [
        Binding("escape,q", "dismiss", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
        Binding("home", "scroll(-1000000000)", show=False),
        Binding("end", "scroll(1000000000)", show=False),
    ]

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look

    def text(self, width: int) -> Sequence[Line]:
        """In so many cells."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield TextPanel(self._look, id="page")
        yield FooterPanel(self._look, (("Esc", "Back"), ("Up Down", "Scroll")))

    def on_resize(self) -> None:
        self.call_after_refresh(self.look_again)

    def look_again(self) -> None:
        panel = self.query_one("#page", TextPanel)
        panel.show(self.text(panel.size.width))

    def action_scroll(self, by: int) -> None:
        self.query_one("#page", TextPanel).scroll_lines(by)
