"""A real service manager of a user (``systemd --user``) with a bus, in namespaces of its own, for as long as a test.

It needs no systemd as process 1: a private pid, mount and cgroup namespace, whose cgroup root is a new group below
this process's own, is all it wants. Nothing of it outlives ``close``: its first process dies with ``unshare``.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import ProcessTable
from tests.hold.lanes import until

#: Where lanes start: the scope of a login session, not delegated to the account.
SESSION = "/session-1.scope"
#: Runs as the first process of the namespaces, as root: lays out what the manager needs, starts it, reaps.
INNER = """
set -e
mount --make-rprivate /
umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/manager
echo 0 > /sys/fs/cgroup/manager/cgroup.procs
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" "$HOME"
(cat /etc/passwd; echo "lane:x:$ACCOUNT:$ACCOUNT::$HOME:/bin/sh") > /run/passwd
mount --bind /run/passwd /etc/passwd  # a bus serves no account without a name
chmod 700 "$XDG_RUNTIME_DIR"
chown -R "$ACCOUNT" "$XDG_RUNTIME_DIR" "$HOME" /sys/fs/cgroup/manager /sys/fs/cgroup/cgroup.procs
setpriv --reuid "$ACCOUNT" --regid "$ACCOUNT" --clear-groups \
    "$(readlink -f /lib/systemd/systemd)" --user --unit=basic.target &
until [ -S "$XDG_RUNTIME_DIR/bus" ] && [ -S "$XDG_RUNTIME_DIR/systemd/private" ] &&
    setpriv --reuid "$ACCOUNT" --clear-groups --regid "$ACCOUNT" systemctl --user is-active -q basic.target
do sleep 0.05; done
echo ready
wait
"""


@dataclass(frozen=True)
class UserManager:
    """One manager, and the way to run things beside it as in a login session."""

    account: int
    #: The root of its cgroup namespace, as this process sees it.
    cgroup: Cgroup
    variables: Mapping[str, str]
    #: The first process of its namespaces.
    first: int

    @property
    def service(self) -> int:
        """The manager's own pid, here."""
        (pid,) = (one for one in ProcessTable().children[self.first] if one in self.at("/manager/init.scope").procs())
        return pid

    def at(self, path: str) -> Cgroup:
        """The cgroup that has this path inside."""
        return Cgroup(self.cgroup.path + path, self.cgroup.directory + path)

    def popen(
        self,
        command: Sequence[str],
        *,
        path: str = SESSION,
        env: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command inside, as root, in a cgroup there; its pids in files and on its output are those inside."""
        into = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--cgroup", "--"]
        there = ["sh", "-c", f'echo 0 > "/sys/fs/cgroup{path}/cgroup.procs" && exec "$@"', "sh"]
        variables = {**self.variables, **(os.environ if env is None else env)}
        return subprocess.Popen([*into, *there, *command], env=variables, **kwargs)

    def ask(self, *command: str, **kwargs: Any) -> str:
        """What a command of the account says."""
        account = str(self.account)
        own = ["setpriv", "--reuid", account, "--regid", account, "--clear-groups", *command]
        with self.popen(own, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **kwargs) as asked:
            said, _ = asked.communicate(timeout=20)
        assert asked.returncode == 0, command
        return str(said)

    def units(self, pattern: str) -> list[str]:
        """Names of the manager's units, dead and failed ones included."""
        said = self.ask("systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", pattern)
        return [line.split()[0] for line in said.splitlines()]

    def outside(self, pid: int) -> int:
        """The pid here of a process inside."""
        (found,) = (one for one in self.cgroup.procs() if self.inside(one) == pid)
        return found

    @staticmethod
    def inside(pid: int) -> int | None:
        """The pid inside of a process there."""
        with suppress(OSError), open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))
        return None


@contextmanager
def user_manager(account: int = 0) -> Iterator[UserManager]:
    """Start one, and end it with everything that runs inside."""
    home = Cgroup.of(os.getpid())
    if os.geteuid() != 0:
        pytest.skip("needs root: makes namespaces")
    if home is None:
        pytest.skip("needs cgroup v2: a service manager lives in it")
    programs = map(shutil.which, ("systemd-run", "dbus-daemon", "setpriv", "nsenter"))
    if not all(programs) or not os.path.exists("/usr/lib/systemd/user/dbus.socket"):
        pytest.skip("needs systemd: a service manager and its bus")
    runtime = f"/run/user/{account}"
    variables = {
        "XDG_RUNTIME_DIR": runtime,
        "XDG_CONFIG_HOME": "/run/home/.config",
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path={runtime}/bus",
    }
    group = home.make(f"user-manager-{uuid.uuid4().hex[:8]}")
    Path(group.directory + SESSION).mkdir()
    with tempfile.TemporaryFile() as log:
        enter = f'echo 0 > "{group.directory}/cgroup.procs" && exec "$@"'
        unshare = ["unshare", "--mount", "--cgroup", "--pid", "--fork", "--mount-proc", "--kill-child"]
        process = subprocess.Popen(
            ["sh", "-c", enter, "sh", *unshare, "bash", "-c", INNER],
            env={**os.environ, **variables, "HOME": "/run/home", "ACCOUNT": str(account)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        assert process.stdout
        try:
            readable, _, _ = select.select([process.stdout], [], [], 20)
            said = process.stdout.readline() if readable else b""
            log.seek(0)
            assert said == b"ready\n", f"no service manager came up: {log.read().decode(errors='replace')}"
            (first,) = ProcessTable().children[process.pid]
            yield UserManager(account, group, variables, first)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            until(lambda: not group.populated())
            group.remove()
            assert not os.path.exists(group.directory)
