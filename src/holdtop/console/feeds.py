"""Where the console's facts come from, and who acts for it; both injected, so that tests bring their own."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from holdtop.console.events import LogLine, in_order, parse_event, parse_line
from holdtop.console.follow import Follower, Note, Open, Place, Said

if TYPE_CHECKING:
    from holdtop.model.values import Snapshot
    from holdtop.operator.values import Outcome, Plan, Step

#: Seconds between two looks at the logs.
LOG_REFRESH = 0.5
#: Seconds between two looks at the audits while they are shown, and by how much a look that took long is stretched.
ACTS_REFRESH = 2.0
ACTS_REST = 19


class Feed(Protocol):
    """A source of snapshots in threads of its own."""

    def start(self) -> None: ...

    def stop(self) -> None:
        """Give no more snapshots. Must not wait for a read that blocks."""


FeedMaker = Callable[[Callable[["Snapshot"], None]], Feed]


class Late:
    """A feed that is made when it is started, in a thread: what it needs is loaded behind the first picture."""

    def __init__(self, make: Callable[[], Feed]) -> None:
        self._make = make
        self._feed: Feed | None = None
        self._stopped = False

    def start(self) -> None:
        threading.Thread(target=self._begin, name="holdtop-feed", daemon=True).start()

    def _begin(self) -> None:
        self._feed = self._make()
        if not self._stopped:
            self._feed.start()

    def stop(self) -> None:
        self._stopped = True
        if self._feed is not None:
            self._feed.stop()


@dataclass(frozen=True, slots=True)
class Acts:
    """All that the audits say: foreign text."""

    #: By time, the newest last; each account's records are of its own writing.
    records: tuple[Mapping[str, Any], ...] = ()
    #: The first bad record of each account's chain, one sentence each; empty when all are whole, ``None`` when that
    #: was not looked into.
    bad: tuple[str, ...] | None = ()
    #: Names of the accounts that wrote them.
    users: Mapping[int, str] = field(default_factory=dict)
    #: Why they could not be read.
    trouble: str = ""


class Operator(Protocol):
    """Who acts. Each method may block: the console calls them in daemon threads only."""

    def plan_kill(
        self,
        snapshot: Snapshot,
        ticket_id: str | None,
        *,
        pid: int | None = None,
        subtree: int | None = None,
        state_dir: str | None = None,
    ) -> Plan: ...

    def plan_evict(self, snapshot: Snapshot, ticket_id: str, *, state_dir: str | None = None) -> Plan: ...

    def plan_recover(self, snapshot: Snapshot, resource: str, *, state_dir: str | None = None) -> Plan: ...

    def execute(
        self, plan: Plan, *, reason: str, progress: Callable[[Step], None], read_only: bool = False
    ) -> Outcome: ...


class LogFeed:
    """Follows logs in one daemon thread; a log that hangs delays other logs and nothing else."""

    def __init__(
        self,
        on_lines: Callable[[Sequence[LogLine]], None],
        on_earlier: Callable[[str, Sequence[LogLine]], None] = lambda _file, _lines: None,
    ) -> None:
        """``on_earlier`` is told what was asked for by ``reach``: of which file, and its lines, oldest first."""
        self._on_lines, self._on_earlier = on_lines, on_earlier
        self._stop = False
        #: Something is to be done before the next look.
        self._call = threading.Event()
        self._wanted: queue.SimpleQueue[tuple[str, Mapping[str, Place]]] = queue.SimpleQueue()
        self._followers: dict[str, Follower] = {}
        self._events: Mapping[str, str] = {}
        self._files: Sequence[str] = ()
        self._owners: Mapping[str, int] = {}

    def start(self) -> None:
        threading.Thread(target=self._run, name="holdtop-logs", daemon=True).start()

    def stop(self) -> None:
        self._stop = True
        self._call.set()

    def reach(self, file: str, places: Mapping[str, Place]) -> None:
        """Read of a file (empty: of all event logs) what stands before these places, by log. From any thread."""
        self._wanted.put((file, places))
        self._call.set()

    def follow(
        self, events: Mapping[str, str], files: Sequence[str] = (), owners: Mapping[str, int] | None = None
    ) -> None:
        """The logs to follow from now on: event logs by resource, and paths of other files. From any thread.

        ``owners``: who must own the file of a path that somebody else has named.
        """
        self._events, self._files, self._owners = dict(events), tuple(files), dict(owners or {})

    def _run(self) -> None:
        while not self._stop:
            self._call.wait(LOG_REFRESH)
            self._call.clear()
            if lines := self.poll():
                self._on_lines(lines)
            while not self._wanted.empty():
                file, places = self._wanted.get()
                self._on_earlier(file, self.earlier(places))

    def poll(self) -> list[LogLine]:
        """What is new in all of them."""
        events, files = self._events, self._files
        self._forget({*events.values(), *files})
        lines = in_order(line for resource, path in events.items() for line in self._new(path, resource))
        return [*lines, *(line for path in files for line in self._new(path))]

    def earlier(self, places: Mapping[str, Place]) -> list[LogLine]:
        """The lines just before these places, oldest first; a note for each log that has none."""
        found = []
        for log, place in places.items():
            path, resource = (self._events[log], log) if log in self._events else (log, "")
            follower = self._followers.get(path)
            found += [_line(said, path, resource) for said in (follower.before(place) if follower else ())]
        return in_order(found)

    def _forget(self, wanted: set[str]) -> None:
        for path in [path for path in self._followers if path not in wanted]:
            self._followers.pop(path).close()

    def _new(self, path: str, resource: str = "") -> Iterator[LogLine]:
        owner = self._owners.get(path)
        follower = self._followers.setdefault(path, Follower(path, links=not resource and owner is None, owner=owner))
        return (_line(said, path, resource) for said in follower.poll())


class ActsFeed:
    """Reads the audits in a daemon thread, while somebody looks at them and no longer."""

    def __init__(self, read: Callable[[], Acts] | None, on_acts: Callable[[Acts], None]) -> None:
        """``read`` may block, and raises nothing; without it nothing is read."""
        self._read, self._on_acts = read, on_acts
        self._wanted = threading.Event()
        self._now = threading.Event()

    def start(self) -> None:
        if self._read is not None:
            threading.Thread(target=self._run, args=(self._read,), name="holdtop-audit", daemon=True).start()

    def watch(self, wanted: bool) -> bool:
        """Read them at once, and go on; or no more. Gives whether something is read now."""
        (self._wanted.set if wanted else self._wanted.clear)()
        self._now.set()
        return wanted and self._read is not None

    def _run(self, read: Callable[[], Acts]) -> None:
        while self._wanted.wait():
            self._now.clear()
            begun = time.monotonic()
            self._on_acts(read())
            self._now.wait(max(ACTS_REFRESH, ACTS_REST * (time.monotonic() - begun)))


def _line(said: Said, path: str, resource: str) -> LogLine:
    file = "" if resource else path
    if isinstance(said, Note):
        text = said.text if file else f"{path}: {said.text}"
        return LogLine(resource, "", "note", "", text, file=file, left_out=said.left_out)
    line = parse_event(resource, said.text) if resource else parse_line(path, said.text)
    return replace(line, unfinished=True) if isinstance(said, Open) else replace(line, place=said.place)
