"""The help, on the whole terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from holdtop.console.keys import Key
from holdtop.console.view.help import help_lines
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import FooterPanel, TextPanel


class HelpScreen(Screen[None]):
    """The keys in force, and how to read the main screen."""

    BINDINGS: ClassVar = [
        Binding("escape,q,question_mark", "dismiss", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, look: Look, keys: Sequence[Key], troubles: Sequence[str], roots: Sequence[str]) -> None:
        super().__init__()
        self._look, self._keys, self._troubles, self._roots = look, keys, troubles, roots

    def compose(self) -> ComposeResult:
        yield TextPanel(self._look, id="page")
        yield FooterPanel(self._look, (("Esc", "Back"), ("Up Down", "Scroll")))

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        panel = self.query_one("#page", TextPanel)
        panel.show(help_lines(self._keys, self._troubles, self._roots, panel.size.width, self._look.glyphs))

    def action_scroll(self, by: int) -> None:
        self.query_one("#page", TextPanel).scroll_lines(by)
