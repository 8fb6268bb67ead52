"""The process tree of what is selected: who, how big, and how each process was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdtop.console.view.expect import fit_words, why_waiting
from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import WIDE, command_text, short_id
from holdtop.console.view.subject import Subject, find_entry, find_flag, find_resource, find_ticket, processes
from holdtop.console.view.text import Line, Span, line
from holdtop.console.view.ticket import particulars
from holdtop.console.view.when import coarse, process_age
from holdtop.model.values import Pool, Process, Snapshot, Ticket
from holdtop.render import bytes_text, counted, short_bytes


@dataclass(frozen=True, slots=True)
class Node:
    """One visible row of the tree."""

    process: Process
    #: Whether each ancestor below the root, and the node itself, is the last of its siblings.
    trail: tuple[bool, ...]
    #: Processes below it that are folded away; their figures are in the node's sums then.
    hidden: int
    children: int
    cpu_percent: float | None
    rss_bytes: int | None
    #: Of the device's pool.
    device_bytes: int | None


def nodes(members: Sequence[Process], folded: frozenset[int], pool: Pool = "gtt") -> list[Node]:
    """The rows, parents before children; a member whose parent is none of them is a root."""
    roots, below = _links(members)
    rows: list[Node] = []
    stack: list[tuple[Process, tuple[bool, ...]]] = [(root, ()) for root in reversed(roots)]
    while stack:
        process, trail = stack.pop()
        children = below.get(process.pid, [])
        shut = process.pid in folded and bool(children)
        part = list(_subtree(process, below)) if shut else [process]
        rows.append(_node(process, trail, part, len(children), pool))
        if not shut:
            last = len(children) - 1
            stack += [(children[index], (*trail, index == last)) for index in range(last, -1, -1)]
    return rows


def _links(members: Sequence[Process]) -> tuple[list[Process], dict[int, list[Process]]]:
    """Roots, and children by pid. A record is foreign text: where its parents form a ring, the ring is cut."""
    by_pid = {process.pid: process for process in members}
    rooted: set[int] = set()
    roots: list[Process] = []
    below: dict[int, list[Process]] = {}
    for process in by_pid.values():
        path = {process.pid}
        above = by_pid.get(process.ppid)
        while above is not None and above.pid not in rooted and above.pid not in path:
            path.add(above.pid)
            above = by_pid.get(above.ppid)
        in_a_ring = above is not None and above.pid == process.pid
        if process.ppid in by_pid and not in_a_ring:
            below.setdefault(process.ppid, []).append(process)
        else:
            roots.append(process)
            rooted.add(process.pid)
    return roots, below


def _subtree(process: Process, below: dict[int, list[Process]]) -> Iterator[Process]:
    stack = [process]
    while stack:
        yield (part := stack.pop())
        stack += below.get(part.pid, [])


def _node(process: Process, trail: tuple[bool, ...], part: list[Process], children: int, pool: Pool) -> Node:
    cpu = [member.cpu_percent for member in part if member.cpu_percent is not None]
    rss = [member.rss_bytes for member in part if member.rss_bytes is not None]
    held = [size for member in part if (size := member.held(pool)) is not None]
    return Node(
        process,
        trail,
        len(part) - 1,
        children,
        sum(cpu) if cpu else None,
        sum(rss) if rss else None,
        sum(held) if held else None,
    )


def tree_head(width: int, glyphs: Glyphs, pool: Pool = "gtt") -> Line:
    size = 9 if width >= WIDE else 6
    text = (
        f" {'PID':>7} {'USER':<7}{'S':<2}{'AGE':>5} {'CPU':>5} {'RSS':>{size}} {pool.upper():>{size}} {'BY':<7} COMMAND"
    )
    return line(Span(glyphs.fit(text, width), "muted"))


def tree_row(node: Node, at: float, width: int, glyphs: Glyphs, *, selected: bool, marked: bool = False) -> Line:
    process, wide = node.process, width >= WIDE
    size_text, size = (bytes_text, 9) if wide else (short_bytes, 6)
    user = process.user or ("?" if process.uid is None else str(process.uid))
    cpu = glyphs.dash if node.cpu_percent is None else f"{node.cpu_percent:.0f}%"
    closed = "closed" if not process.readable else glyphs.dash
    weak = process.found_by in ("marker", "device", "record")
    stuck = process.state in ("D", "Z")
    spans = [
        Span(glyphs.mark if marked else " ", "accent", True),
        Span(f"{process.pid:>7} "),
        Span(glyphs.column(user, 6) + " ", "muted"),
        Span(glyphs.column(process.state, 1) + " ", "warning" if stuck else "text", stuck),
        Span(f"{coarse(process_age(process.start_ticks, at)):>5} {cpu:>5} "),
        Span(f"{size_text(node.rss_bytes, glyphs.dash):>{size}} "),
        Span(f"{size_text(node.device_bytes, closed):>{size}} ", "held" if node.device_bytes else "muted"),
        Span(f"{process.found_by:<7} ", "info" if weak else "muted"),
        Span(_branches(node, glyphs), "muted"),
        Span(_fold_mark(node, glyphs), "accent", True),
        Span(glyphs.clean(process.name, 32), "text", True),
        Span(" " + glyphs.clean(_arguments(process), width), "muted"),
    ]
    return line(*spans, selected=selected)


def _arguments(process: Process) -> str:
    """The command line; without its first word where that repeats the name."""
    first, *rest = process.command or ("",)
    return command_text(rest if first.rsplit("/", 1)[-1] == process.name else process.command)


def _branches(node: Node, glyphs: Glyphs) -> str:
    if not node.trail:
        return ""
    *above, last = node.trail
    return "".join("  " if end else glyphs.through for end in above) + (glyphs.last_branch if last else glyphs.branch)


def _fold_mark(node: Node, glyphs: Glyphs) -> str:
    return f"{glyphs.folded}{node.hidden} " if node.hidden else ""


def tree_detail(snapshot: Snapshot, subject: Subject | None) -> str:
    """What the tree's title says: whose it is, and its sums."""
    ticket, flag = find_ticket(snapshot, subject), find_flag(snapshot, subject)
    members = processes(snapshot, subject)
    if ticket is not None and ticket.payload is not None:
        payload = ticket.payload
        source = " as the hold says" if payload.source == "record" else ""
        held = f"{snapshot.pool.upper()} {bytes_text(payload.held(snapshot.pool))}"
        sums = f"RSS {bytes_text(payload.rss_bytes)}, {held}"
        number = counted(payload.process_count, "process", "processes")
        return f"{ticket.lane or ''} {short_id(ticket.id)}: {number}, {sums}{source}"
    if flag is not None and members:
        return f"{flag.kind}: {counted(len(members), 'process', 'processes')}"
    if ticket is not None:
        return f"{ticket.lane or ''} {short_id(ticket.id)}: {ticket.state}"
    return ""


def tree_words(snapshot: Snapshot, subject: Subject | None) -> list[str]:
    """What stands in the tree's place when there is no process to show."""
    ticket, flag = find_ticket(snapshot, subject), find_flag(snapshot, subject)
    if ticket is not None and ticket.state == "waiting":
        sentence = why_waiting(ticket, find_resource(snapshot, subject), snapshot.taken_at)
        return [sentence, *([fit_words(ticket)] if ticket.resource == "gpu" else []), *_facts(ticket)]
    if ticket is not None:
        return ["No process of it is known.", *_facts(ticket)]
    if (entry := find_entry(snapshot, subject)) is not None:
        return [f"{entry.id} is {entry.why}", "It is left alone; evict removes it from the queue."]
    if flag is not None:
        named = ", ".join(map(str, flag.pids))
        return [f"{flag.text} {f'(pid {named})' if named else ''}", flag.remedy]
    return ["Nothing is held, nobody waits."] if subject is None else ["It is gone."]


def _facts(ticket: Ticket) -> list[str]:
    return [f"{name:<11}{words}" for name, words in particulars(ticket)]
