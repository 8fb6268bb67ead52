"""What the console knows and what the reader of the screen has chosen. Owned by the event loop alone."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from holdtop.console.events import LogLine
from holdtop.console.feeds import Acts
from holdtop.console.kept import Kept
from holdtop.console.view.figures import History
from holdtop.console.view.flags import matches as flag_matches
from holdtop.console.view.queue import SORTS, entry_matches
from holdtop.console.view.queue import matches as ticket_matches
from holdtop.console.view.severity import ghosts
from holdtop.console.view.subject import (
    Entry,
    Subject,
    entries,
    entry_key,
    find_ticket,
    flag_key,
    processes,
    ticket_key,
    tickets,
)
from holdtop.console.view.tree import Node, nodes
from holdtop.model.same import Same
from holdtop.model.values import Flag, Pool, Process, Severity, Snapshot, Ticket

#: Logs of holds that are followed at most.
HELD_LOGS = 20
#: A process: its pid and its start in ticks.
Identity = tuple[int, int]


@dataclass
class World:
    """The newest snapshot, its history, the logs; and selection, filter, sorting and folds."""

    read_only: bool = False
    #: Of a recording: which look of how many it is. Empty on a live box.
    replay: str = ""
    snapshot: Snapshot | None = None
    history: History = field(default_factory=History)
    kept: Kept = field(default_factory=Kept)
    subject: Subject | None = None
    #: Case-folded; empty for everything.
    wanted: str = ""
    sort: str = "position"
    page: str = "now"
    #: Paths of the files that are followed besides the event logs.
    logs: tuple[str, ...] = ()
    #: Paths of the newest holds' own logs, and the accounts of these holds; oldest first.
    held_logs: dict[str, int] = field(default_factory=dict)
    #: The one that is shown; empty for the events of all holds. From which level on, and whether of one ticket only.
    log_file: str = ""
    level: str = "all"
    only: bool = False
    acts: Acts | None = None
    #: They are being read anew.
    reading_acts: bool = False
    folded: frozenset[int] = frozenset()
    #: Survivors and strays that the next act means: (pid, start ticks).
    marked: frozenset[Identity] = frozenset()
    #: Seconds without a snapshot, once that is worth saying.
    silent_for: float | None = None
    #: Themes that could not be loaded, logs that could not be read: said in the footer and in the help.
    troubles: tuple[str, ...] = ()

    def take(self, snapshot: Snapshot) -> None:
        """Make ``snapshot`` the newest one. The first one selects the worst flag, else the holder."""
        first = self.snapshot is None
        self._note_moves(snapshot)
        self._note_logs(snapshot)
        self.snapshot = snapshot
        self.history.add(snapshot)
        self.marked &= {(process.pid, process.start_ticks) for process in snapshot.leftovers}
        if first or (self.subject is None and not self.wanted):
            self.subject = worst(snapshot)

    def _note_moves(self, snapshot: Snapshot) -> None:
        """Say in the log when a resource's state has moved, as when a shared directory appears."""
        if self.replay:
            return  # time goes both ways there
        before = {resource.name: resource.token_path for resource in self.snapshot.resources} if self.snapshot else {}
        for resource in snapshot.resources:
            if before.get(resource.name, resource.token_path) != resource.token_path:
                words = f"its state is now {resource.token_path}; before, {before[resource.name]}"
                self.kept.add([LogLine(resource.name, snapshot.taken_at, "moved", "", words, "warning")])

    def _note_logs(self, snapshot: Snapshot) -> None:
        """Remember the logs of holds, some time beyond their ends: that is when they are looked at."""
        for holder in (resource.holder for resource in snapshot.resources):  # who waits has said of none yet
            if holder and holder.log_path and holder.uid is not None and holder.log_path not in self.logs:
                self.held_logs.pop(holder.log_path, None)
                self.held_logs[holder.log_path] = holder.uid
        for path in list(self.held_logs)[:-HELD_LOGS]:
            if path != self.log_file:
                del self.held_logs[path]
                self.kept.forget(path)

    @property
    def ticket(self) -> Ticket | None:
        """The ticket that is selected, or that the selected flag names."""
        return find_ticket(self.snapshot, self.subject) if self.snapshot else None

    @property
    def only_ticket(self) -> Ticket | None:
        """Whose lines alone are shown; lines of a file are nobody's."""
        return self.ticket if self.only and not self.log_file else None

    def tickets(self) -> list[Ticket]:
        if self.snapshot is None:
            return []
        return _tickets(Same(self.snapshot), self.wanted, self.sort)

    def entries(self) -> list[Entry]:
        """What else lies in the queues."""
        if self.snapshot is None:
            return []
        return [entry for entry in entries(self.snapshot) if entry_matches(entry, self.wanted)]

    @property
    def pool(self) -> Pool:
        """Whose column the rows have: the device's memory."""
        return self.snapshot.pool if self.snapshot else "gtt"

    def ghosts(self) -> dict[str, Severity]:
        """Resources whose holder is dead, each with how bad that is."""
        return ghosts(self.snapshot) if self.snapshot else {}

    def flags(self) -> list[Flag]:
        """All of them, whatever the filter: what is wrong is not to be filtered away."""
        return list(self.snapshot.flags) if self.snapshot else []

    def nodes(self) -> list[Node]:
        """The rows of the tree. A filter shows the matching processes only, without their parents."""
        if self.snapshot is None:
            return []
        return _nodes(Same(self.snapshot), self.subject, self.wanted, self.folded)

    def mark(self, pids: Collection[int]) -> bool:
        """Mark the survivors and strays among these, or unmark them where all are marked. False: there is none."""
        left = self.snapshot.leftovers if self.snapshot else ()
        meant = {(process.pid, process.start_ticks) for process in left if process.pid in pids}
        self.marked = self.marked - meant if meant <= self.marked else self.marked | meant
        return bool(meant)

    def marks(self, pids: Collection[int]) -> bool:
        """Whether all of these are marked."""
        return bool(pids) and {*pids} <= {pid for pid, _ in self.marked}

    def filter(self, wanted: str) -> None:
        """Show only what contains ``wanted``. What is hidden by it is no longer what the keys act on."""
        self.wanted = wanted.casefold()
        flags = self.snapshot.flags if self.snapshot else ()
        shown: list[Subject] = [flag_key(flag) for flag in flags if flag_matches(flag, self.wanted)]
        shown += [ticket_key(ticket) for ticket in self.tickets()]
        shown += [entry_key(entry) for entry in self.entries()]
        if self.subject not in shown:
            self.subject = shown[0] if shown else None


def worst(snapshot: Snapshot) -> Subject | None:
    """What to look at first."""
    if snapshot.flags:
        return flag_key(snapshot.flags[0])
    return next((ticket_key(ticket) for ticket in tickets(snapshot)), None)


def _process_matches(process: Process, wanted: str) -> bool:
    words = (str(process.pid), process.name, process.user or "", *process.command)
    return any(wanted in word.casefold() for word in words)


@lru_cache(maxsize=1)
def _tickets(same: Same[Snapshot], wanted: str, sort: str) -> list[Ticket]:
    shown = [ticket for ticket in tickets(same.value) if not wanted or ticket_matches(ticket, wanted)]
    key = SORTS[sort]
    return sorted(shown, key=key) if key else shown


@lru_cache(maxsize=1)
def _nodes(same: Same[Snapshot], subject: Subject | None, wanted: str, folded: frozenset[int]) -> list[Node]:
    members = processes(same.value, subject)
    if wanted:
        members = tuple(process for process in members if _process_matches(process, wanted)) or members
    return nodes(members, folded, same.value.pool)
