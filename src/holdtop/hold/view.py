"""What lies in one resource's state on disk, read without changing or blocking anything.

Values only; ``holdtop.hold.look`` fills them. The console, ``status``, the operator and the waiting holds all
judge from the same view, so that they cannot disagree about who holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from holdtop.lean import dataclass, field

Rule = Literal["flag", "variables", "state-dir-variable", "default-state-dir", "home"]


@dataclass(frozen=True, slots=True)
class TicketFile:
    """A ticket as its file says, with what the kernel says about the file."""

    #: The file's name, ``NNNNNNNNNN-PID``.
    id: str
    sequence: int
    nonce: str
    resource: str
    lane: str
    pid: int
    start_ticks: int
    #: Inodes of the pid and time namespaces in which ``pid`` and ``start_ticks`` are meant.
    pidns: int | None
    timens: int | None
    boot_id: str
    host: str
    #: RFC 3339 with offset.
    queued_at: str
    cwd: str
    #: Shell-quoted and redacted.
    command: str
    limits: Mapping[str, str]
    #: Owner of the file: its author.
    uid: int
    #: Somebody holds the life lock. ``None`` when it could not be probed.
    locked: bool | None
    #: The identity (pid, start, boot) names a living process. ``None`` when it cannot be known from here, or was not
    #: asked: in a view, of a ticket with its life lock.
    identity_alive: bool | None

    @property
    def dead(self) -> bool:
        """Proven: nobody holds the life lock, and the process is gone (or of another boot)."""
        return self.locked is False and self.identity_alive is False


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The token: its existence means "held", whatever it contains."""

    device: int
    inode: int
    uid: int
    #: ``holdtop`` when it carries a ticket, ``shell`` when only the shell tool's first line.
    kind: Literal["holdtop", "shell", "garbled"]
    lane: str | None = None
    pid: int | None = None
    #: RFC 3339 as written by the holder; foreign text.
    taken_at: str | None = None
    ticket_id: str | None = None
    nonce: str | None = None
    #: The ticket's lines, as carried by the token.
    ticket: TicketFile | None = None
    #: Somebody holds the life lock on the token itself. ``None`` when it could not be probed, or for a shell's.
    locked: bool | None = None
    #: Nobody but the file's owner may write it, so what it says is that account's word.
    authored: bool = False
    #: Why it cannot be read as a token (``garbled``).
    why: str | None = None

    @property
    def ghost(self) -> bool:
        """Proven: a hold's token whose holder is dead. A shell's token is never judged here."""
        return self.kind == "holdtop" and self.locked is False and self.ticket is not None and self.ticket.dead


@dataclass(frozen=True, slots=True)
class RecordedProcess:
    pid: int
    start_ticks: int
    name: str = ""
    rss_bytes: int | None = None
    gtt_bytes: int | None = None
    vram_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class RecordedCgroup:
    """A cgroup (version 2) that a record names."""

    path: str
    #: The kernel's id of it: a path may be another cgroup's later.
    inode: int
    #: It held members only.
    sole: bool


@dataclass(frozen=True, slots=True)
class Record:
    """What a running hold publishes about itself (``Q/.record/ID.json``): a claim of the file's owner."""

    ticket_id: str
    nonce: str
    #: Owner of the file.
    uid: int
    state: Literal["running", "paused", "ending"]
    keeper_pid: int | None
    root_pid: int | None
    root_start_ticks: int | None
    #: RFC 3339; ``None`` without a deadline.
    deadline_at: str | None
    taken_at: str | None
    limits: Mapping[str, str]
    containment: tuple[str, ...]
    members: tuple[RecordedProcess, ...]
    #: RFC 3339 of the writing.
    at: str | None
    #: Where members were seen.
    cgroups: tuple[RecordedCgroup, ...] = ()
    #: The session in which the payload was started.
    session: int | None = None
    #: The ticket's, as in its file, which somebody may have removed.
    lines: str = ""
    keeper_start_ticks: int | None = None
    #: Path of the file to which its payload's output goes, where it was asked for.
    log: str | None = None


@dataclass(frozen=True, slots=True)
class SurvivorRecord:
    """Processes that outlived their token (``Q/.survivors/ID.json``), kept until each is dead."""

    ticket_id: str
    lane: str
    uid: int
    released_at: str
    why: str
    processes: tuple[RecordedProcess, ...]


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of the queue directory that is no ticket of ours."""

    name: str
    pid: int | None
    why: str
    #: True when it looks like another tool's ticket, False when it looks like ours and is not believable.
    foreign: bool


@dataclass(frozen=True, slots=True)
class QueueView:
    resource: str
    queue_path: str
    token_path: str
    rule: Rule
    #: By sequence, the running one included.
    tickets: tuple[TicketFile, ...] = ()
    #: Those that have a record, also without a file: they run, or have left somebody running.
    ran: tuple[TicketFile, ...] = ()
    entries: tuple[QueueEntry, ...] = ()
    token: TokenFile | None = None
    records: Mapping[str, Record] = field(default_factory=dict)
    #: Pids in the cgroups that were made for a ticket's payload, by ticket id.
    grouped: Mapping[str, frozenset[int]] = field(default_factory=dict)
    survivors: tuple[SurvivorRecord, ...] = ()
    #: Ticket ids with a stop request, and who asked (user name).
    stops: Mapping[str, str] = field(default_factory=dict)
    #: Ticket ids with an unexpired claim, and whose it is (``being ended by``).
    claims: Mapping[str, str] = field(default_factory=dict)
    #: The newest release receipts, oldest first: foreign text.
    receipts: tuple[Mapping[str, object], ...] = ()
    #: Directories that let strangers exchange the state, each with how to mend it (``places.exposed``).
    exposed: Mapping[str, str] = field(default_factory=dict)
    #: Why (parts of) the state could not be read; empty when all of it could.
    problems: tuple[str, ...] = ()

    @property
    def last_receipt(self) -> Mapping[str, object] | None:
        return self.receipts[-1] if self.receipts else None
