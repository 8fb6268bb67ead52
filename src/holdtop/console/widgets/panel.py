"""A rectangle of lines. It is told to look again as often as one likes; only lines that differ are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from holdtop.console.paint import Painter
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line

_BLANK = Line()


class Look:
    """The painter in use, shared by all widgets, so that a theme is switched in one place."""

    def __init__(self, painter: Painter) -> None:
        self.painter = painter

    @property
    def glyphs(self) -> Glyphs:
        return self.painter.glyphs


class Panel(Widget):
    """Draws what ``lines`` gives. Subclasses say what; nothing here knows a snapshot."""

    ALLOW_SELECT = False
    #: The colour below the text.
    SURFACE = "background"

    def __init__(self, look: Look, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.look = look
        self._drawn: list[Line] = []

    def lines(self, size: Size) -> Sequence[Line]:
        """What to show in so many cells; at most ``size.height`` lines count."""
        raise NotImplementedError

    def see(self) -> None:
        """Show the world as it is now."""
        self.look_again()

    def look_again(self) -> None:
        """Draw the lines that differ from those on the screen."""
        width, height = self.size
        if not width or not height:
            return
        fresh = list(self.lines(self.size))[:height]
        old, self._drawn = self._drawn, fresh
        changed = [
            Region(0, y, width, 1)
            for y, (before, now) in enumerate(zip_longest(old, fresh, fillvalue=_BLANK))
            if before != now and y < height
        ]
        if changed:
            self.refresh(*changed)

    def draw_all(self) -> None:
        """Draw everything, as after a change of theme or size."""
        self._drawn = list(self.lines(self.size))[: self.size.height] if self.size else []
        self.refresh()

    def render_line(self, y: int) -> Strip:
        shown = self._drawn[y] if y < len(self._drawn) else _BLANK
        return self.look.painter.strip(shown, self.size.width, surface=self.SURFACE, focused=self.has_focus)

    def on_resize(self) -> None:
        self.draw_all()

    def wheel(self, by: int) -> None:
        """The mouse's wheel was turned so many lines."""

    def on_mouse_scroll_down(self) -> None:
        self.wheel(3)

    def on_mouse_scroll_up(self) -> None:
        self.wheel(-3)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.draw_all()
