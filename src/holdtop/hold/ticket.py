"""A ticket: one hold, waiting or running, as a file of ``key=value`` lines.

Its life sign is an OFD write lock (fcntl(2), F_OFD_SETLK) on the file itself, taken before the file has its name
and inherited by supervisor and keeper only. A probe (F_OFD_GETLK) takes nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import time
from collections.abc import Mapping
from functools import cache

from holdtop.hold.files import Dir, Untrusted
from holdtop.hold.view import TicketFile
from holdtop.lean import dataclass, field, replace
from holdtop.payload.process import PID_LIMIT, Identity, is_alive, own_identity

TICKET_FORM = re.compile(r"([0-9]{10})-([1-9][0-9]{0,9})")
FORMAT = "1"
#: No value is written longer than this, in bytes; a ticket stays far below the size that is read back.
VALUE_LIMIT = 4096
_LIFE = "hhqqi"  # struct flock: type, whence, start, len, pid


@dataclass(frozen=True, slots=True)
class Wish:
    """What a lane asks for: everything a ticket says that is not the kernel's."""

    resource: str
    lane: str
    #: Shell-quoted and redacted.
    command: str
    limits: Mapping[str, str] = field(default_factory=dict)


def now(later: float = 0.0) -> str:
    """RFC 3339 with offset, local; so many seconds later. A wall clock is for people: nothing is decided by it."""
    at = time.localtime(time.time() + later)  # noqa: TID251  the one edge; datetime costs each start 2 ms
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z", at)
    return f"{text[:-2]}:{text[-2:]}"


@cache
def boot_id() -> str:
    """Changes at each boot (random(4)); empty when it cannot be read."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


@cache
def namespace(kind: str) -> int | None:
    """Inode of this process's namespace (namespaces(7)); ``None`` when it cannot be read."""
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino
    except OSError:
        return None


def encode(lines: Mapping[str, str]) -> bytes:
    """``key=value`` lines; controls, ``%`` and bytes that are no UTF-8 become ``%XX``."""
    return b"".join(f"{key}={escape(value)}\n".encode() for key, value in lines.items())


def escape(value: str) -> str:
    raw = value.encode("utf-8", "surrogateescape")[:VALUE_LIMIT]
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(c if c.isprintable() and c != "%" else _percent(c) for c in text)


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def unescape(value: str) -> str:
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda m: bytes.fromhex(m[1].decode()),
        value.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


def decode(data: bytes) -> dict[str, str]:
    """The lines as a mapping; what is no ``key=value`` line is skipped, a repeated key keeps its first value."""
    lines: dict[str, str] = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        key, equals, value = line.partition("=")
        if equals and key.isidentifier():
            lines.setdefault(key, unescape(value))
    return lines


def describe(wish: Wish, sequence: int) -> dict[str, str]:
    """A new ticket's lines, for this very process."""
    me = own_identity()
    return {
        "v": FORMAT,
        "id": f"{sequence:010d}-{me.pid}",
        "nonce": os.urandom(16).hex(),
        "resource": wish.resource,
        "lane": wish.lane,
        "pid": str(me.pid),
        "start": str(me.start_ticks),
        "pidns": str(namespace("pid") or ""),
        "timens": str(namespace("time") or ""),
        "boot": boot_id(),
        "host": os.uname().nodename,
        "queued": now(),
        "cwd": _cwd(),
        "cmd": wish.command,
        "limits": " ".join(f"{name}={value}" for name, value in wish.limits.items()),
    }


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def parse(data: bytes, *, uid: int, name: str | None = None, locked: bool | None = None) -> TicketFile:
    """A ticket from its lines. Raises ``Untrusted`` when they are not those of the ticket ``name``."""
    lines = decode(data)
    ticket_id = lines.get("id", "")
    form = TICKET_FORM.fullmatch(ticket_id)
    if lines.get("v") != FORMAT:
        raise Untrusted(f"format {lines.get('v', 'missing')!r}, not {FORMAT}")
    if form is None or (name is not None and name != ticket_id):
        raise Untrusted(f"its id is {ticket_id!r}")
    try:
        pid, start = int(lines["pid"]), int(lines["start"])
    except (KeyError, ValueError) as error:
        raise Untrusted("pid or start time is missing") from error
    if str(pid) != form[2] or not 1 < pid <= PID_LIMIT or start < 0 or "nonce" not in lines:
        raise Untrusted("pid, start time or nonce does not fit")
    ticket = TicketFile(
        id=ticket_id,
        sequence=int(form[1]),
        nonce=lines["nonce"],
        resource=lines.get("resource", ""),
        lane=lines.get("lane", ""),
        pid=pid,
        start_ticks=start,
        pidns=_number(lines.get("pidns")),
        timens=_number(lines.get("timens")),
        boot_id=lines.get("boot", ""),
        host=lines.get("host", ""),
        queued_at=lines.get("queued", ""),
        cwd=lines.get("cwd", ""),
        command=lines.get("cmd", ""),
        limits=dict(part.partition("=")[::2] for part in lines.get("limits", "").split()),
        uid=uid,
        locked=locked,
        identity_alive=None,
    )
    return replace(ticket, identity_alive=_identity_alive(ticket))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def same_world(ticket: TicketFile) -> bool:
    """Whether the ticket's pid and start time mean here what they meant to its writer."""
    return (ticket.host, ticket.boot_id, ticket.pidns, ticket.timens) == (
        os.uname().nodename,
        boot_id(),
        namespace("pid"),
        namespace("time"),
    )


def _identity_alive(ticket: TicketFile) -> bool | None:
    """Compared inside the recorded namespaces only; another boot of this host is proof of death."""
    if same_world(ticket):
        return is_alive(Identity(ticket.pid, ticket.start_ticks))
    if ticket.host == os.uname().nodename and ticket.boot_id and boot_id():
        return False if ticket.boot_id != boot_id() else None
    return None


def lock_life(fd: int) -> None:
    """Take the life lock. It stays as long as any process has this open file (not a new opening of it)."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_LIFE, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def is_locked(fd: int) -> bool:
    """Whether somebody holds the life lock; takes nothing. Raises ``OSError`` where locks do not work."""
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, struct.pack(_LIFE, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return bool(struct.unpack(_LIFE, answer)[0] != fcntl.F_UNLCK)


def read(queue: Dir, name: str) -> TicketFile:
    """The ticket of that name. Raises ``FileNotFoundError``, ``Untrusted`` or ``OSError``."""
    fd = queue.open(name)
    try:
        try:
            locked: bool | None = is_locked(fd)
        except OSError:
            locked = None
        return parse(os.read(fd, 64 * 1024), uid=os.fstat(fd).st_uid, name=name, locked=locked)
    finally:
        os.close(fd)
