"""A screen with pages: which one is open, what its keys do, and who gets the keys on it."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from holdtop.console.board import Board
from holdtop.console.keys import Key, offered
from holdtop.console.messages import PageOpened
from holdtop.console.screens.logs import Searching
from holdtop.console.view.subject import FlagKey, ticket_key, tickets
from holdtop.console.widgets.pages import TabPanel
from holdtop.console.widgets.small import Field, FooterPanel
from holdtop.console.world import World


class Paged(Searching):
    """Has a ``Board`` and a ``FooterPanel``; the one place where pages change."""

    def __init__(self, world: World, keys: Sequence[Key]) -> None:
        super().__init__(world)
        self._keys = keys

    @property
    def board(self) -> Board:
        return self.query_one(Board)

    def home(self) -> None:
        """Give the keys to what is selected: at the start the worst flag, else the holder."""
        # At once, not after what is under way: the next key may be in the same read of a slow line.
        if self._world.page == "now":
            self.set_focus(self.board.flags if isinstance(self._world.subject, FlagKey) else self.board.queue)
        else:
            self.set_focus(self.board.first)

    def say(self, words: str) -> None:
        """A note in the footer."""
        self.query_one(FooterPanel).say(words)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys do what the page that is open shows, and nothing else."""
        call = f"screen.{action}({', '.join(map(repr, parameters))})".removesuffix("()")
        pages = next((key.pages for key in self._keys if key.call == call), ())
        return not pages or self._world.page in pages

    def on_key(self, event: events.Key) -> None:
        """A letter that does nothing here says where it would."""
        for key in self._keys if (event.character or " ").isalpha() else ():
            if event.key in key.keys.split(",") and key.pages and self._world.page not in key.pages:
                self.say(f"{key.label}: on the page {' or '.join(page.capitalize() for page in key.pages)}")

    def action_page(self, page: str) -> None:
        world = self._world
        if page == "ticket" and world.ticket is None and world.snapshot:
            world.subject = next((ticket_key(ticket) for ticket in tickets(world.snapshot)), world.subject)
        if page == "ticket" and world.ticket is not None:
            self.board.queue.key = world.subject = ticket_key(world.ticket)
        world.page = page
        self.query_one(FooterPanel).offer(offered(self._keys, page))
        self.app.post_message(PageOpened(page))
        self.look_again()
        self.home()

    def on_tab_panel_chosen(self, message: TabPanel.Chosen) -> None:
        self.action_page(message.page)

    @property
    def typing(self) -> bool:
        return any(field.display for field in self.query(Field))

    @property
    def in_force(self) -> bool:
        """Whether there is something that Esc would undo here."""
        world = self._world
        return bool(self.typing or world.marked or world.wanted or self.lines.marks.searches)

    def action_unfilter(self) -> None:
        """What is in force goes first; where nothing is, the page does."""
        if self._world.marked and not self.typing:
            self._world.marked = frozenset()
            self.look_again()
        elif not self.in_force and self._world.page != "now":
            self.action_page("now")
        else:
            super().action_unfilter()
