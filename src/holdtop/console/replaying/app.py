"""The console's program on a recording. Its world is what somebody saw then, and nothing in it can be acted on."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual.message import Message
from textual.screen import Screen

from holdtop.console.app import Console, Setup
from holdtop.console.feeds import Acts
from holdtop.console.kept import Kept
from holdtop.console.keys import bindings
from holdtop.console.messages import tell
from holdtop.console.replaying.keys import TIME_KEYS
from holdtop.console.replaying.moments import Moment
from holdtop.console.replaying.player import Player
from holdtop.console.replaying.screens import OVER, ReplayScreen
from holdtop.console.view.figures import History


class MomentArrived(Message):
    """Another instant is shown; only the newest matters."""

    def __init__(self, moment: Moment) -> None:
        super().__init__()
        self.moment = moment

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, MomentArrived)


class NotShown(Message):
    """An instant cannot be shown, and why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class Replay(Console):
    """Keeps nothing of its own but the player."""

    CSS_PATH = "../console.tcss"
    BINDINGS: ClassVar = bindings("app", TIME_KEYS)

    def __init__(self, setup: Setup, player: Player) -> None:
        """``setup.feed`` gives the ``player``."""
        super().__init__(replace(setup, acts=lambda: self.world.acts or Acts()))
        self._player = player
        player.hear = self._hear
        self.world.read_only = True
        self._say_where()

    def get_default_screen(self) -> Screen[None]:
        setup = self._setup
        return ReplayScreen(
            self.look,
            self._player,
            self.world,
            setup.operator,
            setup.keys,
            reasons=setup.reasons,
            state_dir=None,
        )

    def _hear(self, said: Moment | str) -> None:
        tell(self, NotShown(said) if isinstance(said, str) else MomentArrived(said))

    def on_moment_arrived(self, message: MomentArrived) -> None:
        """The whole world anew: what was known a moment ago may not have happened yet."""
        moment, world = message.moment, self.world
        first = world.snapshot is None
        world.history = History()
        for readings in moment.past:
            world.history.note(readings)
        world.kept = Kept()
        world.kept.add(moment.lines)
        world.acts = moment.acts
        self._say_where()
        world.take(moment.snapshot)
        if (screen := self._main()).ready:
            screen.look_again()
            if first:
                screen.home()

    def on_not_shown(self, message: NotShown) -> None:
        if (screen := self._main()).ready:
            screen.say(message.why)

    def _say_where(self) -> None:
        player = self._player
        pace = f"playing {player.speed}x" if player.playing else "paused"
        self.world.replay = f"{player.position + 1} of {player.last + 1}, {pace}"

    def _listen(self) -> None:
        """Nothing ages here: the player says what there is to see. It may have stopped by itself."""
        before = self.world.replay
        self._say_where()
        if self.world.replay != before and self._main().ready:
            self._main().look_again()

    def action_arm(self) -> None:
        self._main().say(OVER)
