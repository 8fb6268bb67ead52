"""The main screen on a recorded world: hears the player, and shows each instant that it brings."""

from __future__ import annotations

from collections.abc import Sequence

from holdtop.console.keys import Key
from holdtop.console.messages import tell
from holdtop.console.replaying.messages import MomentArrived, NotShown
from holdtop.console.replaying.moments import Moment
from holdtop.console.replaying.player import Player
from holdtop.console.screens.main import MainScreen
from holdtop.console.widgets.panel import Look
from holdtop.console.world import World
from holdtop.operator import recorded

#: Why nothing can be done here.
OVER = "this is a recording: what it shows is over, and nothing in it can be ended"


class ShownScreen(MainScreen):
    """Starts and stops its player. Whoever acts finds nobody in the operator's place."""

    def __init__(self, look: Look, player: Player, world: World, keys: Sequence[Key], *, live: bool = False) -> None:
        """``live``: the present is behind this screen, and a key away."""
        super().__init__(look, world, recorded, keys, reasons=(), state_dir=None)
        self._player, self._live = player, live
        #: What is on the screen.
        self._moment: Moment | None = None
        player.hear = self._hear

    def on_mount(self) -> None:
        self._player.start()
        self.set_interval(0.5, self._say_where)

    def on_unmount(self) -> None:
        self._player.stop()

    def _hear(self, said: Moment | str) -> None:
        tell(self, NotShown(said) if isinstance(said, str) else MomentArrived(said))

    def on_moment_arrived(self, message: MomentArrived) -> None:
        """The whole world anew: what was known a moment ago may not have happened yet."""
        first = self._moment is None
        self._moment, self._world.replay = message.moment, self._where()
        message.moment.become(self._world)
        self.look_again()
        if first:
            self.home()

    def on_not_shown(self, message: NotShown) -> None:
        message.stop()
        self.say(message.why)

    def _where(self) -> str:
        player = self._player
        pace = f"playing {player.speed}x" if player.playing else "paused"
        return f"{player.position + 1} of {player.last + 1}, {pace}{', Esc: now' if self._live else ''}"

    def _say_where(self) -> None:
        """Playing may have begun, or ended by itself."""
        if self._moment is not None and self._world.replay != self._where():
            self._world.replay = self._where()
            self.look_again()

    def _no_act(self) -> str:
        return OVER
