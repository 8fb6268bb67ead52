"""A ticket: one hold, waiting or running, as a file of ``key=value`` lines.

Its life sign is an OFD write lock (fcntl(2), F_OFD_SETLK) on the file itself, taken before the file has its name
and inherited by supervisor and keeper only. A probe (F_OFD_GETLK) takes nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import struct
import time
from collections.abc import Mapping
from functools import cache

from holdtop.hold.files import SIZE_LIMIT, Dir, Untrusted, author
from holdtop.hold.view import TicketFile
from holdtop.lean import dataclass, field, replace
from holdtop.payload.members import real_uid
from holdtop.payload.process import PID_LIMIT, Identity, UnreadableProcess, is_alive, own_identity, read_stat

TICKET_FORM = re.compile(r"([0-9]{10})-([1-9][0-9]{0,9})")
FORMAT = "1"
#: No value is written longer than this, in bytes; a ticket stays far below the size that is read back.
VALUE_LIMIT = 4096
#: Inode of the initial pid namespace (PROC_PID_INIT_INO, include/uapi/linux/nsfs.h).
INITIAL_PIDNS = 0xEFFFFFFC
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


def namespace_ended(inode: int) -> bool:
    """Whether nobody lives in that pid namespace any more, nor then anybody who was started in it.

    True only where it is proven: from the initial namespace, which shows all, and by whoever may look at each process
    of the others (``NSpid`` in proc_pid_status(5), namespaces(7)). The number is another's later: then it lives on.
    """
    try:
        if namespace("pid") != INITIAL_PIDNS or inode == INITIAL_PIDNS or read_stat(1) is None:
            return False  # a container; this very one; or hidepid
        return all(_is_outside(pid, inode) for pid in os.listdir("/proc") if pid.isdigit())
    except (OSError, UnreadableProcess):
        return False


def _is_outside(pid: str, inode: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        with open(f"/proc/{pid}/status", "rb") as file:
            nested = next(len(line.split()) > 2 for line in file if line.startswith(b"NSpid:"))
        stat = read_stat(int(pid)) if nested else None
        return stat is None or stat.dead or os.stat(f"/proc/{pid}/ns/pid").st_ino != inode
    return True


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
    if "%" not in value:
        return value
    raw = re.sub(
        rb"%([0-9A-Fa-f]{2})",
        lambda m: bytes.fromhex(m[1].decode()),
        value.encode("utf-8", "surrogateescape"),
    )
    return raw.decode("utf-8", "surrogateescape")


def decode(data: bytes) -> dict[str, str]:
    """The lines as a mapping; what is no ``key=value`` line is skipped, a repeated key keeps its first value."""
    lines: dict[str, str] = {}
    text = data.decode("utf-8", "surrogateescape")
    plain = "%" not in text  # as most are, of which a look reads thousands
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals and key not in lines and key.isidentifier():
            lines[key] = value if plain else unescape(value)
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


def parse(
    data: bytes, *, uid: int, name: str | None = None, locked: bool | None = None, asking: bool = True
) -> TicketFile:
    """A ticket from its lines. Raises ``Untrusted`` when they are not those of the ticket ``name``.

    ``asking``: whether its process lives.
    """
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
    if str(pid) != form[2] or not 1 <= pid <= PID_LIMIT or start < 0 or "nonce" not in lines:
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
    return replace(ticket, identity_alive=_identity_alive(ticket)) if asking else ticket


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 20 else None


def same_world(ticket: TicketFile) -> bool:
    """Whether the ticket's pid and start time mean here what they meant to its writer."""
    return same_boot(ticket) and (ticket.pidns, ticket.timens) == (namespace("pid"), namespace("time"))


def same_boot(ticket: TicketFile) -> bool:
    """Whether this is the machine, since its last start, whatever it is called by now or in a container."""
    return ticket.boot_id == boot_id() and (ticket.boot_id != "" or ticket.host == os.uname().nodename)


def _identity_alive(ticket: TicketFile) -> bool | None:
    """Compared inside the recorded namespaces only; their end, and another boot of this host, are proofs of death."""
    if same_world(ticket):
        return is_alive(Identity(ticket.pid, ticket.start_ticks))
    if same_boot(ticket):
        # Asked only about a hold without a life sign: it takes a look at every process.
        return False if ticket.locked is False and ticket.pidns and namespace_ended(ticket.pidns) else None
    return False if ticket.host == os.uname().nodename and ticket.boot_id and boot_id() else None


def proven_live(ticket: TicketFile) -> bool:
    """A live hold whose process is its author's own.

    Anybody may write a ticket that names a stranger, and lock it: to be taken for a hold above that one, or for one
    that is to be spared with all that is around it.
    """
    return bool(ticket.locked and ticket.identity_alive) and real_uid(ticket.pid) == ticket.uid


def lock_life(fd: int) -> None:
    """Take the life lock. It stays as long as any process has this open file (not a new opening of it)."""
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_LIFE, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def is_locked(fd: int) -> bool:
    """Whether somebody holds the life lock; takes nothing. Raises ``OSError`` where locks do not work."""
    answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, struct.pack(_LIFE, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0))
    return bool(struct.unpack(_LIFE, answer)[0] != fcntl.F_UNLCK)


def read(queue: Dir, name: str, *, asking: bool = True) -> TicketFile:
    """The ticket of that name. Raises ``FileNotFoundError``, ``Untrusted`` or ``OSError``.

    Not ``asking``: whether its process lives is only asked of one without a life sign.
    """
    fd = queue.open(name)
    try:
        try:
            locked: bool | None = is_locked(fd)
        except OSError:
            locked = None
        uid = author(os.fstat(fd), queue.of(name))
        return parse(os.read(fd, SIZE_LIMIT), uid=uid, name=name, locked=locked, asking=asking or not locked)
    finally:
        os.close(fd)
