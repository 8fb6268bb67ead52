"""One operator's act, on the whole terminal; it is read again while it is open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding

from holdtop.console.screens.reading import Reading
from holdtop.console.view.acts import READING, Deed, deeds
from holdtop.console.view.deed import deed_lines
from holdtop.console.view.receipts import of_ticket
from holdtop.console.view.text import Line, title
from holdtop.console.widgets.panel import Look
from holdtop.console.world import World


class DeedScreen(Reading):
    """What was meant, what became of it and of each process, and how the hold ended."""

    BINDINGS: ClassVar = [Binding("enter", "dismiss", show=False)]

    def __init__(self, look: Look, world: World, deed: Deed) -> None:
        super().__init__(look)
        self._world, self._deed = world, deed

    def text(self, width: int) -> Sequence[Line]:
        world, glyphs, deed = self._world, self._look.glyphs, self._newest()
        snapshot, ticket = world.snapshot, deed.meant.get("ticket")
        receipt = of_ticket(snapshot, ticket) if snapshot and isinstance(ticket, str) else None
        state = READING + glyphs.ellipsis if world.reading_acts else f"act {glyphs.clean(deed.act, 40)}"
        now = snapshot.taken_at if snapshot else ""
        return [title("Act", state, width, glyphs, focused=True), *deed_lines(deed, receipt, now, width, glyphs)]

    def _newest(self) -> Deed:
        """The same act as it was read last: its outcome may have come meanwhile."""
        found = deeds(self._world.acts) if self._world.acts else []
        key = (self._deed.user, self._deed.act)
        self._deed = next((deed for deed in found if (deed.user, deed.act) == key), self._deed)
        return self._deed
