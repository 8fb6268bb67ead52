"""Screens that show one thing on the whole terminal: the help, and the event log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen

from holdtop.console.keys import Key
from holdtop.console.screens.finding import Finding
from holdtop.console.view.help import help_lines
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.panels import EventPanel
from holdtop.console.widgets.small import Field, FooterPanel, TextPanel
from holdtop.console.world import World


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


class LogScreen(Finding):
    """The event logs on the whole terminal, followed live."""

    BINDINGS: ClassVar = [
        Binding("escape,q,l", "back", show=False),
        Binding("slash", "filter", show=False),
    ]

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(world)
        self._look = look

    def compose(self) -> ComposeResult:
        yield EventPanel(self._look, self._world, id="page")
        yield Field(self._world.wanted, placeholder="filter", id="find", compact=True)
        yield FooterPanel(self._look, (("Esc", "Back"), ("/", "Filter"), ("End", "Follow")))

    def look_again(self) -> None:
        self.query_one(EventPanel).show_log()

    def home(self) -> None:
        self.set_focus(self.query_one(EventPanel))

    def action_back(self) -> None:
        if self.query_one("#find").display:
            self.action_unfilter()
        else:
            self.dismiss()
