"""The main screen with the keys of time travel, and what they open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen, Screen
from textual.widgets import Input

from holdtop.console.keys import bindings
from holdtop.console.replaying.keys import TIME_KEYS
from holdtop.console.replaying.player import Player
from holdtop.console.replaying.shown import ShownScreen
from holdtop.console.view.text import Line, Role, Span, line, title, wrapped
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import Field, FooterPanel, TextPanel
from holdtop.errors import HoldtopError
from holdtop.model.changes import Change, changes
from holdtop.model.values import Snapshot
from holdtop.recorder.seeking import FORMS

_ROLES: dict[str, Role] = {"+": "warning", "-": "ok", "~": "info"}


class ReplayScreen(ShownScreen):
    """The keys of time travel on it."""

    BINDINGS: ClassVar = bindings("screen", TIME_KEYS)
    _noted: Snapshot | None = None

    def action_unfilter(self) -> None:
        """Where nothing is to be undone, back to the present."""
        world = self._world
        typing = any(field.display for field in self.query(Field))
        undone = not (typing or world.wanted or world.marked or self.lines.marks.searches)
        if self._live and undone and world.page == "now":
            self.dismiss()
        else:
            super().action_unfilter()

    def action_step(self, by: int) -> None:
        if self._live and by > 0 and self._player.position == self._player.last:
            self.dismiss()
        else:
            self._player.step(by)

    def action_happened(self, direction: int) -> None:
        marks = self._player.jump(direction)
        words = "; ".join(f"{mark.kind}: {mark.text}" for mark in marks)
        self.say(words or f"nothing is marked {'after' if direction > 0 else 'before'} this")

    def action_play(self) -> None:
        self._player.play()
        self._say_where()

    def action_speed(self) -> None:
        self._player.faster()
        self.say(f"plays at {self._player.speed} times its own speed")

    def action_seek(self) -> None:
        self.app.push_screen(SeekScreen(self._look, self._player))

    def action_note(self) -> None:
        self._noted = self._world.snapshot
        if self._noted is not None:
            self.say(f"noted {self._noted.taken_at}; go elsewhere, then D shows what changed")

    def action_changes(self) -> None:
        """From the earlier to the later one of both, wherever somebody stands."""
        try:
            noted = self._noted or self._player.snapshot(0)
        except HoldtopError as error:
            self.say(str(error))
            return
        if (now := self._world.snapshot) is not None:
            before, after = sorted((noted, now), key=lambda one: one.taken_at)
            self.app.push_screen(ChangesScreen(self._look, before, after))


class SeekScreen(ModalScreen[None]):
    """Asks for an instant, and stays while it cannot be understood."""

    CSS = """
    SeekScreen { align: center middle; background: $background 60%; }
    SeekScreen Field, SeekScreen #said { width: 96%; max-width: 120; }
    SeekScreen #said { height: 3; }
    """
    BINDINGS: ClassVar = [Binding("escape", "dismiss", show=False)]

    def __init__(self, look: Look, player: Player) -> None:
        super().__init__()
        self._look, self._player = look, player

    def compose(self) -> ComposeResult:
        yield Field(placeholder=f"go to: {FORMS}", id="instant", compact=True)
        yield TextPanel(self._look, id="said")

    def on_input_submitted(self, message: Input.Submitted) -> None:
        try:
            self._player.seek(message.value)
        except HoldtopError as error:
            panel = self.query_one("#said", TextPanel)
            panel.show(wrapped(str(error), panel.size.width, self._look.glyphs, "warning", indent=1))
        else:
            self.dismiss()


class ChangesScreen(Screen[None]):
    """What changed between two looks, on the whole terminal."""

    CSS = """
    ChangesScreen { layout: vertical; }
    ChangesScreen #footer { height: 1; }
    """
    BINDINGS: ClassVar = [
        Binding("escape,q,D", "dismiss", show=False),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "scroll(-10)", show=False),
        Binding("pagedown,space", "scroll(10)", show=False),
    ]

    def __init__(self, look: Look, before: Snapshot, after: Snapshot) -> None:
        super().__init__()
        self._look, self._times = look, f"{before.taken_at} to {after.taken_at}"
        self._changes = changes(before, after)

    def compose(self) -> ComposeResult:
        yield TextPanel(self._look, id="page")
        yield FooterPanel(self._look, (("Esc", "Back"), ("Up Down", "Scroll")))

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        panel, glyphs = self.query_one("#page", TextPanel), self._look.glyphs
        shown: list[Line] = [title("What changed", glyphs.clean(self._times, 80), panel.size.width, glyphs)]
        for change in self._changes:
            shown += self._lines(change, panel.size.width)
        panel.show(shown if self._changes else [*shown, line(Span(" nothing that counts", "muted"))])

    def _lines(self, change: Change, width: int) -> Sequence[Line]:
        return wrapped(f"{change.sign} {change.text}", width, self._look.glyphs, _ROLES[change.sign], indent=1)

    def action_scroll(self, by: int) -> None:
        self.query_one("#page", TextPanel).scroll_lines(by)
