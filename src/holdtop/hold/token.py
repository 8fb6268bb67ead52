"""The token: a file whose *existence* means "held", for us and for the older shell tool alike.

Taking creates it complete, or not at all. Releasing compares device and inode with the descriptor kept since the
take, under the lock, then unlinks: it never needs a successful write, and a token that is not ours stays as it is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

from holdtop.errors import HoldError
from holdtop.hold import ticket as tickets
from holdtop.hold.files import ASIDE, SIZE_LIMIT, Dir, Untrusted, author, is_in_place, rename
from holdtop.hold.view import TicketFile, TokenFile
from holdtop.lean import dataclass, replace
from holdtop.payload import linux
from holdtop.payload.members import real_uid

#: Line 1, as the shell tool writes it: lane, pid and, from us, a date.
FIRST_LINE = re.compile(r"(\S{1,256}) ([1-9][0-9]{0,9})(?: (\S{1,64}))?\s*")


def content(ticket: TicketFile, data: bytes, queue_path: str) -> bytes:
    """A complete token for a ticket: the first line, the ticket's lines, and where it queued."""
    first = f"{tickets.escape(ticket.lane) or '-'} {ticket.pid} {tickets.now()}\n"
    return first.encode() + data + tickets.encode({"queue": queue_path})


@dataclass(slots=True)
class OwnToken:
    """The token while we hold it. ``fd`` is open from take to release, so its inode cannot be reused."""

    directory: Dir
    name: str
    fd: int
    #: Tells ours, should the other process of the hold have had to make it again.
    nonce: str

    def in_place(self) -> bool | None:
        """True: ours lies there. None: nothing lies there. False: something else does."""
        ours = is_in_place(self.fd, self.directory, self.name)
        if ours is not False:
            return ours
        found = look(self.directory, self.name)
        return found is not None and found.nonce == self.nonce and found.uid == os.geteuid()

    def release(self) -> bool:
        """Unlink it if it is ours; the caller has the queue's lock. False: it was not there, or not ours."""
        if self.in_place():
            return self.directory.remove(self.name)
        return False

    def put_back(self, data: bytes) -> bool:
        """Somebody removed it while we hold: make it again when the path is free."""
        fresh = take(self.directory, self.name, data)
        if fresh is None:
            return False
        os.dup2(fresh.fd, self.fd, inheritable=False)
        os.close(fresh.fd)
        return True


def take(directory: Dir, name: str, data: bytes) -> OwnToken | None:
    """Create the token, complete, only if nothing has its name. ``None`` when something has.

    The caller has the queue's lock. Raises ``OSError``.
    """
    if directory.status(name) is not None:
        return None
    directory.remove(_swapped(name))  # what it was to be exchanged back with has been removed
    aside, fd = _complete(directory, name, data)
    try:
        _name_it(directory, aside, name)
    except FileExistsError:
        directory.remove(aside)
        os.close(fd)
        return None
    except OSError:
        directory.remove(aside)
        os.close(fd)
        raise
    return OwnToken(directory, name, fd, _nonce(data))


def _complete(directory: Dir, name: str, data: bytes) -> tuple[str, int]:
    """The whole token under another name, and its descriptor with the life lock."""
    aside = ASIDE + name  # one name: this happens under the queue's lock, so what has it is debris
    directory.remove(aside)
    fd = directory.create(aside, data)
    try:
        tickets.lock_life(fd)
    except OSError:
        directory.remove(aside)
        os.close(fd)
        raise
    return aside, fd


def _swapped(name: str) -> str:
    """Where an exchange puts what lay at the token's path. Found there later: whoever exchanged was killed in it."""
    return f"{ASIDE}{name}.swapped"


def _nonce(data: bytes) -> str:
    return tickets.decode(data).get("nonce", "")


def _name_it(directory: Dir, aside: str, name: str) -> None:
    """Exclusive and atomic: RENAME_NOREPLACE leaves one name at every instant; link(2) where it is missing."""
    try:
        linux.rename_special(directory.fd, aside, directory.fd, name, linux.RENAME_NOREPLACE)
        return
    except OSError as error:
        if linux.exchange_possible(error):
            raise
    os.link(aside, name, src_dir_fd=directory.fd, dst_dir_fd=directory.fd, follow_symlinks=False)
    directory.remove(aside)


def look(directory: Dir, name: str) -> TokenFile | None:
    """What lies at the token's path; ``None`` when nothing does. Never raises for what lies there."""
    status = directory.status(name)
    if status is None:
        return None
    token = TokenFile(status.st_dev, status.st_ino, status.st_uid, "garbled")
    try:
        fd = directory.open(name, links=2)
    except FileNotFoundError:
        return None
    except Untrusted as error:
        return replace(token, why=str(error))
    except OSError as error:
        return replace(token, why=f"{directory.of(name)}: {error.strerror}")
    try:
        return _read(fd, directory, name)
    finally:
        os.close(fd)


def _read(fd: int, directory: Dir, name: str) -> TokenFile:
    status, path = os.fstat(fd), directory.of(name)
    token = TokenFile(status.st_dev, status.st_ino, status.st_uid, "garbled")
    aside = directory.status(ASIDE + name)
    if status.st_nlink > 1 and not (aside and os.path.samestat(aside, status)):
        return replace(token, why=f"it has {status.st_nlink} names (hard links)")
    with contextlib.suppress(Untrusted):
        token = replace(token, authored=author(status, path) == status.st_uid)
    try:
        token = replace(token, locked=tickets.is_locked(fd))
        data = os.read(fd, SIZE_LIMIT + 1)
    except OSError as error:
        return replace(token, why=f"{path}: {error.strerror}")
    if len(data) > SIZE_LIMIT:
        return replace(token, why=f"it is larger than {SIZE_LIMIT} bytes")
    return parse(data, token)


@contextlib.contextmanager
def pinned(directory: Dir, name: str) -> Iterator[os.stat_result | None]:
    """Keep the token's inode from being used again while the block judges and exchanges it.

    Gives its status, ``None`` when nothing lies there. Without this, the next lane's token could have the
    number of the ghost that was just removed (ext4 hands it out again at once). Raises ``OSError``.
    """
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory.fd)
    except FileNotFoundError:
        yield None
        return
    try:
        yield os.fstat(fd)
    finally:
        os.close(fd)


def parse(data: bytes, token: TokenFile) -> TokenFile:
    if not data:
        return replace(token, why="it is empty: a holder on a full disk, or a crash between create and write")
    first, whole, rest = data.decode("utf-8", "surrogateescape").partition("\n")
    form = FIRST_LINE.fullmatch(first)
    if form is None or not whole:
        return replace(token, why="its first line is not a whole '<lane> <pid>'")
    said = replace(token, kind="shell", lane=tickets.unescape(form[1]), pid=int(form[2]), taken_at=form[3])
    lines = rest.encode("utf-8", "surrogateescape")
    if "id" not in tickets.decode(lines):
        return said
    try:
        ticket = tickets.parse(lines, uid=token.uid, locked=token.locked)
    except Untrusted as error:
        return replace(said, kind="garbled", why=f"its ticket is not to be believed: {error}")
    if not token.authored:
        return replace(said, kind="garbled", why="others than its owner may write it: its ticket is nobody's word")
    if token.locked is False and ticket.identity_alive and real_uid(ticket.pid) not in (ticket.uid, None):
        return replace(said, kind="garbled", why=f"pid {ticket.pid}, which it names, is another account's process")
    if ticket.pid != said.pid:
        return replace(said, kind="garbled", why="its first line and its ticket name two pids")
    return replace(said, kind="holdtop", ticket_id=ticket.id, nonce=ticket.nonce, ticket=ticket)


def exchange_for(directory: Dir, name: str, data: bytes, ghost: TokenFile, keep_as: str | None) -> OwnToken | None:
    """Put our complete token where the ghost's lies, and only there; the caller has the queue's lock.

    RENAME_EXCHANGE swaps in one step; what came out is inspected, and swapped back if it was not the ghost: one that
    ignores our lock (a shell) may have removed the ghost and taken meanwhile. A hold's own token is never touched.
    ``keep_as``: the name under which the ghost's file is kept for inspection, ``None`` to remove it.
    ``None`` when something else lay there. Raises ``HoldError`` where the file system cannot exchange.
    """
    there = directory.status(name)
    if there is None or not _is(there, ghost) or _restored(directory, name, there):
        return None
    aside, fd = _complete(directory, name, data)
    swapped = _swapped(name)
    try:
        rename(directory, aside, swapped)
        linux.rename_special(directory.fd, swapped, directory.fd, name, linux.RENAME_EXCHANGE)
    except OSError as error:
        directory.remove(swapped)
        os.close(fd)
        if error.errno == errno.ENOENT:
            return None
        if linux.exchange_possible(error):
            raise
        raise HoldError(
            f"{directory.of(name)}: this file system cannot exchange two files, so a ghost's token cannot be freed "
            "safely beside others; make sure that nobody holds or waits, then remove it by hand"
        ) from error
    if not _is(os.lstat(swapped, dir_fd=directory.fd), ghost):
        _swap_back(directory, swapped, name, os.fstat(fd))
        os.close(fd)
        return None
    if keep_as is None:
        directory.remove(swapped)
    else:
        rename(directory, swapped, keep_as)
    return OwnToken(directory, name, fd, _nonce(data))


def _restored(directory: Dir, name: str, placed: os.stat_result) -> bool:
    """Whether ``placed`` came there by an exchange that was never completed, and a stranger's token is back now."""
    left = look(directory, _swapped(name))
    if left is None or left.ghost:
        return False
    _swap_back(directory, _swapped(name), name, placed)
    return True


def _is(status: os.stat_result, ghost: TokenFile) -> bool:
    return (status.st_dev, status.st_ino) == (ghost.device, ghost.inode)


def _swap_back(directory: Dir, swapped: str, name: str, placed: os.stat_result) -> None:
    """A stranger's token came out: give it its name again, as if it had never lost it.

    Meanwhile ``placed`` stood for it. Whoever removed that has removed the stranger's (a shell releases by the path
    alone): then it does not come back, and what was created since is the token.
    """
    with contextlib.suppress(FileNotFoundError):
        while True:
            stranger = os.lstat(swapped, dir_fd=directory.fd)
            linux.rename_special(directory.fd, swapped, directory.fd, name, linux.RENAME_EXCHANGE)
            if os.path.samestat(os.lstat(swapped, dir_fd=directory.fd), placed):
                break
            placed = stranger
    directory.remove(swapped)
