"""All that background threads tell the screens. Threads post, handlers own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.message import Message
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from holdtop.console.events import LogLine
    from holdtop.console.feeds import Acts
    from holdtop.console.search import Search
    from holdtop.console.themes import Themes
    from holdtop.model.values import Snapshot
    from holdtop.operator.values import Outcome, Plan, Step


class SnapshotArrived(Message):
    """A new look at the box; only the newest one matters."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self.snapshot = snapshot

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, SnapshotArrived)


class LogGrew(Message):
    """New lines of the event logs, oldest first."""

    def __init__(self, lines: Sequence[LogLine]) -> None:
        super().__init__()
        self.lines = lines


class Reach(Message):
    """More is wanted of what stands before the oldest line that is kept of a log; empty: of the events of all holds."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file


class EarlierCame(Message):
    """What was wanted, oldest first; notes where there is nothing more."""

    def __init__(self, file: str, lines: Sequence[LogLine]) -> None:
        super().__init__()
        self.file = file
        self.lines = lines


class ActsSeen(Message):
    """What the audits say; only the newest matters."""

    def __init__(self, acts: Acts) -> None:
        super().__init__()
        self.acts = acts

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ActsSeen)


class ThemesChanged(Message):
    """The user's own themes are other ones now, or cannot be read."""

    def __init__(self, themes: Themes) -> None:
        super().__init__()
        self.themes = themes


class PageOpened(Message):
    """Another page is shown."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page


class Found(Message):
    """Lines that match a search, of those that it was given."""

    def __init__(self, search: Search, lines: Sequence[LogLine]) -> None:
        super().__init__()
        self.search = search
        self.lines = lines


class SearchEnded(Message):
    """A search is over; ``why`` is empty when it was closed."""

    def __init__(self, search: Search, why: str) -> None:
        super().__init__()
        self.search = search
        self.why = why


class PlansMade(Message):
    """What an act would do: frozen. ``refused`` says of each that is missing why; ``gone``: all of these are gone."""

    def __init__(self, plans: tuple[Plan, ...], refused: tuple[str, ...] = (), gone: bool = False) -> None:
        super().__init__()
        self.plans = plans
        self.refused = refused
        self.gone = gone


class StepTaken(Message):
    """Progress of the act that runs."""

    def __init__(self, step: Step) -> None:
        super().__init__()
        self.step = step


class ActEnded(Message):
    """An act is over. Without an outcome it was refused or failed, and ``failed`` says why."""

    def __init__(self, plan: Plan, outcome: Outcome | None, failed: str = "") -> None:
        super().__init__()
        self.plan = plan
        self.outcome = outcome
        self.failed = failed


def tell(target: MessagePump, message: Message) -> None:
    """Post from any thread; a target that has gone meanwhile hears nothing."""
    if target.is_running:
        target.post_message(message)
