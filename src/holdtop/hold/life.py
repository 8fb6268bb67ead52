"""The life of a hold, from the command line's wish to the exit status.

Wait for each resource in order, start the payload between two subreapers, see it to its end, release.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from holdtop.errors import HoldError, UsageError
from holdtop.hold import places as where
from holdtop.hold import token
from holdtop.hold.custody import Held, HoldCustody
from holdtop.hold.narrate import Narrator
from holdtop.hold.recovery import run_mark
from holdtop.hold.redact import redact_command
from holdtop.hold.take import MovedElsewhere
from holdtop.hold.ticket import Wish, now
from holdtop.hold.view import CONTAINMENT
from holdtop.hold.wait import Leave, Waiter
from holdtop.payload import linux
from holdtop.payload.custody import Custody, NoCustody
from holdtop.payload.ending import Bounds
from holdtop.payload.keeper import Run
from holdtop.payload.launch import Command
from holdtop.payload.limits import Limits
from holdtop.payload.members import RUN_MARK
from holdtop.payload.process import ProcessTable
from holdtop.payload.signals import SignalInbox
from holdtop.payload.starter import Starter
from holdtop.payload.supervisor import Result, Supervisor

TICKET_MARK = "HOLDTOP_TICKET_"


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
    max_hold: float | None = None
    bounds: Bounds = field(default_factory=Bounds)
    nice: int = 0
    cpus: frozenset[int] = frozenset()
    log: str | None = None
    #: Limits on sensors, with the sensors injected.
    armed: Limits = field(default_factory=Limits)
    die_with_parent: bool = False
    #: Uids besides our own and root's whose stop requests are heeded.
    operators: Collection[int] = ()

    def limits(self) -> dict[str, str]:
        """What is armed, for the ticket, the record and the narration."""
        armed = {"grace": f"{self.bounds.grace:g}s", "survive-wait": f"{self.bounds.survive_wait:g}s"}
        if self.max_hold is not None:
            armed["max-hold"] = f"{self.max_hold:g}s"
        return armed | {limit.name: limit.armed() for limit in self.armed.armed}


@dataclass(slots=True)
class Life:
    options: Options
    inbox: SignalInbox
    starter: Starter
    narrator: Narrator
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def live(self) -> Result:
        """Hold, run, release. Raises ``HoldError`` or ``UsageError`` before the payload was started."""
        log_fd = _open_log(self.options.log)
        if not self.options.resources:
            return self._run(NoCustody(), (), f"guard:{os.getpid()}:{time.monotonic_ns()}", log_fd)
        wanted = [r for r in sorted(self.options.resources) if not self._held_above(r)]
        self._refuse_disorder(wanted)
        if not wanted:
            self.narrator.say("nested: running under the hold that is already ours")
            return self._run(NoCustody(), (), f"nested:{os.getpid()}:{time.monotonic_ns()}", log_fd)
        held: list[Held] = []
        try:
            until = None if self.options.wait is None else time.monotonic() + self.options.wait
            for resource in wanted:
                held.append(self._acquire(resource, until))
            mark = ",".join(run_mark(one.ticket.ticket) for one in held)
            return self._run(self._custody(held), held, mark, log_fd)
        except Leave as leave:
            _give_back(held)
            self.narrator.say(str(leave))
            return Result(leave.status, leave.die_of)
        except HoldError:
            _give_back(held)  # nothing was started: once something was, the keeper releases
            raise

    def _acquire(self, resource: str, until: float | None) -> Held:
        options = self.options
        wish = Wish(resource, options.lane, redact_command(options.argv), options.limits())
        while True:
            found = self._resolve(resource)
            wish = Wish(found.resource, options.lane, wish.command, wish.limits)
            waiter = Waiter(
                found,
                wish,
                self.inbox,
                self.starter,
                self.narrator,
                options.bounds,
                until,
                resolve_again=lambda: self._resolve(resource),
            )
            with contextlib.suppress(MovedElsewhere):
                return waiter.acquire()

    def _resolve(self, resource: str) -> where.Places:
        return where.resolve(resource, self.options.state_dir, self.environ)

    def _held_above(self, resource: str) -> bool:
        """The token's live holder is our ancestor. The variables are a hint only; a lie in them is refused.

        Raises ``HoldError`` when waiting would be a deadlock: the mark of a running hold without its descent.
        """
        found = self._resolve(resource)
        try:
            with found.open_token_dir() as directory:
                lies = token.look(directory, found.token_name)
        except HoldError:
            return False
        if lies is None or lies.ticket is None or not lies.locked:
            return False
        if lies.ticket.pid in ProcessTable().ancestors(os.getpid()):
            return True
        if self.environ.get(TICKET_MARK + where.prefix(found.resource)) == lies.ticket.id:
            raise HoldError(
                f"this environment belongs to hold {lies.ticket.id} of {found.resource}, which is still running, but "
                "this process is not below it: waiting for it could be a deadlock; start from another environment"
            )
        return False

    def _refuse_disorder(self, wanted: Sequence[str]) -> None:
        """Always in one order, so that two lanes can never wait for each other."""
        above = [
            name
            for name in (key.removeprefix(TICKET_MARK).lower().replace("_", "-") for key in self.environ)
            if TICKET_MARK + where.prefix(name) in self.environ and where.RESOURCE_FORM.fullmatch(name)
        ]
        for resource in wanted:
            for name in above:
                if resource < name and self._held_above(name):
                    raise HoldError(
                        f"{resource} may not be taken while {name} is held: take both at once with -r {resource},{name}"
                    )

    def _custody(self, held: Sequence[Held]) -> HoldCustody:
        deadline = None
        if self.options.max_hold is not None:
            at = datetime.datetime.now().astimezone() + datetime.timedelta(seconds=self.options.max_hold)
            deadline = at.isoformat(timespec="seconds")
        published = {
            "deadline_at": deadline,
            "limits": self.options.limits(),
            "containment": CONTAINMENT,
            "running_since": now(),
        }
        return HoldCustody(held, self.narrator.say, self.narrator.warn, self.options.operators, published)

    def _run(self, custody: Custody, held: Sequence[Held], mark: str, log_fd: int | None) -> Result:
        armed = ", ".join(f"{name} {value}" for name, value in self.options.limits().items())
        self.narrator.say(f"armed: {armed}; containment {', '.join(CONTAINMENT)}")
        marks = {RUN_MARK: mark}
        for one in held:
            marks[TICKET_MARK + where.prefix(one.places.resource)] = one.id
            if one.places.state_dir:
                marks["HOLDTOP_STATE_DIR"] = one.places.state_dir
        options = self.options
        command = Command(options.argv, marks, options.nice, options.cpus, log_fd)
        run = Run(command, mark, custody, options.bounds, options.max_hold, options.armed)
        return Supervisor(run, self.inbox, self.starter, self.narrator.say, self.narrator.warn).supervise()


def _give_back(held: Sequence[Held]) -> None:
    for one in reversed(held):
        one.give_back()
        one.event("released", reason="not started")


def _open_log(path: str | None) -> int | None:
    """The payload's output file: appended to, never through a link. Raises ``UsageError``."""
    if path is None:
        return None
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror}") from error


def live(options: Options, inbox: SignalInbox, narrator: Narrator) -> Result:
    """One whole hold in this process, which becomes a subreaper and owns its signals: for commands only."""
    linux.become_subreaper()
    starter = Starter(die_with_parent=options.die_with_parent, hup_ignored=inbox.hup_ignored)
    return Life(options, inbox, starter, narrator).live()
