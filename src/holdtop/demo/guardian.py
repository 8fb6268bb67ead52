"""The demo's guardian: starts everything, and ends everything when the demo's process is gone.

``python -m holdtop.demo.guardian PID START [DIRECTORY]`` watches that process by pidfd. It lives in a session of
its own, where no Ctrl-C and no hang-up of the terminal reaches it, and it is a subreaper: whatever the demo starts
stays below it, so that the kernel itself (ECHILD) says when nothing is left.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress

from holdtop.demo.cast import SHARES, Cast, program_of
from holdtop.demo.sensors import Sensors
from holdtop.demo.world import World
from holdtop.errors import HoldtopError
from holdtop.payload import linux, signals
from holdtop.payload.custody import Holds
from holdtop.payload.ending import Bounds, Ending, Reaper
from holdtop.payload.members import Scope
from holdtop.payload.process import Identity, Pinned, ProcessTable, own_identity

#: The sensors move this often, in seconds.
TICK = 1.0
#: The demo's processes get no grace: nothing of theirs is to be kept. This long until one counts as left.
BOUNDS = Bounds(grace=0.0, survive_wait=20.0)


class Over(Exception):
    """The demo's process is gone, or asked for the end."""


class Guardian:
    def __init__(self, watched: Pinned, inbox: signals.SignalInbox, world: World) -> None:
        self._watched = watched
        self._inbox = inbox
        self._world = world
        self._reaper = Reaper(root_pid=0)

    def set_up(self) -> None:
        """Raises ``HoldtopError`` or ``Over``."""
        self._world.build(os.path.realpath(sys.executable))
        os.chdir(self._world.work)
        self._sensors = Sensors(self._world)
        self._cast = Cast(self._world, self.pause)
        self.move()  # the limits of a hold want sensors that answer
        self._cast.enter()
        self.move()

    @property
    def told(self) -> dict[str, object]:
        world = self._world
        return {
            "guardian": os.getpid(),
            "directory": str(world.root),
            "state_dir": str(world.state),
            "environ": world.environ,
            **self._cast.told,
        }

    def guard(self) -> None:
        """Move the sensors until it is over. Raises ``Over``."""
        while True:
            self.move()
            self.pause(TICK)

    def move(self) -> None:
        table = ProcessTable()
        programs = {pid: program_of(pid) for pid in table.descendants(os.getpid())}
        shares = {pid: SHARES[name] for pid, name in programs.items() if name in SHARES}
        self._sensors.move(shares, busy=self._cast.holds(), now=time.monotonic())

    def pause(self, seconds: float) -> None:
        """Sleep and reap. Raises ``Over``."""
        until = time.monotonic() + seconds
        while True:
            woken = signals.ready((self._watched.fd, self._inbox.fd), until - time.monotonic())
            self._reaper.reap()
            if self._watched.fd in woken or not {*self._inbox.drain()}.isdisjoint(signals.ENDING):
                raise Over
            if time.monotonic() >= until:
                return

    def end(self) -> bool:
        """End all that was started and remove the directory. False when something was left."""
        scope = Scope(own_identity(), "demo", os.getuid(), reaper=os.getpid())
        _, _, proof = Ending(scope, BOUNDS, self._reaper, other_holds=Holds).run(self._inbox.sleep)
        shutil.rmtree(self._world.root, ignore_errors=True)
        return proof is not None and not self._world.root.exists()


def _plain_environment(world: World) -> None:
    """Nothing of the caller's that a hold follows; the demo's sensors, and its own ``python3`` first on the path."""
    for name in list(os.environ):
        if name.startswith(("GPU_", "NPU_", "HOLDTOP_", "ONEBIT_")) or name == "HW_GATE_LOCK":
            del os.environ[name]
    os.environ.update(world.environ)
    os.environ["DEMO_GUARDIAN"] = str(os.getpid())
    os.environ["PATH"] = f"{world.bin}:{os.environ.get('PATH', os.defpath)}"


def _say(told: dict[str, object]) -> None:
    """One line to whoever started us, who may be gone; then nothing is ever said again."""
    with suppress(OSError):
        os.write(1, json.dumps(told).encode() + b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)


def _directory(named: str | None = None) -> str:
    """A new directory of mode 0700; the ``named`` one must not exist yet."""
    if named is None:
        return tempfile.mkdtemp(prefix="holdtop-demo-")
    os.mkdir(named, 0o700)
    return named


def main() -> int:
    inbox = signals.capture()  # from here on no signal can come between a thing made and its removal
    watched = Pinned(Identity(int(sys.argv[1]), int(sys.argv[2])))
    linux.become_subreaper()
    try:
        world = World(_directory(*sys.argv[3:]))
    except OSError as error:
        _say({"error": str(error)})
        return 0  # nothing is there to be left
    guardian = Guardian(watched, inbox, world)
    _plain_environment(world)
    try:
        guardian.set_up()
        _say(guardian.told)
        guardian.guard()
    except Over:
        pass
    except (HoldtopError, OSError) as error:
        _say({"error": str(error)})
    finally:
        clean = guardian.end()
    return 0 if clean else 1


if __name__ == "__main__":
    raise SystemExit(main())
