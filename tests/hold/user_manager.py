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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup
from tests.hold.lanes import until

#: Runs as the first process of the namespaces, as root: lays out what the manager needs, starts it, reaps.
INNER = """
set -e
mount --make-rprivate /
umount -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/manager
echo 0 > /sys/fs/cgroup/manager/cgroup.procs
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$XDG_RUNTIME_DIR" "$HOME"
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


@dataclass
class UserManager:
    """One manager, and the way to run things beside it as in a login session."""

    account: int
    #: The root of its namespace, as this process sees it.
    cgroup: Cgroup
    process: subprocess.Popen[bytes]
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def session(self) -> Cgroup:
        """Where its lanes start: like the scope of a login session, not delegated to the account."""
        return Cgroup(f"{self.cgroup.path}/session-1.scope", f"{self.cgroup.directory}/session-1.scope")

    def run(self, *words: str, env: Mapping[str, str] | None = None, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a command inside, as root; its pids in files and on its output are those of the namespace."""
        first = self._first()
        enter = f'echo 0 > "{self.session.directory}/cgroup.procs" && exec "$@"'
        into = ["nsenter", f"--target={first}", "--mount", "--pid", "--cgroup", "--", *words]
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(
            ["sh", "-c", enter, "sh", *into], env={**os.environ, **self.variables, **(env or {})}, **kwargs
        )

    def _first(self) -> int:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if children.exists():
            return int(children.read_text().split()[0])
        said = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, check=True)
        return int(said.stdout.split()[0])


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
    Path(group.directory, "session-1.scope").mkdir()
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
        try:
            assert process.stdout
            readable, _, _ = select.select([process.stdout], [], [], 20)
            said = process.stdout.readline() if readable else b""
            log.seek(0)
            assert said == b"ready\n", f"no service manager came up: {log.read().decode(errors='replace')}"
            yield UserManager(account, group, process, variables)
        finally:
            process.kill()
            process.wait()
            until(lambda: not group.populated())
            group.remove()
            assert not os.path.exists(group.directory)
