"""What is done to an episode while it runs. Whom it hits, the process tree of the moment decides."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.chaos import checker, lanes
from bench.chaos.checker import LaneFacts
from bench.chaos.plan import STOPPED_FOR, Act

from holdtop.hold import stop
from holdtop.hold.files import Dir
from holdtop.hold.ticket import decode
from holdtop.payload.process import Identity, Pinned, ProcessTable, UnreadableProcess

if TYPE_CHECKING:
    from bench.chaos.arena import Play

#: A disk stays full for so long, in seconds.
FULL_FOR = 0.3


class Actor:
    def __init__(self, play: Play) -> None:
        self._play = play
        #: What has to be continued, and whose disk gets room again: when (seconds after the start), what, whom.
        self._later: list[tuple[float, str, Identity]] = []

    @property
    def pending(self) -> bool:
        return bool(self._later)

    def act(self, act: Act) -> None:
        """Do it, if what it needs is there."""
        lane = self._play.facts.get(act.lane % len(self._play.episode.lanes))
        match act.verb:
            case "clock":
                lanes.step_clock(act.number)
            case "recover":
                self._play.recover()
            case "remove" | "empty" | "replace":
                self._tamper(act.verb)
            case _ if lane is None or lane.ended is not None:
                return
            case "signal":
                self._signal(lane, act)
            case "evict" | "stop":
                self._write_off(lane, act.verb)
            case "full":
                self._fill(lane, act.number)

    def undo(self, elapsed: float | None) -> None:
        """Continue what was stopped, and give room to whose disk was full, once it is time (``None``: all)."""
        due = [one for one in self._later if elapsed is None or one[0] <= elapsed]
        self._later = [one for one in self._later if one not in due]
        for _, what, whom in due:
            with contextlib.suppress(ProcessLookupError, UnreadableProcess), Pinned(whom) as pinned:
                if what == "stop":
                    pinned.send(signal.SIGCONT)
                else:
                    _limit(whom.pid, resource.RLIM_INFINITY)

    def _after(self, seconds: float, what: str, whom: Identity) -> None:
        self._later.append((time.monotonic() - self._play.began + seconds, what, whom))

    def _signal(self, lane: LaneFacts, act: Act) -> None:
        table = ProcessTable()
        outer = table.stats.get(lane.pid)
        inner = next((table.stats[pid] for pid in table.children.get(lane.pid, ()) if self._is_hold(pid)), None)
        signum = signal.Signals(act.number)
        match act.role:
            case "supervisor":
                chosen = [outer]
            case "keeper":
                chosen = [inner]
            case "both":
                chosen = [inner, outer]
            case _:
                payload = checker.payload_processes(self._play.site.program)
                own = sorted(one.pid for one in payload if one.run == lane.run)
                root = [pid for pid in own if inner and table.stats.get(pid) and table.stats[pid].ppid == inner.pid]
                pids: Sequence[int] = (
                    root[:1] if act.role == "root" else own[act.member % len(own) :][:1] if own else []
                )
                chosen = [table.stats.get(pid) for pid in pids]
        whom = [stat.identity for stat in chosen if stat and not stat.dead]
        if not whom:
            return
        lane.touched = True
        if signum == signal.SIGKILL and act.role in ("supervisor", "keeper", "both"):
            lane.inner_killed |= act.role != "supervisor"
            hit = {outer.identity if outer else None, inner.identity if inner else None}.intersection(whom)
            lane.killed |= {identity.pid for identity in hit if identity}
            lane.beheaded |= lane.pid in lane.killed and (len(lane.killed) > 1 or inner is None)
        self._send(whom, signum)

    def _send(self, whom: Sequence[Identity], signum: signal.Signals) -> None:
        if len(whom) > 1 and signum == signal.SIGKILL:
            self._send(whom[:1], signal.SIGSTOP)  # neither is to see the other die
        for identity in whom:
            with contextlib.suppress(ProcessLookupError, UnreadableProcess), Pinned(identity) as pinned:
                pinned.send(signum)
                if signum == signal.SIGSTOP:
                    self._after(STOPPED_FOR, "stop", identity)

    def _is_hold(self, pid: int) -> bool:
        """The inner process of a hold executes what the arena does; the payload does not."""
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/exe") == os.readlink("/proc/self/exe")
        return False

    def _write_off(self, lane: LaneFacts, verb: str) -> None:
        """Remove the lane's ticket, as a shell would; or ask it to stop, as an operator would."""
        queue = self._play.site.queue
        names = os.listdir(queue) if queue.exists() else ()
        for name in [name for name in names if name.endswith(f"-{lane.pid}") and not name.startswith(".")]:
            with contextlib.suppress(FileNotFoundError):
                lane.touched = True
                nonce = decode((queue / name).read_bytes())["nonce"]
                if verb == "evict":
                    (queue / name).unlink()
                else:
                    with Dir.root(str(queue)) as opened:
                        stop.request(opened, name, nonce, "chaos")

    def _tamper(self, verb: str) -> None:
        token = self._play.site.token
        with contextlib.suppress(FileNotFoundError):
            if verb == "empty":
                os.truncate(token, 0)  # still there: it excludes as before, but only an operator may free it
                self._play.touch()
                return
            os.stat(token)
            self._play.rob()
            if verb == "remove":
                token.unlink()
                return
            aside = self._play.site.directory / "stranger"
            aside.write_text("stranger 4194304\n")  # no pid is so high
            aside.rename(token)

    def _fill(self, lane: LaneFacts, size: int) -> None:
        """From here on no file of the lane's grows beyond ``size``: EFBIG is one way of a disk to be full."""
        table = ProcessTable()
        lane.touched = lane.full = True
        for pid in (lane.pid, *(pid for pid in table.children.get(lane.pid, ()) if self._is_hold(pid))):
            stat = table.stats.get(pid)
            if stat and not stat.dead:
                _limit(pid, size)
                self._after(FULL_FOR, "full", stat.identity)


def _limit(pid: int, size: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
