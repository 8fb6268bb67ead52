"""The live screen with its pages: one world, of which each page shows a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult

from holdtop.console.arrange import LEAST
from holdtop.console.board import Board
from holdtop.console.feeds import Operator
from holdtop.console.keys import Key, bindings, offered, tabs
from holdtop.console.messages import PageOpened
from holdtop.console.screens.pages import Paged
from holdtop.console.view.acts import Deed
from holdtop.console.view.queue import SORTS
from holdtop.console.view.subject import FlagKey, TicketKey, flag_key, ticket_key, tickets
from holdtop.console.view.tree import Node
from holdtop.console.widgets.lines import SourcePanel
from holdtop.console.widgets.panel import Look
from holdtop.console.widgets.rows import Rows
from holdtop.console.widgets.small import Field, FooterPanel
from holdtop.console.world import World
from holdtop.errors import HoldtopError

if TYPE_CHECKING:
    from holdtop.operator.values import Verb


class MainScreen(Paged):
    """Shows the world; changes only what is selected in it."""

    BINDINGS: ClassVar = bindings("screen")

    def __init__(
        self,
        look: Look,
        world: World,
        operator: Operator,
        keys: Sequence[Key],
        *,
        reasons: Sequence[str],
        state_dir: str | None,
    ) -> None:
        super().__init__(world, keys)
        self._look, self._operator = look, operator
        self._reasons, self._state_dir = reasons, state_dir

    def compose(self) -> ComposeResult:
        troubles = self._world.troubles
        note = f"{troubles[0]} (? shows all)" if troubles else ""
        yield Board(
            self._look,
            self._world,
            {key.action: key.shown for key in self._keys},
            tabs(self._keys),
            Field(placeholder="show only rows that contain", id="find", compact=True),
            Field(placeholder="mark lines with a word, or with a /pattern/", id="search", compact=True),
            FooterPanel(self._look, offered(self._keys, self._world.page), note),
        )

    def look_again(self) -> None:
        self.board.show()

    def select(self, key: TicketKey | FlagKey) -> None:
        self._world.subject = key
        panel: Rows[Any] = self.board.flags if isinstance(key, FlagKey) else self.board.queue
        panel.key = key
        self.home()
        self.look_again()

    def on_rows_moved(self, message: Rows.Moved) -> None:
        """A row of the queue or of the flags is what the keys act on, and whose tree is shown; a log is opened."""
        key = message.rows.key
        if isinstance(message.rows, SourcePanel):
            self._world.log_file = str(key)
            self.look_again()
        if isinstance(key, TicketKey | FlagKey) and key != self._world.subject:
            self._world.subject = key
            self.look_again()

    def action_panel(self, direction: int) -> None:
        self.board.go(direction)

    def action_jump(self, where: str) -> None:
        snapshot = self._world.snapshot
        if snapshot is None:
            return
        holder = next(tickets(snapshot), None)
        if where == "worst" and snapshot.flags:
            self.select(flag_key(snapshot.flags[0]))
        elif where == "holder" and holder is not None:
            self.select(ticket_key(holder))
        else:
            self.say("nothing is wrong" if where == "worst" else "nobody holds, nobody waits")

    def action_fold(self) -> None:
        node, deed = self.board.processes.current, self.board.acts.current
        if self._world.page == "audit":
            self._open_deed(deed)
        elif self.board.queue.has_focus:
            self.action_page("ticket")
        elif node is not None and node.children:
            self._world.folded ^= {node.process.pid}
            self.look_again()

    def _open_deed(self, deed: Deed | None) -> None:
        if deed is None or not self.board.acts.has_focus:
            self.say("select an act first")
            return
        from holdtop.console.screens.deed import DeedScreen

        self.app.post_message(PageOpened("audit"))  # it is read again
        self.app.push_screen(DeedScreen(self._look, self._world, deed))

    def action_mark(self) -> None:
        """Mark what the cursor is on, and go on to the next row."""
        rows: Rows[Any] = self.board.processes if self.board.processes.has_focus else self.board.flags
        row = rows.current if rows.has_focus else None
        pids = [row.process.pid] if isinstance(row, Node) else row.pids if row else ()
        if self._world.mark(pids):
            rows.action_move(1)
            self.look_again()
        else:
            self.say("mark: only survivors and strays can be marked, here or by their flags")

    def action_sort(self) -> None:
        names = list(SORTS)
        self._world.sort = names[(names.index(self._world.sort) + 1) % len(names)]
        self.look_again()

    def action_copy(self) -> None:
        subject = self._world.subject
        wanted = subject.id if isinstance(subject, TicketKey) else subject.ticket if subject else None
        if wanted is None:
            self.say("nothing with an id is selected")
        else:
            self.app.copy_to_clipboard(self._look.glyphs.clean(wanted))
            self.say(f"copied {wanted}")

    def action_act(self, verb: Verb) -> None:
        snapshot, world = self._world.snapshot, self._world
        if snapshot is None:
            return
        if (why := self._no_act()) is not None:
            self.say(why)
            return
        from holdtop.console.acting import wish  # after the first picture, as all that acts

        node = self.board.processes.current if self.board.processes.has_focus else None
        marked = tuple(pid for pid, _ in sorted(world.marked))
        try:
            meant = wish(self._operator, snapshot, verb, world.subject, node, self._state_dir, marked)
        except HoldtopError as error:
            self.say(str(error))
            return
        from holdtop.console.screens.act import ActScreen

        look, operator, reasons = self._look, self._operator, self._reasons
        asked = ActScreen(look, meant, operator, at=snapshot.at, reasons=reasons, read_only=lambda: world.read_only)
        self.app.push_screen(asked)

    def _no_act(self) -> str | None:
        """Why nothing can be done from here whatever is selected; the executor refuses as well."""
        if self._world.read_only:
            arm = next(key.shown for key in self._keys if key.action == "arm")
            return f"read-only: nothing is ended, evicted or freed; {arm} arms the console"
        if self.size.width < LEAST[0] or self.size.height < LEAST[1]:
            return "too small to show whom this hits"
        return None
