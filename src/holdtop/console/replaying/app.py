"""The console's program on a recording. Its world is what somebody saw then, and nothing in it can be acted on."""

from __future__ import annotations

from textual.screen import Screen

from holdtop.console.app import Console, Setup
from holdtop.console.replaying.player import Player
from holdtop.console.replaying.screens import ReplayScreen
from holdtop.console.replaying.shown import OVER


class Replay(Console):
    """One screen, which has its own feed; the box this runs on is not looked at."""

    CSS_PATH = "../console.tcss"

    def __init__(self, setup: Setup, player: Player) -> None:
        super().__init__(setup)
        self._player = player
        self.world.read_only = True

    def get_default_screen(self) -> Screen[None]:
        return ReplayScreen(self.look, self._player, self.world, self._setup.keys)

    def _listen(self) -> None:
        """Nothing ages here."""

    def action_arm(self) -> None:
        self._main().say(OVER)


class Still:
    """The feed of a box that is not looked at."""

    def start(self) -> None: ...

    def stop(self) -> None: ...
