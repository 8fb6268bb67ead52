"""The main screen with the keys of time travel, and what they open."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen
from textual.widgets import Input

from holdtop.console.keys import bindings
from holdtop.console.replaying.keys import TIME_KEYS
from holdtop.console.replaying.moments import Moment
from holdtop.console.replaying.player import Player
from holdtop.console.replaying.shown import ShownScreen
from holdtop.console.screens.reading import Reading
from holdtop.console.view.text import Line, Span, line, title, wrapped
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.small import Field, TextPanel
from holdtop.errors import HoldtopError
from holdtop.model.changes import changes
from holdtop.model.values import Snapshot
from holdtop.recorder.seeking import FORMS


class ReplayScreen(ShownScreen):
    """The keys of time travel on it."""

    BINDINGS: ClassVar = bindings("screen", TIME_KEYS)
    _noted: Moment | None = None

    def action_unfilter(self) -> None:
        """Where nothing is to be undone, back to the present."""
        if self._live and not self.in_force and self._world.page == "now":
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
        self._noted = self._moment
        if self._noted is not None:
            self.say(f"noted {self._noted.snapshot.taken_at}; go elsewhere, then D shows what changed")

    def action_changes(self) -> None:
        """From the earlier to the later one of both, wherever somebody stands: the clock may have been set back."""
        now, noted = self._moment, self._noted
        if now is None:
            return
        try:
            other = (noted.position, noted.snapshot) if noted else (0, self._player.snapshot(0))
        except HoldtopError as error:
            self.say(str(error))
            return
        looks = sorted([other, (now.position, now.snapshot)], key=itemgetter(0))
        self.app.push_screen(ChangesScreen(self._look, *(look for _, look in looks)))


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


class ChangesScreen(Reading):
    """What changed between two looks."""

    BINDINGS: ClassVar = [Binding("D", "dismiss", show=False)]

    def __init__(self, look: Look, before: Snapshot, after: Snapshot) -> None:
        super().__init__(look)
        self._times = f"{before.taken_at} to {after.taken_at}"
        self._changes = changes(before, after)

    def text(self, width: int) -> Sequence[Line]:
        glyphs = self._look.glyphs
        shown = [title("What changed", glyphs.clean(self._times, 80), width, glyphs)]
        for change in self._changes:
            shown += wrapped(f"{change.sign} {change.text}", width, glyphs, change.severity or "text", indent=1)
        return shown if self._changes else [*shown, line(Span(" nothing that counts", "muted"))]
