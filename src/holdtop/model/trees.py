"""Which processes belong to a ticket, and how each was found.

Descent from the hold's own processes is the kernel's word. A record is its author's word: it is heard only beside
a ticket of the same author and nonce, and only of processes whose (pid, start) still match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdtop.hold.view import Record, TicketFile
from holdtop.model.raw import Stat
from holdtop.model.values import FoundBy


@dataclass(frozen=True, slots=True)
class Forest:
    """The process table with its children."""

    stats: Mapping[int, Stat]
    children: Mapping[int, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, stats: Mapping[int, Stat]) -> Forest:
        children: dict[int, list[int]] = {}
        for pid in sorted(stats):
            children.setdefault(stats[pid].ppid, []).append(pid)
        return cls(stats, children)

    def below(self, pids: Iterable[int]) -> list[int]:
        """Every pid below these, parents before children, themselves not included."""
        roots = [pid for pid in pids if pid in self.stats]
        seen, order = set(roots), []
        stack = [child for pid in reversed(roots) for child in reversed(self.children.get(pid, ()))]
        while stack:
            pid = stack.pop()
            if pid not in seen:
                seen.add(pid)
                order.append(pid)
                stack.extend(reversed(self.children.get(pid, ())))
        return order

    def alive(self, pid: int, start_ticks: int) -> Stat | None:
        """That very process, if it lives."""
        stat = self.stats.get(pid)
        return stat if stat and stat.start_ticks == start_ticks and not stat.dead else None

    def unreaped(self, ticket: TicketFile) -> Stat | None:
        """The ticket's process, if it is dead and its parent does not wait for it."""
        stat = self.stats.get(ticket.pid)
        return stat if stat and stat.start_ticks == ticket.start_ticks and stat.dead else None


def believed(ticket: TicketFile, records: Mapping[str, Record]) -> Record | None:
    """The ticket's record, when the ticket's author wrote it about this very ticket."""
    record = records.get(ticket.id)
    return record if record and record.nonce == ticket.nonce and record.uid == ticket.uid else None


def hold_pids(ticket: TicketFile, record: Record | None, forest: Forest) -> frozenset[int]:
    """The hold's own living processes: supervisor and keeper. They are never members."""
    pids = {ticket.pid} if forest.alive(ticket.pid, ticket.start_ticks) else set()
    keeper = forest.stats.get(record.keeper_pid) if record and record.keeper_pid else None
    if keeper and record and ticket.start_ticks <= keeper.start_ticks <= (record.root_start_ticks or -1):
        pids.add(keeper.pid)  # one that started after its payload is a stranger with a recycled pid
    return frozenset(pids)


def members(
    ticket: TicketFile, record: Record | None, forest: Forest, grouped: Iterable[int] = ()
) -> dict[int, FoundBy]:
    """The payload's pids, parents before children. A dead one that nobody reaped is shown too."""
    own = hold_pids(ticket, record, forest)
    found: dict[int, FoundBy] = {pid: "descent" for pid in forest.below(sorted(own)) if pid not in own}
    if record is None:
        return found
    known = [(process.pid, process.start_ticks) for process in record.members]
    if record.root_pid is not None and record.root_start_ticks is not None:
        known.insert(0, (record.root_pid, record.root_start_ticks))
    for pid, start in known:
        if pid not in found and pid not in own and forest.alive(pid, start):
            found[pid] = "record"
            found |= {child: "record" for child in forest.below([pid]) if child not in found and child not in own}
    return found | {pid: "cgroup" for pid in grouped if pid in forest.stats and pid not in own and pid not in found}
