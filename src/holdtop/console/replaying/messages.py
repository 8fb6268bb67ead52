"""What the threads of a replay tell the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:  # the live console loads these when somebody goes back in time
    from holdtop.console.replaying.moments import Moment, Tape


class MomentArrived(Message):
    """Another instant is shown; only the newest matters."""

    def __init__(self, moment: Moment) -> None:
        super().__init__()
        self.moment = moment

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, MomentArrived)


class NotShown(Message):
    """An instant, or a recording, cannot be shown, and why."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class TapeOpened(Message):
    """What was recorded can be shown."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape
