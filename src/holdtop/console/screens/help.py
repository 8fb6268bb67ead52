"""The help, on the whole terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding

from holdtop.console.keys import Key
from holdtop.console.screens.reading import Reading
from holdtop.console.view.help import help_lines
from holdtop.console.view.text import Line
from holdtop.console.widgets.panel import Look


class HelpScreen(Reading):
    """The keys in force, and how to read the main screen."""

    BINDINGS: ClassVar = [Binding("question_mark", "dismiss", show=False)]

    def __init__(self, look: Look, keys: Sequence[Key], troubles: Sequence[str], roots: Sequence[str]) -> None:
        super().__init__(look)
        self._keys, self._troubles, self._roots = keys, troubles, roots

    def text(self, width: int) -> Sequence[Line]:
        return help_lines(self._keys, self._troubles, self._roots, width, self._look.glyphs)
