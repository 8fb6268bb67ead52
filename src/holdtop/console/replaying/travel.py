"""From the live screen back in time: what was recorded of this box, on the live one's top."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdtop.console.fed import Fed
from holdtop.console.keys import Key
from holdtop.console.messages import tell
from holdtop.console.replaying.messages import NotShown, TapeOpened
from holdtop.console.widgets.panel import Look
from holdtop.console.world import World
from holdtop.errors import HoldtopError

if TYPE_CHECKING:
    from holdtop.console.replaying.moments import Tape


class Travels(Fed):
    """Opens a recording in a thread, and shows it until somebody comes back. The live world goes on below."""

    look: Look
    #: May block; ``None``: nothing is recorded here.
    open_tape: Callable[[], Tape] | None = None
    time_keys: Sequence[Key] = ()
    _opening = False

    def action_travel(self) -> None:
        if self.open_tape is None:
            self._main().say("nothing is recorded here")
        elif not self._opening and self.screen is self._main():
            self._opening = True
            threading.Thread(target=self._open, args=(self.open_tape,), name="holdtop-tape", daemon=True).start()

    def _open(self, open_tape: Callable[[], Tape]) -> None:
        try:
            tell(self, TapeOpened(open_tape()))
        except HoldtopError as error:
            tell(self, NotShown(str(error)))
        except Exception as error:  # noqa: BLE001  a file from anywhere: whoever asked must hear something
            tell(self, NotShown(f"{type(error).__name__}: {error}"))

    def on_tape_opened(self, message: TapeOpened) -> None:
        from holdtop.console.replaying.player import Player  # nobody waits for them before
        from holdtop.console.replaying.screens import ReplayScreen

        self._opening = False
        if self.screen is self._main():
            world = World(read_only=True, page=self.world.page)
            player = Player(message.tape)
            player.step(-1)  # the newest look is what stands on the screen
            self.push_screen(ReplayScreen(self.look, player, world, self.time_keys, live=True))

    def on_not_shown(self, message: NotShown) -> None:
        self._opening = False
        self._main().say(message.why)
