"""What one look gathers, before anything is derived from it. Every part may be missing, and then says why.

The seam exists so that a live box, a recorded tree and a test feed the same pure ``build``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdtop.hold.view import QueueView
from holdtop.model.values import Device, Finding, Reading, Runner

MIB = 1024**2
NO_CARD = Reading(why="no AMD GPU was found")
#: Seconds for which a reset that is over is shown.
RESET_SHOWN = 600.0
#: How the name of a device begins whose PCI address is not known.
NAMELESS = "unknown-"


@dataclass(frozen=True, slots=True)
class Stat:
    """One process by ``/proc/PID/stat`` (proc_pid_stat(5))."""

    pid: int
    ppid: int
    session: int
    name: str
    state: str
    threads: int
    #: Clock ticks since boot.
    start_ticks: int
    #: User and system time so far, in clock ticks.
    cpu_ticks: int | None
    rss_bytes: int | None
    #: A thread of the kernel: it holds no device.
    kernel: bool = False

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.start_ticks

    @property
    def dead(self) -> bool:
        """A zombie with no other thread; a zombie leader whose threads run is alive."""
        return self.state in "ZXx" and self.threads <= 1


@dataclass(frozen=True, slots=True)
class Table:
    """One pass over ``/proc``."""

    stats: Mapping[int, Stat]
    #: ``time.monotonic()`` seconds of its end.
    at: float


@dataclass(frozen=True, slots=True)
class Details:
    """What is read only of processes that are shown."""

    command: tuple[str, ...] = ()
    uid: int | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """One DRM client (``drm-client-id``) as fdinfo describes it. Descriptors of one client are one client."""

    #: (``drm-pdev``, ``drm-client-id``): unique on a box (drm-usage-stats.rst).
    key: tuple[str, str]
    #: Resident bytes, shared ones included; ``None`` when fdinfo does not say.
    gtt_bytes: int | None = None
    vram_bytes: int | None = None
    #: The part of them that other clients may hold as well.
    gtt_shared_bytes: int = 0
    vram_shared_bytes: int = 0
    #: An NPU has neither pool: its buffers are ordinary memory.
    npu: bool = False
    npu_bytes: int | None = None
    #: How many descriptors of the process lead to it.
    descriptors: int = 1
    #: Another vendor's.
    foreign: bool = False

    def of(self, pci_address: str) -> bool:
        """Whether it is that device's."""
        return self.key[0] == pci_address

    @property
    def placeless(self) -> bool:
        """Whether its kernel names no device, but the driver alone."""
        return self.key[0] in ("", "amdgpu", "radeon", "amdxdna_accel_driver")

    def merged(self, other: Client) -> Client:
        """Two descriptors of one client, which were read at two instants: the larger figures count."""
        return replace(
            self,
            gtt_bytes=_larger(self.gtt_bytes, other.gtt_bytes),
            vram_bytes=_larger(self.vram_bytes, other.vram_bytes),
            gtt_shared_bytes=max(self.gtt_shared_bytes, other.gtt_shared_bytes),
            vram_shared_bytes=max(self.vram_shared_bytes, other.vram_shared_bytes),
            npu_bytes=_larger(self.npu_bytes, other.npu_bytes),
            descriptors=self.descriptors + other.descriptors,
        )


def _larger(one: int | None, other: int | None) -> int | None:
    return max((size for size in (one, other) if size is not None), default=None)


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """A process with a device node open."""

    pid: int
    start_ticks: int
    #: ``gpu``, ``npu``.
    resources: frozenset[str]
    clients: tuple[Client, ...] = ()


@dataclass(frozen=True, slots=True)
class Uses:
    """One scan of all processes' descriptors."""

    users: Mapping[int, DeviceUser]
    #: Pids whose descriptors this account may not look into.
    denied: frozenset[int]
    #: ``time.monotonic()`` seconds of its end.
    at: float
    #: What KFD counts, by pid and by the card's PCI address: for processes whose fdinfo says nothing.
    kfd: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    #: Processes of other accounts do not even show themselves (hidepid, proc(5)).
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One resource's state on disk; without a view, ``problem`` says why there is none."""

    resource: str
    view: QueueView | None = None
    problem: str | None = None
    #: The problem is that only half of a place is named.
    half_named: bool = False
    #: Other places at which holds of this resource live or wait.
    elsewhere: tuple[QueueView, ...] = ()


@dataclass(frozen=True, slots=True)
class Reset:
    """The last that was heard of a device that hung: it was reset, or has to be."""

    #: Of the device, which need not be a card: others dump what hung, too.
    pci_address: str
    #: ``WEDGED`` as the kernel sends it (drm-uapi.rst): ``none`` (it has recovered) or what would help, best first;
    #: ``devcoredump``: only that the driver has left a dump is known.
    how: str
    #: ``time.monotonic()`` of the event; ``None`` when it was not heard but is seen still.
    at: float | None = None
    #: Of the process that the kernel blames, in the initial namespace.
    pid: int | None = None
    task: str | None = None

    @property
    def passed(self) -> bool:
        """The device goes on: what would help it is not known, and need not be."""
        return self.how in ("none", "devcoredump")


@dataclass(frozen=True, slots=True)
class Runners:
    """The units of CI runners on this box."""

    units: tuple[Runner, ...] = ()
    #: Why they could not be looked for; ``None``: ``units`` are all that there are.
    why: str | None = "nobody looked for runners"


@dataclass(frozen=True, slots=True)
class StateCheck:
    """The set-up of the state directory and of the accounts that meet in it."""

    findings: tuple[Finding, ...] = ()
    #: Why (part of) it could not be checked; ``None``: ``findings`` are all that there are.
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on something is worth a flag."""

    stray_bytes: int = 256 * MIB
    stray_allow: frozenset[str] = frozenset()
    hot_celsius: float = 95.0
    #: Of MemTotal: below it memory is low, and headroom ends there.
    low_memory_part: float = 0.05


@dataclass(frozen=True, slots=True)
class Raw:
    """All of one look."""

    host: str
    boot_id: str | None
    #: RFC 3339 with offset.
    taken_at: str
    #: ``time.monotonic()`` seconds, and seconds since boot with suspends counted, at one instant.
    at: float
    since_boot: float
    ticks_per_second: int
    #: Effective uid of whoever looks.
    uid: int
    #: Pids mean here what they mean to the kernel; ``None``: not known.
    initial_pidns: bool | None = None
    looks: tuple[Look, ...] = ()
    #: Why the state of the queues has not answered; what is in ``looks`` is old then.
    looks_why: str | None = None
    devices: tuple[Device, ...] = ()
    resets: tuple[Reset, ...] = ()
    #: Readings that belong to no card: Tctl, memory, pressure.
    host_readings: Mapping[str, Reading] = field(default_factory=dict)
    table: Table | None = None
    uses: Uses | None = None
    #: Why there is no scan of descriptors, or no newer one.
    uses_why: str | None = None
    #: Why there is no process table.
    table_why: str | None = None
    #: Of each sensor that a card would have, when there is none.
    no_card: Reading = NO_CARD
    #: By (pid, start ticks).
    details: Mapping[tuple[int, int], Details] = field(default_factory=dict)
    #: User names by uid.
    users: Mapping[int, str] = field(default_factory=dict)
    containment: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    limits: Limits = Limits()
    runners: Runners = Runners()
    #: The state as ``holdtop state check`` sees it.
    state: StateCheck = StateCheck()
