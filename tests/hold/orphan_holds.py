"""holdtop as the measured tool of the orphan matrix: as root and as an ordinary account, with and without a cgroup."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from holdtop.hold import record
from holdtop.hold.files import Dir
from holdtop.payload.process import Identity
from tests.hold.groups import group
from tests.hold.lanes import HOLDTOP, Box, identity, until
from tests.hold.orphans import KINDS, Outcome, Tool, Tree, play, send
from tests.hold.test_accounts import DRIVER, ONE


@dataclass(frozen=True)
class Row:
    """Who runs the hold, and what contains it."""

    uid: int
    #: Whether the account may make cgroups where it starts.
    delegated: bool
    options: tuple[str, ...] = ()


ROWS = {
    "root, cgroup": Row(0, True, ("--contain", "cgroup")),
    "root, no cgroup": Row(0, True, ("--contain", "subreaper")),
    "root, pid namespace": Row(0, True, ("--contain", "pidns")),
    "account, cgroup": Row(ONE, True, ("--contain", "cgroup")),
    "account, no cgroup": Row(ONE, False),
}


class Hold(Tool):
    ends: ClassVar[Mapping[str, Callable[[Any], object]]] = {
        "kill": lambda hold: hold.operate("kill"),
        "evict": lambda hold: hold.operate("evict"),
        "Ctrl-C": Tool.interrupt,
        "TERM": lambda hold: send(hold.supervisor, signal.SIGTERM),
        "KILL supervisor": lambda hold: send(hold.supervisor, signal.SIGKILL),
        "KILL keeper": lambda hold: send(hold.keeper, signal.SIGKILL),
        "KILL both": lambda hold: hold.kill_both(),
        "root exits": Tool.exit_root,
    }

    def __init__(self, tree: Tree, row: Row, grace: float) -> None:
        super().__init__(tree)
        self.box = Box(tree.directory / "state")
        self.box.state.mkdir(mode=0o2770)
        os.chown(self.box.state, row.uid, -1)
        driver = (HOLDTOP[0], DRIVER, str(row.uid), "", "022")
        self.run = [*(driver if row.uid else HOLDTOP), "run", "--state-dir", str(self.box.state)]
        self.run += [*row.options, "--grace", str(grace), "--"]
        self.ticket = ""
        self.supervisor = self.keeper = Identity(0, 0)

    def start(self) -> None:
        self.main = self.tree.spawn(*self.run, *self.tree.payload())
        started = self.box.until_running(30)
        self.ticket = started["ticket"]
        self.supervisor, self.keeper = identity(self.main.pid), identity(started["keeper_pid"])

    def queue(self, name: str) -> None:
        self.tree.spawn(*self.run, *self.tree.census(name))
        if name == "next":
            until(lambda: len(self.box.tickets()) == 2, 30)
            self.tree.spawn(*self.tree.census("token", str(self.box.token)))
            until((self.tree.directory / "token.new").exists)

    def operate(self, verb: str) -> None:
        """An operator's verb, from root's shell."""
        state = ("--state-dir", str(self.box.state))
        self.tree.spawn(*HOLDTOP, verb, *state, "--yes", "--reason", "measured", self.ticket)

    def ready(self, end: str) -> None:
        """When both processes die, what is known without a cgroup is what was published, every few seconds."""
        if end == "KILL both":
            daemons = {self.tree.look()[kind].pid for kind in ("daemon", "disguised")}
            until(lambda: daemons <= self.published(), 10)

    def published(self) -> set[int]:
        with Dir.root(str(self.box.queue)) as queue:
            found = record.read(queue, self.ticket)
        return {member.pid for member in found.members} if found else set()

    def kill_both(self) -> None:
        """The keeper is stopped first, so that neither sees the other die."""
        send(self.keeper, signal.SIGSTOP)
        send(self.supervisor, signal.SIGKILL)
        send(self.keeper, signal.SIGKILL)


@contextlib.contextmanager
def account_directory(uid: int) -> Iterator[Path]:
    """A directory of that account's, where it can reach it."""
    top = Path(tempfile.mkdtemp(prefix="holdtop-orphans-"))
    os.chown(top, uid, -1)
    yield top
    shutil.rmtree(top)


def play_hold(
    program: str, name: str, end: str, *, grace: float, wait: float, kinds: tuple[str, ...] = KINDS
) -> Outcome:
    """One run of the row of that name."""
    row = ROWS[name]
    with account_directory(row.uid) as directory, group(row.uid if row.delegated else None) as home:
        tree = Tree(program, home, directory, kinds)
        try:
            return play(Hold(tree, row, grace), end, wait)
        finally:
            home.kill()
            tree.reap()


def broken(outcome: Outcome) -> str:
    """How the run breaks the promise that no payload outlives its token; empty when it does not."""
    if outcome.survivors:
        return f"survivors: {outcome.survivors}"
    if outcome.slot_free is None or outcome.token_free is None:
        return "the token was never free"
    if early := {*outcome.alive_then, *outcome.alive_at_token}:
        return f"alive when the token was free: {sorted(early)}"
    return ""
