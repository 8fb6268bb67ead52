"""The words between the payload's keeper and whoever holds something for it.

The keeper knows no queue: it is handed a ``Custody``, asks it whether the payload must end, and tells it at the
very end what is left. ``hold`` implements it with a token; ``guard`` and nested runs with nothing to give back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from holdtop.lean import dataclass
from holdtop.payload.containment import Place
from holdtop.payload.process import Identity

#: ``spared``: another live hold is below it. ``kept``: it was asked for that daemons stay.
LeftWhy = Literal["unkillable", "not permitted", "spared", "kept"]
FoundBy = Literal["cgroup", "descent", "marker", "record", "device"]


@dataclass(frozen=True, slots=True)
class End:
    """Why a payload ends."""

    #: ``exited``, ``max-hold``, ``TERM``, ``INT``, ``HUP``, ``QUIT``, ``stop``, ``evicted``, ``token-lost``, …
    reason: str
    #: The exit status that goes with it; ``None``: the payload's own.
    status: int | None
    #: One sentence for stderr and the event; empty when there is nothing to say.
    text: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """The payload is paused, or goes on."""

    paused: bool
    #: One sentence for stderr and the event.
    text: str
    #: The limit's flag and threshold, and what its sensor said, in that unit; ``None`` when it is blind.
    limit: str
    threshold: float
    value: float | None


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the payload."""

    identity: Identity
    name: str
    #: ``None`` when it could not be read any more.
    uid: int | None
    found_by: FoundBy
    state: str


@dataclass(frozen=True, slots=True)
class Used:
    """Device memory that a process holds, in bytes; ``None`` is not known."""

    gtt_bytes: int | None
    vram_bytes: int | None

    def of(self, pool: str) -> int | None:
        return self.gtt_bytes if pool == "gtt" else self.vram_bytes


@dataclass(frozen=True, slots=True)
class SeenCgroup:
    """A cgroup in which a member was seen."""

    path: str
    #: The kernel's id of it: a path may be another cgroup's later.
    inode: int
    #: It held members only.
    sole: bool


@dataclass(frozen=True, slots=True)
class Fate:
    """A member that has ended after a signal of ours."""

    member: Member
    #: The strongest that it was sent: ``TERM`` or ``KILL``.
    ended_by: str


@dataclass(frozen=True, slots=True)
class Left:
    """A member that is still there."""

    member: Member
    why: LeftWhy


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Device memory before, during and after a payload, in bytes; ``None`` is not known."""

    resource: str
    pool: str
    before_bytes: int | None
    #: The most that the members were seen with together; where they showed nothing, by how much the level rose: what a
    #: container's engine starts for the payload is no member.
    peak_bytes: int | None
    after_bytes: int | None
    #: ``back``: no more in use than before, or all of it is somebody's; ``falling``: not yet; ``left``: with no owner
    #: after all; ``unknown``: a figure is missing, or a process may not be looked into.
    state: Literal["back", "falling", "left", "unknown"]
    #: Why it is unknown; empty otherwise.
    why: str = ""
    #: What the peak is of; a level's rise has strays in it. ``None`` without a peak.
    peak_source: Literal["payload", "level"] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """How the payload ended."""

    end: End
    #: The root's wait status (``os.waitstatus_to_exitcode``), ``None`` when nobody saw it.
    root_wait_status: int | None
    fates: tuple[Fate, ...] = ()
    left: tuple[Left, ...] = ()
    #: ``ECHILD`` when the kernel itself said that nothing is left, ``ECHILD, populated 0`` when every cgroup of it
    #: is empty as well; ``None`` when only a scan did.
    proof: str | None = None
    #: Processes outside the payload that appeared during the hold and have its device open: named, never ended.
    #: ``None``: nobody could look.
    suspects: tuple[Member, ...] | None = ()
    #: Why the command was not executed.
    launch_error: str | None = None
    #: ``None``: no device memory was measured.
    memory: MemoryUse | None = None

    def remaining(self, why: LeftWhy) -> tuple[Left, ...]:
        return tuple(left for left in self.left if left.why == why)

    def remarks(self) -> Iterator[str]:
        """What has to be said aloud about processes that are still there."""
        for why, text in _REMARKS.items():
            if left := self.remaining(why):
                yield f"::warning::{names(entry.member for entry in left)} {text}"
        if self.suspects:
            yield f"::warning::{names(self.suspects)} {_SUSPECT}"


_REMARKS: dict[LeftWhy, str] = {
    "unkillable": "survived KILL and may still hold device memory",
    "not permitted": "may not be signalled by this account",
    "spared": "was spared: another live hold runs below it",
    "kept": "was kept, as --keep-daemons asks",
}
_SUSPECT = "has the device open and appeared during the hold, but is not in its tree: it was not ended"


def names(members: Iterable[Member]) -> str:
    return ", ".join(f"pid {one.identity.pid} ({one.name}, uid {one.uid})" for one in members)


@dataclass(frozen=True, slots=True)
class Holds:
    """Other live holds on this box. Thousands may wait: a claim is a name in a list, a proof takes a look at files."""

    #: Pids that are said to be holds.
    claimed: Collection[int] = ()
    #: Whether such a pid is a hold's.
    proven: Callable[[int], bool] = bool

    def among(self, pids: Iterable[int]) -> Iterator[int]:
        """Those of the pids that are holds."""
        return (pid for pid in pids if pid in self.claimed and self.proven(pid))


#: Asked at each look.
OtherHolds = Callable[[], Holds]


class Custody(Protocol):
    """What is kept for the payload while it lives. Every call returns quickly and never blocks."""

    def fds(self) -> Sequence[int]:
        """Descriptors whose readability means: ask ``check`` again. Asked for now and then, after the first second:
        what a short payload has not opened need not be closed before the next one starts."""
        ...

    def check(self) -> End | None:
        """Whether the payload has to end now. Called on every wake-up, at least once a second."""
        ...

    def placed(self, root: Identity, place: Place) -> None:
        """The root is where it belongs and will be executed now: should we die, others have to know of both."""
        ...

    def started(self, root: Identity) -> None: ...

    def running(
        self, members: Collection[Member], cgroups: Collection[SeenCgroup], used: Mapping[Identity, Used]
    ) -> None:
        """A look at the living payload, every few seconds. ``used``: by those whose device memory is known."""
        ...

    def turned(self, turn: Turn) -> None: ...

    def warned(self, text: str) -> None:
        """A limit has lost its sensor, or has it again."""
        ...

    def ending(self, end: End) -> None: ...

    def other_holds(self) -> Holds:
        """A process above one of them may belong to others."""
        ...

    def conclude(self, report: Report) -> None:
        """Release what is held, or say why not. Called once, by the keeper or else by its heir."""
        ...

    def settle(self, again: Callable[[], Report | None]) -> None:
        """After the release, while device memory is falling. ``again``: waits a moment and gives the report anew, or
        ``None`` when there is no more time."""
        ...


class NoCustody:
    """Nothing is held: ``guard``, and a run nested inside its own hold."""

    def __init__(self, warn: Callable[[str], None], other_holds: OtherHolds) -> None:
        self._warn = warn
        self.other_holds = other_holds

    def fds(self) -> Sequence[int]:
        return ()

    def check(self) -> End | None:
        return None

    def placed(self, root: Identity, place: Place) -> None:
        pass

    def started(self, root: Identity) -> None:
        pass

    def running(
        self, members: Collection[Member], cgroups: Collection[SeenCgroup], used: Mapping[Identity, Used]
    ) -> None:
        pass

    def turned(self, turn: Turn) -> None:
        pass

    def warned(self, text: str) -> None:
        pass

    def ending(self, end: End) -> None:
        pass

    def conclude(self, report: Report) -> None:
        for text in report.remarks():
            self._warn(text)

    def settle(self, again: Callable[[], Report | None]) -> None:
        pass
