"""What one look at the box holds, as frozen values named as in ``status --json`` schema 1.

The seam exists so that the live console, ``status`` and a recording all draw from one shape. ``None`` always
means "not known", never zero and never "none"; each number carries its unit in its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Severity = Literal["info", "warning", "critical"]
#: Worst first.
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
ResourceState = Literal["free", "held", "ghost", "ending", "unknown"]
TicketState = Literal["waiting", "running", "paused", "ending"]
Pool = Literal["gtt", "vram"]
#: At a forge.
Registered = Literal["online", "offline", "unknown"]
FoundBy = Literal["cgroup", "descent", "session", "marker", "record", "device"]

READING_NAMES = (
    "gtt_used_bytes",
    "gtt_total_bytes",
    "vram_used_bytes",
    "vram_total_bytes",
    "gpu_busy_percent",
    "gpu_power_watts",
    "tctl_celsius",
    "mem_available_bytes",
    "mem_total_bytes",
    "memory_pressure_some_avg10_percent",
    "npu_busy_percent",
    "vis_vram_used_bytes",
    "vis_vram_total_bytes",
    "preempt_used_bytes",
    "gpu_clock_mhz",
    "memory_clock_mhz",
    "gpu_celsius",
    "cpu_celsius",
    "npu_power_watts",
    "npu_celsius",
    "gpu_reclaimable_bytes",
    "ttm_limit_bytes",
    "ttm_pool_limit_bytes",
)


#: ``pending``: the read has not come back, or not begun. ``no-chip``: no sensor chip of that name.
#: ``no-psi``: this kernel has no pressure information.
Cause = Literal["pending", "no-chip", "no-psi"]


@dataclass(frozen=True, slots=True)
class Reading:
    """One value of one sensor.

    Exactly one of ``value`` and ``why`` is set: a value, or the reason for its absence.
    """

    value: float | None = None
    why: str | None = None
    #: The file it was read from, as the kernel names it (below the recorded root when there is one).
    source: str | None = None
    #: ``time.monotonic()`` seconds at which the read *finished*; ``None`` when never read.
    at: float | None = None
    #: ``why`` for programs; ``None`` where nobody decides by it.
    cause: Cause | None = None


Readings = Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class Device:
    """One card or NPU, keyed by PCI address."""

    pci_address: str
    kind: Literal["apu", "gpu", "npu"]
    #: The resource whose token guards it: ``gpu`` or ``npu``.
    resource: str
    readings: Readings

    @property
    def pool(self) -> Pool | None:
        """What a program's memory comes from: of an APU the larger one, never both; ``None`` when not known.

        The driver hands out GTT there, unless the carve-out is as large or larger (amdgpu's apu_prefer_gtt).
        """
        gtt, vram = (self.readings.get(f"{pool}_total_bytes", Reading()).value for pool in ("gtt", "vram"))
        if self.kind == "gpu":
            return None if vram is None else "vram"
        return None if gtt is None else "vram" if vram is not None and vram >= gtt else "gtt"

    @property
    def pool_why(self) -> str | None:
        """Why that is not known; ``None`` where it is."""
        if self.kind == "npu":
            return "an NPU has no pool of its own"
        if self.pool is not None:
            return None
        missing = "vram_total_bytes" if self.kind == "gpu" else "gtt_total_bytes"
        return self.readings.get(missing, Reading()).why or f"{missing} is not known"


@dataclass(frozen=True, slots=True)
class Process:
    """One process as shown below a ticket, or as a survivor or stray."""

    pid: int
    ppid: int
    #: Field 22 of ``/proc/PID/stat``, clock ticks since boot: with ``pid`` the process's identity.
    start_ticks: int
    name: str
    #: Empty for a kernel thread or a zombie.
    command: tuple[str, ...]
    #: One letter of proc(5): R, S, D, T, t, Z, X, I.
    state: str
    uid: int | None
    user: str | None
    #: ``None`` on the first look: a rate needs two.
    cpu_percent: float | None
    rss_bytes: int | None
    gtt_bytes: int | None
    vram_bytes: int | None
    #: Of the NPU's buffers, ordinary memory; not every driver tells.
    npu_bytes: int | None
    #: Where GTT and VRAM are from.
    memory_source: Literal["fdinfo", "kfd", "record"] | None
    found_by: FoundBy
    #: False when its descriptors may not be looked into: its device memory is unknown, not zero.
    readable: bool
    #: CPU time used so far, and ``time.monotonic()`` of that sample: the next look's rate is from these.
    cpu_seconds: float | None = field(default=None, compare=False)
    sampled_at: float | None = field(default=None, compare=False)

    def held(self, pool: Pool) -> int | None:
        """Bytes of that pool."""
        return self.gtt_bytes if pool == "gtt" else self.vram_bytes


@dataclass(frozen=True, slots=True)
class Payload:
    """The process tree of a running ticket."""

    root_pid: int | None
    process_count: int
    rss_bytes: int | None
    gtt_bytes: int | None
    vram_bytes: int | None
    #: ``read``: looked at just now. ``record``: what the hold says about itself, being closed to us.
    source: Literal["read", "record"]
    #: Parents before children; within one parent by pid.
    processes: tuple[Process, ...]
    #: RFC 3339 of what the hold says, where that is quoted: a hold that was stopped says nothing newer.
    said_at: str | None = None

    def held(self, pool: Pool) -> int | None:
        """Bytes of that pool, of all its processes."""
        return self.gtt_bytes if pool == "gtt" else self.vram_bytes


@dataclass(frozen=True, slots=True)
class WillItFit:
    need_bytes: int
    headroom_bytes: int | None
    fits: bool | None
    #: What the need is of: the payloads themselves, or all that the device's level rose by, strays included.
    need_source: Literal["payload", "level"] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class Ticket:
    """One hold: its place in the queue, and its payload while it runs."""

    id: str
    resource: str
    kind: Literal["holdtop", "shell"]
    lane: str | None
    pid: int | None
    keeper_pid: int | None
    start_ticks: int | None
    uid: int | None
    user: str | None
    command: tuple[str, ...]
    cwd: str | None
    #: RFC 3339 with offset.
    queued_at: str | None
    #: 0 for the holder, 1 for the next one.
    position: int
    waited_seconds: float | None
    held_seconds: float | None
    deadline_at: str | None
    state: TicketState
    being_ended_by: str | None = None
    #: What is armed, by its flag's name without dashes in front (``max-hold``: ``7200s``).
    limits: Mapping[str, str] = field(default_factory=dict)
    #: What keeps the payload together, strongest first, as its hold says; empty when it does not.
    containment: tuple[str, ...] = ()
    #: Path of the file to which the payload's output goes, as its hold says; ``None`` without one.
    log_path: str | None = None
    payload: Payload | None = None
    expected_start: ExpectedStart | None = None
    will_it_fit: WillItFit | None = None


@dataclass(frozen=True, slots=True)
class Foreign:
    """An entry of the queue directory in another tool's form."""

    name: str
    pid: int | None
    why: str


@dataclass(frozen=True, slots=True)
class NotTicket:
    """An entry that looks like ours and is not to be believed, or cannot be read."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Resource:
    name: str
    queue_path: str
    token_path: str
    rule: Literal["flag", "variables", "state-dir-variable", "default-state-dir", "home"]
    state: ResourceState
    holder: Ticket | None
    waiting: tuple[Ticket, ...]
    foreign: tuple[Foreign, ...]
    not_tickets: tuple[NotTicket, ...]
    #: The last release receipt as written by the hold, or ``None``.
    last_receipt: Mapping[str, object] | None
    #: Why (parts of) the state could not be read; one sentence each.
    problems: tuple[str, ...] = ()
    #: The newest release receipts, oldest first, one of each hold, as written by the holds: foreign text.
    receipts: tuple[Mapping[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that is wrong now: up within one refresh of its cause, gone by itself."""

    kind: str
    severity: Severity
    resource: str | None
    ticket: str | None
    pids: tuple[int, ...]
    #: RFC 3339 of the first look at which it stood.
    since: str
    text: str
    remedy: str
    #: What it is about where that is neither a ticket nor a process: a unit, a path.
    about: str | None = None


#: Of the device's pool, what somebody has: ``Memory`` has ``…_bytes`` of each.
PARTS = ("payload", "survivor", "stray", "other", "shared", "unattributed")


@dataclass(frozen=True, slots=True)
class Memory:
    """Who uses the device's pool, in bytes; each ``None`` when it cannot be known.

    The parts are disjoint: what clients may share is in ``shared_bytes`` once, and in no other part.
    """

    payload_bytes: int | None
    survivor_bytes: int | None
    stray_bytes: int | None
    shared_bytes: int | None
    unattributed_bytes: int | None
    headroom_bytes: int | None
    #: Who may not be looked into; ``None``: nobody was looked into, or they do not even show themselves (hidepid).
    unreadable_processes: int | None
    #: Held by processes that are neither payload, survivor nor stray: the screen, small users.
    other_bytes: int | None = None
    #: Why a part is not known, by its name.
    unavailable: Mapping[str, str] = field(default_factory=dict)
    #: ``time.monotonic()`` of the end of the scan of descriptors that tells who holds what; ``None``: there was none.
    scanned_at: float | None = field(default=None, compare=False)
    #: ``time.monotonic()`` of the first of the readings in a row by which much belongs to nobody.
    unowned_since: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is wrong with the set-up of the box, and can be mended. Its texts may be foreign."""

    #: One stable word for programs, as ``no-tctl``: by it alone anything is decided.
    kind: str
    #: What was seen, in one clause.
    what: str
    #: What is lost by it.
    why: str
    #: The exact command, or what to boot with or to install where there is no command for it.
    remedy: str
    #: The unit, path, account or process that it is about; empty where it is the box.
    about: str = ""


@dataclass(frozen=True, slots=True)
class Runner:
    """The unit of a CI runner as its service manager says it; what it does not say is ``unknown`` or ``None``."""

    unit: str
    active_state: str
    sub_state: str
    result: str
    #: By the manager itself, since somebody last started it.
    restarts: int | None
    oom_policy: str | None
    restart: str | None
    kill_mode: str | None
    #: Whether its forge has it online.
    registration: Registered
    problems: tuple[str, ...]
    #: ``system``, or the account whose own manager it is of.
    manager: str = "system"
    #: RFC 3339: since when it is in this state.
    since: str | None = None
    #: ``None`` also where no limit is set.
    memory_high_bytes: int | None = None
    memory_max_bytes: int | None = None
    #: Whether it takes jobs, and whether all is in force that keeps it alive; ``None``: could not look.
    up: bool | None = None
    guarded: bool | None = None
    #: Why its registration is not known; ``None``: it is.
    registration_why: str | None = None
    #: Why it could not be looked at; ``None``: it was.
    why: str | None = None
    #: What ``problems`` says in words.
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole box at one instant."""

    host: str
    boot_id: str | None
    #: RFC 3339 with offset.
    taken_at: str
    #: ``time.monotonic()`` of the look: ages are differences to this.
    at: float
    #: The readings of the default resource's pool.
    readings: Readings
    #: PCI address of the card that ``readings`` are of; ``None`` without one.
    device: str | None
    devices: tuple[Device, ...]
    memory: Memory
    containment: tuple[str, ...]
    resources: tuple[Resource, ...]
    #: Worst first.
    flags: tuple[Flag, ...]
    #: Survivors and strays themselves, for the console to select and the operator to end.
    leftovers: tuple[Process, ...] = ()
    runners: tuple[Runner, ...] = ()
    #: Who has a device open, by its PCI address, with what each holds there: members of payloads, too.
    users: Mapping[str, tuple[Process, ...]] = field(default_factory=dict)
    #: Why it is not known which runners there are, or how they are now; what is in ``runners`` is old then.
    runners_why: str | None = None
    #: Why the set-up of the state could not be checked: its flags may be missing then, and are not over.
    state_why: str | None = None
    #: Recorded roots in use, as ``HOLDTOP_SYS=/path``; empty on a live box.
    roots: tuple[str, ...] = ()

    @property
    def card(self) -> Device | None:
        """The card that ``readings`` are of."""
        return next((device for device in self.devices if device.pci_address == self.device), None)

    @property
    def pool(self) -> Pool:
        """Where a payload's memory is looked for: of a card of which that is not known, or of none, in GTT."""
        return (self.card.pool if self.card else None) or "gtt"
