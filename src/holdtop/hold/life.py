"""The life of a hold, from the command line's wish to the exit status.

Wait for each resource in order, start the payload between two subreapers, see it to its end, release.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from holdtop.errors import NOT_RUN, HoldError, UsageError
from holdtop.hold.above import TICKET_MARK, holds_above, refuse_disorder
from holdtop.hold.custody import Held, HoldCustody
from holdtop.hold.files import writing
from holdtop.hold.inotify import Watch
from holdtop.hold.narrate import Narrator
from holdtop.hold.others import other_holds
from holdtop.hold.places import Places, prefix, resolve
from holdtop.hold.recovery import run_mark
from holdtop.hold.redact import redact_command
from holdtop.hold.survivors import Policy
from holdtop.hold.take import MovedElsewhere
from holdtop.hold.ticket import Wish, now
from holdtop.hold.wait import Leave, Waiter
from holdtop.lean import dataclass, field, replace
from holdtop.payload import linux
from holdtop.payload.containment import Mode, NoScopes, Place, ScopeMaker, prepare
from holdtop.payload.custody import Custody, End, Holds, NoCustody
from holdtop.payload.devices import Probe, no_device
from holdtop.payload.ending import Bounds
from holdtop.payload.keeper import Run
from holdtop.payload.launch import Command
from holdtop.payload.limits import Limits
from holdtop.payload.members import RUN_MARK
from holdtop.payload.metering import Gauge
from holdtop.payload.process import UnreadableProcess, own_identity
from holdtop.payload.signals import SignalInbox
from holdtop.payload.starter import Starter
from holdtop.payload.supervisor import Result, Supervisor

#: The state directory of the hold that an environment was made for.
STATE_DIR_MARK = "HOLDTOP_STATE_DIR"


@dataclass(frozen=True, slots=True)
class Options:
    """What ``run`` was asked for. Durations in seconds."""

    argv: Sequence[str]
    lane: str
    #: Empty: nothing is held, the payload is only contained and watched (``guard``).
    resources: Sequence[str] = ("gpu",)
    state_dir: str | None = None
    #: ``None``: wait for ever. 0: now or never.
    wait: float | None = None
    after_survivor: Policy = "warn"
    max_hold: float | None = None
    bounds: Bounds = field(default_factory=Bounds)
    nice: int = 0
    cpus: frozenset[int] = frozenset()
    log: str | None = None
    #: Limits on sensors, with the sensors injected.
    armed: Limits = field(default_factory=Limits)
    #: Where the payload is put, and who makes a scope where no cgroup can be made.
    contain: Mode = "auto"
    scopes: ScopeMaker = field(default_factory=NoScopes)
    keep_daemons: bool = False
    #: Who has the device open, for ``keep_daemons`` and for naming what is outside the payload's tree.
    devices: Probe = no_device
    #: Readers of the device's memory; ``None``: it is not measured.
    gauge: Gauge | None = None
    die_with_parent: bool = False
    #: Uids besides our own and root's whose stop requests are heeded.
    operators: Collection[int] = ()

    def limits(self) -> dict[str, str]:
        """What is armed, for the ticket, the record and the narration."""
        armed = {"grace": f"{self.bounds.grace:g}s", "survive-wait": f"{self.bounds.survive_wait:g}s"}
        if self.max_hold is not None:
            armed["max-hold"] = f"{self.max_hold:g}s"
        if self.after_survivor != "warn":
            armed["after-survivor"] = self.after_survivor
        return armed | {limit.name: limit.armed() for limit in self.armed.armed}


@dataclass(slots=True)
class Life:
    options: Options
    inbox: SignalInbox
    starter: Starter
    narrator: Narrator
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _watch: Watch = field(default_factory=Watch)

    def live(self) -> Result:
        """Hold, run, release. Raises ``HoldError`` or ``UsageError``; then nothing was started and nothing is held."""
        log_fd = _open_log(self.options.log)
        if self.options.state_dir is None:
            self._stay_below()
        # Two names may be one place, and a name another resource's: in the order of what is really held.
        resolved = {self._resolve(resource) for resource in self.options.resources}
        places = sorted(resolved, key=lambda place: place.resource)
        above = holds_above(places, self.environ) if places else set()
        wanted = [place.resource for place in places if place.resource not in above]
        refuse_disorder(wanted, above)
        if places and not wanted:
            self.narrator.say("nested: running under the hold that is already ours")
        with contextlib.ExitStack() as undo:
            try:
                held = self._acquire_all(wanted, undo)
            except Leave as leave:
                self.narrator.say(str(leave))
                return Result(leave.status, leave.die_of)
            place = self._place(held)
            undo.callback(place.remove)
            custody = self._custody(held) if held else self._nothing_held(places)
            supervisor = self._supervisor(held, custody, place, log_fd)
            supervisor.start()
            undo.pop_all()  # from here on keeper or supervisor releases, and only after the payload's end
        return supervisor.see_through()

    def _acquire_all(self, wanted: Sequence[str], undo: contextlib.ExitStack) -> list[Held]:
        until = None if self.options.wait is None else time.monotonic() + self.options.wait
        held: list[Held] = []
        for resource in wanted:
            held.append(self._acquire(resource, until, self._custody(held).check if held else None))
            undo.callback(held[-1].undo, self.narrator.say)
        return held

    def _acquire(self, resource: str, until: float | None, also: Callable[[], End | None] | None) -> Held:
        options = self.options
        command = redact_command(options.argv)
        while True:
            found = self._resolve(resource)
            waiter = Waiter(
                found,
                Wish(found.resource, options.lane, command, options.limits()),
                self.inbox,
                self.starter,
                self.narrator,
                options.bounds,
                until,
                resolve_again=lambda: self._resolve(resource),
                watch=self._watch,
                after_survivor=options.after_survivor,
                also=also,
            )
            with contextlib.suppress(MovedElsewhere):
                return waiter.acquire()

    def _stay_below(self) -> None:
        """Inside a hold that was told where its state lives: there, if that hold is proven to be above us.

        Else a nested run would take a second token elsewhere.
        """
        named = self.environ.get(STATE_DIR_MARK)
        if named and os.path.isdir(named):
            there = [resolve(resource, named, self.environ) for resource in self.options.resources]
            if there and holds_above(there, self.environ):
                self.options = replace(self.options, state_dir=named)

    def _resolve(self, resource: str) -> Places:
        return resolve(resource, self.options.state_dir, self.environ)

    def _custody(self, held: Sequence[Held]) -> HoldCustody:
        published = {
            "deadline_at": None if self.options.max_hold is None else now(self.options.max_hold),
            "limits": self.options.limits(),
            "log": os.path.abspath(self.options.log) if self.options.log else None,
            "sensors": {limit.name: limit.sensor.source for limit in self.options.armed.armed},
        }
        options = self.options
        return HoldCustody(held, self.narrator.say, self.narrator.warn, options.operators, self._watch, published)

    def _place(self, held: Sequence[Held]) -> Place:
        """Where the payload will be. Raises ``HoldError`` when it cannot be had as asked for."""
        name = held[0].id if held else str(os.getpid())
        place = prepare(self.options.contain, f"{name}-{os.urandom(4).hex()}", self.options.scopes)
        sensors = {limit.name: f" ({limit.sensor.source})" for limit in self.options.armed.armed}
        limits = self.options.limits().items()
        armed = ", ".join(f"{name} {value}{sensors.get(name, '')}" for name, value in limits)
        self.narrator.say(f"armed: {armed}; containment {', '.join(place.means)}")
        return place

    def _nothing_held(self, places: Sequence[Places]) -> NoCustody:
        """For a nested run and ``guard``: other lanes' holds are spared there as well, as far as they can be found."""
        with contextlib.suppress(HoldError, UsageError):
            return NoCustody(self.narrator.warn, partial(other_holds, places[0] if places else self._resolve("gpu")))
        return NoCustody(self.narrator.warn, Holds)

    def _supervisor(self, held: Sequence[Held], custody: Custody, place: Place, log_fd: int | None) -> Supervisor:
        options = self.options
        mark = ",".join(run_mark(one.ticket.ticket) for one in held) or f"{os.getpid()}:{os.urandom(8).hex()}"
        run = Run(
            command=Command(options.argv, self._marks(held, mark), options.nice, options.cpus, log_fd),
            mark=mark,
            custody=custody,
            bounds=options.bounds,
            max_hold=options.max_hold,
            limits=options.armed,
            place=place,
            keep_daemons=options.keep_daemons,
            devices=options.devices,
            gauge=options.gauge,
        )
        return Supervisor(run, self.inbox, self.starter, self.narrator.say, self.narrator.warn)

    def _marks(self, held: Sequence[Held], mark: str) -> dict[str, str]:
        """What the payload's environment gets. An outer run's mark stays: its payload we are as well."""
        outer = self.environ.get(RUN_MARK)
        marks = {RUN_MARK: f"{outer},{mark}" if outer else mark}
        for one in held:
            marks[TICKET_MARK + prefix(one.places.resource)] = one.id
            if one.places.state_dir:
                marks[STATE_DIR_MARK] = one.places.state_dir
        return marks


def _open_log(path: str | None) -> int | None:
    """The payload's output file: appended to, never through a link, never a FIFO. Raises ``UsageError``."""
    if path is None:
        return None
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    try:
        fd = os.open(path, flags, 0o640)
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from error
    if not (stat.S_ISREG(os.fstat(fd).st_mode) or os.isatty(fd) or os.path.samefile(path, os.devnull)):
        raise UsageError(f"--log {path} is neither a regular file nor a terminal")
    os.set_blocking(fd, True)
    return fd


def live(options: Options, inbox: SignalInbox, narrator: Narrator) -> Result:
    """One whole hold in this process, which becomes a subreaper and owns its signals: for commands only.

    Raises ``HoldError`` or ``UsageError``.
    """
    try:
        with writing("its processes", "start the hold"):
            own_identity()  # where /proc does not show even us, nothing could be watched
            linux.become_subreaper()
            starter = Starter(die_with_parent=options.die_with_parent, hup_ignored=inbox.hup_ignored)
            return Life(options, inbox, starter, narrator).live()
    except UnreadableProcess as error:
        raise HoldError(f"this hold cannot see its own processes: {error}; {NOT_RUN}") from error
    except HoldError as error:
        raise type(error)(f"{error}; {NOT_RUN}") from error
