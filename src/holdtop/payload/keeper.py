"""The keeper: the inner of a hold's two processes. It starts the payload, watches it, ends it, and concludes.

It is a subreaper in a process group of its own, below the supervisor and above the payload, and watches the
supervisor by pidfd: when that one is killed, the keeper ends the payload and releases what is held.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence

from holdtop.errors import NOT_RUN, HoldError
from holdtop.lean import dataclass, replace
from holdtop.payload import linux
from holdtop.payload.channel import Channel
from holdtop.payload.containment import Place
from holdtop.payload.custody import Custody, End, Report
from holdtop.payload.devices import Probe, daemons, suspects
from holdtop.payload.ending import Bounds, Ending, Reaper
from holdtop.payload.launch import Command, LaunchError, start, unprotect
from holdtop.payload.limits import Limits
from holdtop.payload.members import Scope, find
from holdtop.payload.metering import BACK_WAIT, Gauge, Meter
from holdtop.payload.namespace import Namespace
from holdtop.payload.pausing import Pausing
from holdtop.payload.process import Identity, UnreadableProcess, read_stat
from holdtop.payload.signals import SignalInbox, ready
from holdtop.payload.terminal import Terminal

#: The keeper looks around at least this often, in seconds.
TICK = 1.0
#: What is published about the payload is renewed this often, in seconds.
PUBLISH_EVERY = 5.0
#: Seconds between two looks at device memory that comes back late.
SETTLE_EVERY = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One payload: what to start, how long it may run, how it ends, and what is held for it."""

    command: Command
    #: Id and nonce, as in the payload's ``HOLDTOP_RUN``.
    mark: str
    custody: Custody
    bounds: Bounds
    #: Seconds of CLOCK_MONOTONIC (suspend does not count); ``None`` for no limit.
    max_hold: float | None
    limits: Limits
    place: Place
    #: Spare what left the root's session and has no device open.
    keep_daemons: bool
    #: Who has the device open.
    devices: Probe
    #: Readers of the device's memory; ``None``: none is held.
    gauge: Gauge | None = None


def exit_status(report: Report) -> int:
    """The hold's exit status: the end's own, else the payload's (128+n when it died of signal n)."""
    if report.end.status is not None:
        return report.end.status
    if report.root_wait_status is None:
        return 125
    code = os.waitstatus_to_exitcode(report.root_wait_status)
    return code if code >= 0 else 128 - code


def end_by_signal(signum: signal.Signals) -> End:
    """TERM, INT, HUP or QUIT to the hold."""
    return End(signum.name.removeprefix("SIG"), 128 + signum, f"ended by {signum.name}")


def scope_of(run: Run, root: Identity) -> Scope:
    """Where this process, the subreaper above the payload, looks for its members."""
    return Scope(root, run.mark, os.getuid(), reaper=os.getpid(), cgroups=run.place.groups)


def end_payload(
    run: Run,
    scope: Scope,
    reaper: Reaper,
    end: End,
    sleep: Callable[[float], None],
    say: Callable[[str], None],
) -> Report:
    """The end of the payload below this process: the keeper's, or its heir's."""
    others = run.custody.other_holds
    if run.keep_daemons:
        kept = daemons(scope, run.devices, others)
        if kept is None:
            say("no daemon is kept: who has the device open cannot be told")
        scope = replace(scope, kept=kept or frozenset())
    fates, left, proof = Ending(scope, run.bounds, reaper, others).run(sleep)
    return Report(end, reaper.root_wait_status, fates, left, proof, suspects=suspects(scope, run.devices, others))


class _Unwanted(Exception):
    """The end came before the payload was executed."""

    def __init__(self, end: End) -> None:
        self.end = end
        super().__init__(end.text)


class Keeper:
    def __init__(
        self, run: Run, inbox: SignalInbox, channel: Channel, supervisor_pid: int, terminal: Terminal | None
    ) -> None:
        self._run = run
        self._meter = Meter(run.gauge)
        self._inbox = inbox
        self._channel = channel
        self._supervisor_pid = supervisor_pid
        self._terminal = terminal
        self._root_pid = 0
        self._supervisor = _pin_parent(supervisor_pid)
        self._deadline = None if run.max_hold is None else time.monotonic() + run.max_hold
        # The first look comes early: should both of us be killed, only what was published is known.
        self._published_at = time.monotonic() - PUBLISH_EVERY + TICK
        supervisor = () if self._supervisor is None else (self._supervisor,)
        self._news = [inbox.fd, channel.fileno(), *supervisor]
        self._custodys: Sequence[int] = ()

    def keep(self) -> None:
        """The whole life of the payload."""
        linux.become_subreaper()
        try:
            root = start(
                self._run.command,
                terminal_fd=self._terminal.fd if self._terminal else None,
                hup_ignored=self._inbox.hup_ignored,
                fork=self._run.place.fork,
                place=self._place,
                namespace=self._namespace(),
            )
        except _Unwanted as early:
            self._finish(Report(early.end, None, launch_error=early.end.text))
            return
        except (LaunchError, HoldError, OSError) as error:
            status, text = (error.status, "") if isinstance(error, LaunchError) else (125, f"; {NOT_RUN}")
            self._say(f"{error}{text}")
            self._finish(Report(End("not started", status), None, launch_error=str(error)))
            return
        self._channel.send("started", pid=root.pid, start=root.start_ticks)
        self._run.limits.start()  # threads only now: nothing is forked after them
        self._meter.start()
        self._root_pid = root.pid
        if self._terminal:
            self._terminal.lend(root.pid)
        self._run.custody.started(root)
        scope = scope_of(self._run, root)
        reaper = Reaper(root.pid)
        pausing = Pausing(scope, self._run.custody.other_holds, self._terminal)
        end = self._watch(reaper, pausing)
        pausing.resume()  # TERM has to be heard, and whoever is kept must not stay stopped
        self._run.custody.ending(end)
        self._channel.send("ending", text=end.text)
        self._root_pid = 0
        self._finish(end_payload(self._run, scope, reaper, end, self._inbox.sleep, self._say))

    def _say(self, text: str) -> None:
        self._channel.send("say", text=text)

    def _namespace(self) -> Namespace | None:
        if self._run.place.mode != "pidns":
            return None
        guardians = [os.pidfd_open(os.getpid()), *([] if self._supervisor is None else [self._supervisor])]
        return Namespace(guardians, self._run.bounds.grace)

    def _place(self, root: Identity) -> None:
        """Between the root's fork and its exec. If it raises, nothing is executed.

        Raises ``HoldError`` or ``OSError`` for want of a place, ``_Unwanted`` when the end has come meanwhile.
        """
        place = self._run.place
        place.put(root.pid)
        if place.why and not place.cgroup:
            self._say(f"no cgroup: {place.why}")
        if place.cgroup:
            self._channel.send("placed", path=place.cgroup.path)
        if note := unprotect(root.pid):
            self._say(note)
        self._run.custody.placed(root, place)
        if end := self._run.custody.check() or self._end_from_outside():
            # Between the take and the exec: whoever removed the ticket wants no payload at all.
            raise _Unwanted(End("evicted", 120, end.text) if end.reason == "evicted" else end)

    def _finish(self, report: Report) -> None:
        self._run.place.remove()
        report = replace(report, memory=self._meter.after())
        self._run.custody.conclude(report)
        if self._terminal and self._heir:
            self._terminal.take_back()
        root = report.root_wait_status
        died_of = os.WTERMSIG(root) if root is not None and os.WIFSIGNALED(root) else 0
        _continue(self._supervisor_pid, self._supervisor)
        self._channel.send_last("done", status=exit_status(report), reason=report.end.reason, root_died_of=died_of)
        if report.memory and report.memory.state == "falling":
            self._run.custody.settle(self._again(report))

    def _again(self, report: Report) -> Callable[[], Report | None]:
        """The report with the memory of a moment later, until it has had its time or a signal comes."""
        until = time.monotonic() + BACK_WAIT

        def again() -> Report | None:
            ready(self._news, SETTLE_EVERY)
            memory = self._meter.after()
            if memory is None or self._end_from_outside():
                return None
            late = memory.state == "falling" and time.monotonic() >= until
            return replace(report, memory=self._meter.judge(memory) if late else memory)

        return again

    def _watch(self, reaper: Reaper, pausing: Pausing) -> End:
        while True:
            reaper.reap()
            if reaper.root_wait_status is not None:
                return End("exited", None)
            end = self._end_from_outside() or self._end_from_inside(reaper, pausing)
            if end:
                return end
            self._pause_or_resume(reaper, pausing)
            self._tick(pausing.scope)
            left = TICK if self._deadline is None else self._deadline - time.monotonic()
            ready((*self._news, *self._custodys), min(TICK, left))

    def _end_from_outside(self) -> End | None:
        """Signals, the supervisor's word, and its death."""
        for message in self._channel.receive():
            if message["kind"] == "end":
                return End(message["reason"], message["status"], message["text"])
            if message["kind"] == "lent":
                self._continue_payload()
        for signum in self._inbox.drain():
            if signum not in (signal.SIGCHLD, signal.SIGCONT):
                return end_by_signal(signum)
        if self._heir:
            return End("supervisor-killed", 125, "the hold's outer process is gone")
        return None

    @property
    def _heir(self) -> bool:
        return os.getppid() != self._supervisor_pid

    def _end_from_inside(self, reaper: Reaper, pausing: Pausing) -> End | None:
        """The deadline, what is held, and a root that has stopped itself."""
        if self._deadline is not None and time.monotonic() >= self._deadline:
            return End("max-hold", 124, f"the hold's time is over (--max-hold {self._run.max_hold:g} s)")
        if reaper.root_stopped_by is not None and not pausing.paused:
            self._heed_stop(reaper.root_stopped_by)
            reaper.root_stopped_by = None
        return self._run.limits.check() or self._run.custody.check()

    def _heed_stop(self, signum: int) -> None:
        if signum in (signal.SIGTTIN, signal.SIGTTOU):
            self._channel.send("wants terminal")  # a shell may have brought the hold to the foreground meanwhile
        else:
            self._continue_payload()
            self._say("a held accelerator is not suspended: the payload was continued")

    def _continue_payload(self) -> None:
        """Only while the root has not been reaped: its number is nobody else's."""
        if self._root_pid:
            with contextlib.suppress(OSError):
                os.killpg(self._root_pid, signal.SIGCONT)

    def _pause_or_resume(self, reaper: Reaper, pausing: Pausing) -> None:
        turn = self._run.limits.turn()
        if turn and not turn.paused:
            if pausing.scope.root in pausing.resume():
                reaper.root_stopped_by = None  # that was us; one that had stopped itself is continued by its own rule
        elif (turn or pausing.paused) and (goes_on := pausing.pause()):
            self._channel.send("warn", text=goes_on)
        if turn:
            self._channel.send("turned", paused=turn.paused)
            self._channel.send("warn" if turn.value is None else "say", text=turn.text)
            self._run.custody.turned(turn)

    def _tick(self, scope: Scope) -> None:
        _continue(self._supervisor_pid, self._supervisor)
        for text in self._run.limits.news():
            self._channel.send("warn", text=text)
            self._run.custody.warned(text)
        if time.monotonic() - self._published_at >= PUBLISH_EVERY:
            self._published_at = time.monotonic()
            self._custodys = self._run.custody.fds()
            with contextlib.suppress(OSError):  # the next look comes by itself
                members = find(scope, self._run.custody.other_holds).members
                self._meter.members = [member.identity for member in members]
                self._run.custody.running(members, scope.seen(members), self._meter.used())


def _continue(supervisor_pid: int, pidfd: int | None) -> None:
    """A stopped supervisor hears no TERM and never exits."""
    with contextlib.suppress(OSError, UnreadableProcess):
        stat = read_stat(supervisor_pid)
        if stat and stat.state == "T" and pidfd is not None:
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)


def _pin_parent(pid: int) -> int | None:
    """A pidfd of the parent, if it is still ``pid`` once the descriptor is held."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if os.getppid() != pid:
        os.close(fd)
        return None
    return fd
