"""The queue directory: its lock, the sequence, and who is in it in which order.

Order comes from a counter under a lock, never from clocks, names or luck. Everything of ours that changes the
queue or the token does so under ``Q/.lock``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from itertools import count

from holdtop.errors import LockTimeout, PlaceError
from holdtop.hold import record
from holdtop.hold import ticket as tickets
from holdtop.hold.files import ASIDE, Dir, Untrusted, is_in_place, no_locks, rename, undone, write_all, writing
from holdtop.hold.ticket import TICKET_FORM, Wish
from holdtop.hold.view import QueueEntry, TicketFile
from holdtop.lean import dataclass, field

LOCK = ".lock"
SEQUENCE = ".sequence"
#: Beyond this a number is nobody's: ten digits would not hold the next ones for long.
LAST_SEQUENCE = 9_000_000_000
#: So many living tickets at the front are read by everybody who joins.
SWEPT = 64
#: Of those behind the front one in so many is read anew at each look: a prime, since several queues take turns.
AFRESH = 17
_looks = count()
#: How long the queue's lock is waited for, in seconds; it is held for milliseconds.
LOCK_WAIT = 10.0


@contextlib.contextmanager
def locked(queue: Dir, wait: float = LOCK_WAIT, token_dir: Dir | None = None) -> Iterator[None]:
    """Hold ``Q/.lock`` (flock(2): any member may take it, though only its maker may write it).

    Whoever touches the token locks its directory as well: a queue may have been renamed or its lock replaced, or one
    token be named with two queues, and what is written aside there has one name.
    Raises ``LockTimeout`` naming who has it, or what ``files.refuse`` makes of an error.
    """
    path, until = queue.of(LOCK), time.monotonic() + wait
    while True:
        with writing(path, "open the queue's lock"):
            fd = queue.open_or_create(LOCK)
        try:
            with writing(path, "take the queue's lock"):
                taken = flocked(fd, until)
                ours = is_in_place(fd, queue, LOCK)
            if not taken:
                raise LockTimeout(f"{path} has been held for {wait:g} s by {_holder(fd)}")
            if ours:  # else others lock what somebody has put there
                with contextlib.nullcontext() if token_dir is None else _alone(token_dir, until, wait):
                    yield
                return
        finally:
            os.close(fd)


@contextlib.contextmanager
def _alone(directory: Dir, until: float, wait: float) -> Iterator[None]:
    with writing(directory.path, "lock the token's directory"):
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory.fd)  # that one is shared
    try:
        with writing(directory.path, "lock the token's directory"):
            taken = flocked(fd, until)
        if not taken:
            raise LockTimeout(f"{directory.path} has been locked for {wait:g} s by {_holder(fd)}")
        yield
    finally:
        os.close(fd)


def flocked(fd: int, until: float = 0.0) -> bool:
    """Take the lock by ``until`` (``time.monotonic()``); False when somebody has it."""
    pause = 0.0005
    while True:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _holder(fd: int) -> str:
    """Who has the lock, from ``/proc/locks`` (proc_locks(5)): the pid that took it, by the file's inode."""
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as file:
        for line in file:
            fields = line.split()
            if "->" not in fields and fields[1] == "FLOCK" and fields[5].endswith(f":{os.fstat(fd).st_ino}"):
                return f"pid {fields[4]}"
    return "an unknown process"


@dataclass(slots=True)
class OwnTicket:
    """A ticket of this process: the life lock lives as long as ``fd`` is open here or in the keeper."""

    queue: Dir
    ticket: TicketFile
    #: The file's content, as the token repeats it.
    data: bytes
    fd: int
    #: Ids with lower numbers, those of the running and the dead included, nearest last: no number is given twice and
    #: none below another, so the queue is listed once in a waiter's life.
    before: list[str]
    #: ``time.monotonic()`` of the queueing.
    at: float = field(default_factory=time.monotonic)

    def present(self) -> bool:
        """False once somebody removed it: evicted while waiting, a stop while running."""
        return is_in_place(self.fd, self.queue, self.ticket.id) is True

    def leave(self) -> None:
        """Remove the file, unless another one has its name. Where that fails, the next to queue up does it."""
        with contextlib.suppress(OSError):
            if self.present():
                self.queue.remove(self.ticket.id)


def join(queue: Dir, wish: Wish, holder: str | None = None) -> OwnTicket:
    """Queue up. Raises ``StateWriteError`` and the like; then no half ticket is left.

    ``holder``: the ticket that has the token, which stays even if it is dead (its ghost is recovered by others).
    """
    with locked(queue), writing(queue.path, "write a ticket"):
        before = _sweep(queue, holder)
        sequence = _next_sequence(queue, before)
        lines = tickets.describe(wish, sequence)
        data = tickets.encode(lines)
        ticket = tickets.parse(data, uid=os.geteuid(), name=lines["id"], locked=True)
        aside = ASIDE + ticket.id
        fd = queue.create(aside)
        with undone(queue, aside, fd):
            tickets.lock_life(fd)
            _prove_locks(queue, aside)
            write_all(fd, data)
            rename(queue, aside, ticket.id)
        return OwnTicket(queue, ticket, data, fd, before)


def _prove_locks(queue: Dir, ticket: str) -> None:
    """Raise ``PlaceError`` unless both our locks, the queue's and that on our ticket, exclude another opening.

    Some network file systems grant every lock and keep none: holds would seem dead, and all be let in at once.
    """
    for name, kept in ((LOCK, lambda fd: not flocked(fd)), (ticket, tickets.is_locked)):
        fd = queue.open(name)
        try:
            if not kept(fd):
                raise PlaceError(f"{queue.of(name)}: a lock was granted and is not kept; {no_locks(queue.path)}")
        finally:
            os.close(fd)


def _next_sequence(queue: Dir, ids: list[str]) -> int:
    """A number never used before. A lost counter restarts above everything that can still be seen.

    Only what is believable counts: a planted file name must not use the numbers up.
    """
    try:
        text = queue.read(SEQUENCE)[0].strip()
        counter = int(text) if text.isdigit() and len(text) <= 10 else LAST_SEQUENCE
    except (FileNotFoundError, Untrusted):
        counter = LAST_SEQUENCE
    if counter >= LAST_SEQUENCE:
        counter = _sequence_from_events(queue)
    number = max(counter, _highest(queue, ids)) + 1
    queue.replace(SEQUENCE, f"{number}\n".encode())
    return number


def _highest(queue: Dir, ids: list[str]) -> int:
    """The highest number of a believable ticket; 0 where there is none."""
    for name in reversed(ids):
        with contextlib.suppress(OSError, Untrusted):
            ticket = tickets.read(queue, name)
            if ticket.sequence < LAST_SEQUENCE:
                return ticket.sequence
    return 0


def _sequence_from_events(queue: Dir) -> int:
    from holdtop.hold import events  # only ever needed when the counter is lost

    numbers = [int(form[1]) for name in events.recent_tickets(queue) if (form := TICKET_FORM.fullmatch(name))]
    return max((number for number in numbers if number < LAST_SEQUENCE), default=0)


def _sweep(queue: Dir, holder: str | None) -> list[str]:
    """Under the lock: remove what dead waiters left, half-written files, tickets that will never take, stale records.

    A ticket with a record has run: its payload may live, and recovery needs both.

    Files are written aside under this lock only, so whatever is there now has no owner. Returns the ids that stay.
    """
    names = sorted(queue.names())
    ids = list(filter(TICKET_FORM.fullmatch, names))
    dead = {name for name in _left_behind(queue, ids) if name != holder}
    for name in [*dead, *(name for name in names if name.startswith(ASIDE))]:
        with contextlib.suppress(OSError):
            queue.remove(name)
    record.remove_stale(queue, {holder, *ids})
    return [name for name in ids if name not in dead]


def _left_behind(queue: Dir, ids: list[str]) -> Iterator[str]:
    """Tickets of the dead: read are the first in line until so many live, and those whose number no process has.

    Not each that waits is read: thousands may. One whose number was given again is found when it comes to the front.
    """
    living, there = 0, set(os.listdir("/proc")) if len(ids) > SWEPT else set()
    for name in ids:
        if living < SWEPT or name.partition("-")[2] not in there:
            with contextlib.suppress(OSError, Untrusted):
                if tickets.read(queue, name).dead and not record.read(queue, name):
                    yield name
                else:
                    living += 1


def look(queue: Dir, before: Iterable[TicketFile] = ()) -> tuple[list[TicketFile], list[QueueEntry]]:
    """All tickets by sequence, and the entries that are none. Never blocks, never raises for one bad entry.

    ``before``: what a look a moment ago has found.
    """
    found: list[TicketFile] = []
    entries: list[QueueEntry] = []
    names = sorted(name for name in queue.names() if not name.startswith("."))
    known = _unchanged(names, before)
    for name in names:
        if name in known:
            found.append(known[name])
            continue
        if not TICKET_FORM.fullmatch(name):
            entries.append(QueueEntry(name, _named_pid(name), "not a ticket of holdtop", foreign=True))
            continue
        try:
            found.append(tickets.read(queue, name, asking=False))
        except FileNotFoundError:
            continue
        except Untrusted as error:
            entries.append(QueueEntry(name, None, str(error), foreign=False))
        except OSError as error:
            entries.append(QueueEntry(name, None, error.strerror or "cannot be read", foreign=False))
    found.sort(key=lambda ticket: (ticket.sequence, ticket.pid))
    return found, entries


def _unchanged(names: list[str], before: Iterable[TicketFile]) -> dict[str, TicketFile]:
    """Of a crowd, those behind the front that waited and lived a moment ago, and whose number a process has.

    A ticket is never rewritten, and who dies takes the number along. Somebody may have done the one or got the other
    all the same, so in turn some are read anew at each look.
    """
    if len(names) <= SWEPT:
        return {}
    behind, there, turn = names[SWEPT], set(os.listdir("/proc")), next(_looks)
    return {
        ticket.id: ticket
        for ticket in before
        if ticket.id >= behind
        and ticket.locked
        and ticket.sequence % AFRESH != turn % AFRESH
        and str(ticket.pid) in there
    }


def ahead(own: OwnTicket, holder: str | None) -> Iterator[TicketFile]:
    """Who waits before us, nearest first and read one by one: a waiter as such needs only the nearest.

    ``holder``: the ticket that has the token and waits no more. Entries that are not believable are passed over.
    """
    for at in reversed(range(len(own.before))):
        if own.before[at] == holder:
            continue
        try:
            ticket = tickets.read(own.queue, own.before[at])
        except FileNotFoundError:
            del own.before[at]
        except (OSError, Untrusted):
            continue
        else:
            if ticket.dead:
                del own.before[at]  # for ever, even if nobody removes it
            else:
                yield ticket


def place(own: OwnTicket) -> int:
    """How many are before us at most: who has gone from the middle counts until those in front of him have gone."""
    gone = next((number for number, name in enumerate(own.before) if own.queue.status(name)), len(own.before))
    del own.before[:gone]
    return len(own.before)


def _named_pid(name: str) -> int | None:
    """The pid that a foreign entry's name seems to end with; a claim, for showing only."""
    tail = name.rpartition("-")[2].rpartition(".")[2]
    return int(tail) if tail.isascii() and tail.isdigit() and 1 < int(tail) < 1 << 22 else None
