"""From lines to what Textual draws: the only place where text becomes segments, cleaned here once more."""

from __future__ import annotations

from functools import cached_property

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.theme import Theme

from holdtop.console.themes import ThemeFile
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line
from holdtop.render import cells, fit

#: Textual's own style sheets want these of every theme of the terminal's palette.
_ANSI_VARIABLES = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_bright_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_white",
    "input-cursor-foreground": "ansi_black",
    "input-selection-background": "ansi_blue",
    "input-selection-foreground": "ansi_white",
    "screen-selection-background": "ansi_blue",
    "screen-selection-foreground": "ansi_white",
}


class Painter:
    """Draws lines in one theme. With ``colorless`` a selection is reversed and weight is all that remains."""

    def __init__(self, theme: ThemeFile, glyphs: Glyphs, *, colorless: bool = False) -> None:
        self.theme = theme
        self.glyphs = glyphs
        self.colorless = colorless
        self._styles: dict[tuple[str, bool, str], Style] = {}

    def strip(self, line: Line, width: int, *, surface: str = "background", focused: bool = True) -> Strip:
        """Exactly ``width`` cells of ``line``; what is too long is cut with an ellipsis."""
        if line.selected:
            surface = "selection" if focused else "selection_blurred"
        segments: list[Segment] = []
        room = width
        for span in line.spans:
            text = fit(self.glyphs.clean(span.text, 4 * room + 8), room, ellipsis=self.glyphs.ellipsis)
            if text:
                segments.append(Segment(text, self.style(span.role, span.strong, surface)))
            room -= cells(text)
            if room <= 0:
                break
        if room > 0:
            segments.append(Segment(" " * room, self.style("text", False, surface)))
        return Strip(segments, width)

    def style(self, role: str, strong: bool, surface: str) -> Style:
        key = (role, strong, surface)
        if key not in self._styles:
            self._styles[key] = self._make(role, strong, surface)
        return self._styles[key]

    def _make(self, role: str, strong: bool, surface: str) -> Style:
        if self.colorless or (self.theme.ansi and surface.startswith("selection")):
            # Sixteen colours promise no contrast between any two of them.
            reverse, underline = surface == "selection", surface == "selection_blurred"
            return Style(bold=strong, reverse=reverse, underline=underline)
        colors = self.theme.colors
        return Style(color=Color.parse(colors[role]), bgcolor=Color.parse(colors[surface]), bold=strong)

    @cached_property
    def textual(self) -> Theme:
        """The same theme for Textual's own widgets: input fields, the palette."""

        def color(name: str) -> str:
            return f"ansi_{self.theme.colors[name]}" if self.theme.ansi else self.theme.colors[name]

        return Theme(
            name=f"holdtop-{self.theme.name}",
            primary=color("accent"),
            secondary=color("info"),
            accent=color("accent"),
            warning=color("warning"),
            error=color("critical"),
            success=color("ok"),
            foreground=color("text"),
            background=color("background"),
            surface=color("panel"),
            panel=color("panel"),
            dark=self.theme.dark,
            ansi=self.theme.ansi,
            variables=_ANSI_VARIABLES if self.theme.ansi else {},
        )
