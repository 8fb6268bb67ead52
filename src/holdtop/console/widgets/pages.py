"""The panels of the pages behind the first one: a ticket's facts and past, acts, receipts, runners; and the tabs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from textual import events
from textual.geometry import Size
from textual.message import Message

from holdtop.console.events import LogLine
from holdtop.console.view import acts, runners
from holdtop.console.view.acts import Deed, act_rows, chain_line, chain_words, deeds
from holdtop.console.view.receipts import of_lane, receipt_head, receipt_row, receipts, summary
from holdtop.console.view.subject import find_resource
from holdtop.console.view.tabs import Tab, tab_at, tab_line
from holdtop.console.view.text import Line, Span, line, title, wrapped
from holdtop.console.view.ticket import ticket_lines, ticket_title
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.panels import EventPanel, Shown
from holdtop.console.widgets.rows import Rows
from holdtop.console.world import World
from holdtop.model.values import Runner, Snapshot


class TabPanel(Shown):
    """The names of the pages; a click opens one."""

    SURFACE = "panel"

    class Chosen(Message):
        def __init__(self, page: str) -> None:
            super().__init__()
            self.page = page

    def __init__(self, look: Look, world: World, tabs: Sequence[Tab]) -> None:
        super().__init__(look, world, id="tabs")
        self._tabs = tabs

    def lines(self, size: Size) -> Sequence[Line]:
        return (tab_line(self._tabs, self.world.page, size.width, self.look.glyphs),)

    def on_click(self, event: events.Click) -> None:
        if (page := tab_at(self._tabs, event.x, self.size.width)) is not None:
            self.post_message(self.Chosen(page))


class FactsPanel(Shown):
    """Who the selected ticket is, why it waits or how long it may go on, and what was asked for it."""

    def of(self, snapshot: Snapshot, size: Size) -> Sequence[Line]:
        ticket = self.world.ticket
        name = ticket_title(ticket) if ticket else ""
        return [title("Ticket", name, size.width, self.look.glyphs), *self.facts(snapshot, size.width)]

    def facts(self, snapshot: Snapshot, width: int) -> list[Line]:
        ticket = self.world.ticket
        if ticket is None:
            return [line(Span("   No ticket is selected.", "muted"))]
        resource = find_resource(snapshot, self.world.subject)
        return ticket_lines(ticket, resource, snapshot.taken_at, width, self.look.glyphs)


class OwnPanel(EventPanel):
    """What the selected ticket's hold said, and what its payload says in the log of its own."""

    NAME = "Its log"

    def chosen(self, lines: Iterable[LogLine]) -> list[LogLine]:
        if (ticket := self.world.ticket) is None:
            return []
        own = self.world.kept.lines(ticket.log_path) if ticket.log_path else ()
        return super().chosen([*(line for line in lines if line.ticket == ticket.id), *own])


class _Receipts(Rows[Mapping[str, object]]):
    """Release receipts; ``WHOSE``: of all lanes, and ``NONE``: said where there are none."""

    WHOSE = False
    NONE = "No hold has left a receipt yet."

    def __init__(self, look: Look, world: World, *, id: str) -> None:
        super().__init__(look, id=id)
        self.world = world

    def key_of(self, item: Mapping[str, object]) -> Hashable:
        return str(item.get("resource")), str(item.get("ticket"))

    def draw(self, item: Mapping[str, object], width: int, selected: bool) -> Sequence[Line]:
        now = self.world.snapshot.taken_at if self.world.snapshot else ""
        chosen = selected and self.has_focus
        return (receipt_row(item, now, width, self.look.glyphs, whose=self.WHOSE, selected=chosen),)

    def head(self) -> Line | None:
        return receipt_head(self.size.width, self.look.glyphs, whose=self.WHOSE) if self.items else None

    def detail(self) -> str:
        return summary(self.items)

    def empty(self) -> Sequence[Line]:
        return (line(Span(f"   {self.NONE}", "muted")),)


class PastPanel(_Receipts):
    """The earlier holds of the selected ticket's lane."""

    NAME = "This lane's past"
    NONE = "No hold of this lane has left a receipt."

    def see(self) -> None:
        ticket, snapshot = self.world.ticket, self.world.snapshot
        self.show(of_lane(snapshot, ticket.resource, ticket.lane) if snapshot and ticket else ())


class ReceiptPanel(_Receipts):
    NAME = "Releases"
    WHOSE = True

    def see(self) -> None:
        snapshot, wanted = self.world.snapshot, self.world.wanted
        found = receipts(snapshot) if snapshot else []
        self.show([said for said in found if any(wanted in str(value).casefold() for value in said.values())])


class ActsPanel(Rows[Deed]):
    NAME = "Acts"
    TALL = acts.ROWS

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="acts")
        self.world = world

    def see(self) -> None:
        found = deeds(self.world.acts) if self.world.acts else []
        self.show([deed for deed in found if acts.matches(deed, self.world.wanted)])

    def key_of(self, item: Deed) -> Hashable:
        return item.user, item.act

    def draw(self, item: Deed, width: int, selected: bool) -> Sequence[Line]:
        now = self.world.snapshot.taken_at if self.world.snapshot else ""
        return act_rows(item, now, width, self.look.glyphs, selected=selected and self.has_focus)

    def detail(self) -> str:
        return chain_words(self.world.acts, reading=self.world.reading_acts)

    def head(self) -> Line | None:
        return chain_line(self.world.acts, self.look.glyphs)

    def empty(self) -> Sequence[Line]:
        if self.world.acts is None or self.world.acts.trouble:
            return ()
        words = (
            "No act matches the filter." if self.world.wanted else "Nobody has ended, evicted or recovered anything."
        )
        return (line(Span(f"   {words}", "muted")),)


class RunnerPanel(Rows[Runner]):
    NAME = "Runners"
    TALL = runners.ROWS

    def __init__(self, look: Look, world: World) -> None:
        super().__init__(look, id="runners")
        self.world = world

    def see(self) -> None:
        self.show(self.world.snapshot.runners if self.world.snapshot else ())

    def key_of(self, item: Runner) -> Hashable:
        return item.unit

    def draw(self, item: Runner, width: int, selected: bool) -> Sequence[Line]:
        now = self.world.snapshot.taken_at if self.world.snapshot else ""
        return runners.runner_rows(item, now, width, self.look.glyphs, selected=selected and self.has_focus)

    def detail(self) -> str:
        return runners.summary(self.items)

    def empty(self) -> Sequence[Line]:
        words = runners.empty_words(self.world.snapshot)
        return [part for said in words for part in wrapped(said, self.size.width, self.look.glyphs)]


def behind(look: Look, world: World, acts: ActsPanel) -> tuple[Rows[Any], ...]:
    """The lists of the pages behind the first one, in the order of Tab."""
    return (
        PastPanel(look, world, id="past"),
        OwnPanel(look, world, id="own"),
        acts,
        ReceiptPanel(look, world, id="receipts"),
        RunnerPanel(look, world),
    )
