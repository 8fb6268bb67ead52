"""The supervisor: the outer of a hold's two processes, the one whose pid others know.

It passes signals on to the keeper, lends the terminal, and is the keeper's heir: when the keeper is killed, every
orphan of the payload falls to the supervisor, which ends them and concludes in its stead.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import time
from collections.abc import Callable

from holdtop.errors import HoldError
from holdtop.lean import dataclass, replace
from holdtop.payload import linux
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.channel import Channel
from holdtop.payload.custody import End
from holdtop.payload.ending import Reaper
from holdtop.payload.keeper import TICK, Keeper, Run, end_by_signal, end_payload, exit_status, scope_of
from holdtop.payload.metering import unmeasured
from holdtop.payload.pausing import Pausing
from holdtop.payload.process import Identity, UnreadableProcess, own_identity, read_stat
from holdtop.payload.signals import ENDING, SignalInbox, ready
from holdtop.payload.starter import Starter
from holdtop.payload.terminal import Terminal, in_foreground

#: Statuses of the hold's own: a payload that ends with one of them is said to.
OURS = range(120, 128)
NO_TERMINAL = End("no-terminal", 125, "the payload wants a terminal that it cannot have in the background")
#: Beyond grace and survive wait, this long until a keeper that does not answer is replaced, in seconds.
KEEPER_SLACK = 15.0


@dataclass(frozen=True, slots=True)
class Result:
    status: int
    #: The hold should die of this signal itself, so that a shell loop around it stops.
    die_of: signal.Signals | None = None


class Supervisor:
    def __init__(
        self,
        run: Run,
        inbox: SignalInbox,
        starter: Starter,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        self._run = run
        self._inbox = inbox
        self._starter = starter
        self._say = say
        self._warn = warn
        self._terminal = Terminal.lendable()
        # Until the keeper tells the root, every descendant of ours that is younger than we are is the payload.
        self._root = own_identity()
        self._end: End | None = None
        self._end_by: float | None = None
        if run.max_hold is not None:
            # The keeper enforces the deadline; one that hangs is replaced, as in any ending.
            self._end_by = time.monotonic() + run.max_hold + run.bounds.longest + KEEPER_SLACK
        self._interrupted_by_key = False
        self._done: Result | None = None
        self._failure = ""
        self._paused = False
        self._keeper = 0
        self._gone_at = math.inf

    def start(self) -> None:
        """Start the keeper. Raises ``HoldError`` when there can be none; then nothing has been started."""
        linux.become_subreaper()
        self._channel, keepers = Channel.pair()
        supervisor = os.getpid()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._keeper = os.fork()
        except OSError as error:
            raise HoldError(f"no process can be started: {error.strerror}") from error
        if self._keeper == 0:
            self._channel.close()
            self._become_keeper(keepers, supervisor, blocked)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        keepers.close()

    def see_through(self) -> Result:
        """See the payload through to its end, and return the hold's status. Raises nothing that leaves it running."""
        try:
            self._watch()
            return self._done or self._inherit()
        except (OSError, UnreadableProcess) as error:
            return self._last_resort(error)
        finally:
            if self._terminal:
                self._terminal.take_back()

    def _become_keeper(self, channel: Channel, supervisor: int, blocked: set[int | signal.Signals]) -> None:
        """In the child: never returns into the supervisor's code."""
        try:
            hup_ignored = self._inbox.hup_ignored
            self._inbox.close()
            inbox = SignalInbox((*ENDING, signal.SIGCHLD, signal.SIGCONT), hup_ignored=hup_ignored)
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            Keeper(self._run, inbox, channel, supervisor, self._terminal).keep()
        except BaseException as error:  # noqa: BLE001  the child must never return into the supervisor's code
            # The supervisor inherits and ends the payload; this is only the reason for the log.
            channel.send("failed", text=f"{type(error).__name__}: {error}")
        finally:
            # A thread that is stuck in a sensor would keep them, the starter's pipes too.
            os.closerange(0, os.sysconf("SC_OPEN_MAX"))
            os._exit(0)

    def _watch(self) -> None:
        """Until the keeper is gone. One that cannot be watched has to go."""
        try:
            pidfd = os.pidfd_open(self._keeper)
        except OSError as error:
            self._failure = f"cannot be watched: {error.strerror}"
            os.kill(self._keeper, signal.SIGKILL)  # an unreaped child of ours: its pid is nobody else's
            os.waitpid(self._keeper, 0)
            return
        while True:
            ready = self._wait_for_news(pidfd)
            self._hear()
            if pidfd in ready or time.monotonic() >= self._gone_at:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(self._keeper, os.WNOHANG)
                self._hear()
                os.close(pidfd)
                return
            self._heed_signals()
            if self._starter.fd in ready or self._starter.ended:
                self._ask_to_end(self._starter.check())
            self._keep_keeper_going(pidfd)

    def _wait_for_news(self, pidfd: int) -> list[int]:
        """Descriptors with something to read. While the starter's verdict is out, it is asked every 0.1 s."""
        fds = [self._inbox.fd, pidfd]
        if not self._channel.closed:
            fds.append(self._channel.fileno())
        if self._starter.fd is not None and not self._starter.ended:
            fds.append(self._starter.fd)
        return ready(fds, 0.1 if self._starter.ended else TICK)

    def _hear(self) -> None:
        for message in self._channel.receive():
            match message["kind"]:
                case "placed":
                    self._run.place.cgroup = Cgroup.at(message["path"])
                case "started":
                    self._root = Identity(message["pid"], message["start"])
                    if self._terminal:
                        self._terminal.lend(self._root.pid)
                case "wants terminal":
                    if self._lend_terminal():
                        self._channel.send("lent")
                    else:
                        self._ask_to_end(NO_TERMINAL)
                case "say":
                    self._say(message["text"])
                case "ending":
                    if message["text"]:
                        self._say(message["text"])
                    self._limit_ending()
                case "turned":
                    self._paused = message["paused"]
                case "warn":
                    self._warn(message["text"])
                case "failed":
                    self._failure = message["text"]
                case "done":
                    self._done = Result(message["status"], self._death(message))
                    if message["reason"] == "exited" and message["status"] in OURS:
                        self._say(f"the command itself ended with status {message['status']}")

    def _death(self, message: dict[str, int | str]) -> signal.Signals | None:
        """After a terminal's Ctrl-C the hold dies of INT as well: a shell reads that as "stop the loop"."""
        by_payload = message["reason"] == "exited" and self._terminal and message["root_died_of"] == signal.SIGINT
        return signal.SIGINT if by_payload or (message["reason"] == "INT" and self._interrupted_by_key) else None

    def _heed_signals(self) -> None:
        for signum in self._inbox.drain():
            if signum == signal.SIGCONT:
                self._lend_terminal()
            elif signum != signal.SIGCHLD:
                self._interrupted_by_key = signum == signal.SIGINT and in_foreground()
                self._ask_to_end(end_by_signal(signum))

    def _ask_to_end(self, end: End | None) -> None:
        if end and self._end is None:
            self._end = end
            self._channel.send_end(end)
            self._limit_ending()

    def _limit_ending(self) -> None:
        end_by = time.monotonic() + self._run.bounds.longest + KEEPER_SLACK
        self._end_by = end_by if self._end_by is None else min(self._end_by, end_by)

    def _lend_terminal(self) -> bool:
        """A shell's ``fg``: if the hold came (back) to the foreground, the payload does."""
        self._terminal = self._terminal or Terminal.lendable()
        return self._terminal is not None and self._terminal.lend(self._root.pid)

    def _keep_keeper_going(self, pidfd: int) -> None:
        with contextlib.suppress(OSError, UnreadableProcess):
            stat = read_stat(self._keeper)
            if stat and stat.state == "T":
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            if stat and stat.state in "ZX":
                # Dead, perhaps but for a thread in a sensor's driver that no KILL ends: then the pidfd never tells.
                self._gone_at = min(self._gone_at, time.monotonic() + TICK)
            if self._end_by is not None and time.monotonic() > self._end_by:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _inherit(self) -> Result:
        """The keeper was killed: its orphans are ours now."""
        why = f"failed ({self._failure})" if self._failure else "was killed"
        end = self._end or End("keeper-killed", 125, f"the hold's inner process {why}")
        self._say(f"{end.text}; ending the payload")
        self._run.custody.ending(end)
        scope = scope_of(self._run, self._root)
        if self._paused:
            Pausing(scope, self._run.custody.other_holds).resume_unknown()
        report = end_payload(self._run, scope, Reaper(self._root.pid), end, self._inbox.sleep, self._say)
        self._run.place.remove()
        self._run.custody.conclude(replace(report, memory=unmeasured(self._run.gauge)))
        return Result(exit_status(report))

    def _last_resort(self, error: Exception) -> Result:
        """Not even descriptors are to be had: end what needs none, and leave the token to whoever can prove more."""
        self._say(f"the hold failed ({error}); its token is left for 'holdtop recover'")
        with contextlib.suppress(OSError):
            # Unreaped children of ours: their pids, and the root's group, are nobody else's.
            if os.waitpid(self._keeper, os.WNOHANG) == (0, 0):
                return Result(125)  # the keeper lives: it sees our end and ends the payload
        with contextlib.suppress(OSError):
            if os.waitpid(self._root.pid, os.WNOHANG) == (0, 0):
                os.killpg(self._root.pid, signal.SIGKILL)
        return Result(125)
