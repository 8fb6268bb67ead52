"""A real service manager of a whole box (systemd as process 1), in namespaces of its own, for as long as a test.

Its ``/etc``, ``/home``, ``/var`` and ``/run`` exist there alone, its cgroup root is a new group below this process's
own, and of the box's units it starts none but the bus and the journal. Nothing of it outlives ``close``: its first
process dies with ``unshare``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import ProcessTable
from tests.hold.lanes import until
from tests.host.private_box import PrivateBox

#: Runs as the first process of the namespaces, as root: lays out what the manager needs, and becomes it.
INNER = """
set -e
mount --make-rprivate /
umount --lazy /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/etc /mnt/home /mnt/lib /mnt/log /mnt/empty
cp -a /etc/. /mnt/etc
rm -rf /mnt/etc/systemd /mnt/etc/tmpfiles.d
mkdir -p /mnt/etc/systemd/system /mnt/etc/systemd/journald.conf.d
printf '[Journal]\\nStorage=volatile\\nForwardToConsole=no\\n' > /mnt/etc/systemd/journald.conf.d/test.conf
printf '[Unit]\\nWants=dbus.socket systemd-journald.service\\nRequires=basic.target\\nAfter=basic.target\\n' \
    > /mnt/etc/systemd/system/box.target
mount --bind /mnt/etc /etc
mount --bind /mnt/home /home
mount --bind /mnt/lib /var/lib
mount --bind /mnt/log /var/log
for unit in systemd-remount-fs.service systemd-journald-audit.socket systemd-journald-dev-log.socket tmp.mount; do
    ln -s /dev/null "/etc/systemd/system/$unit"  # they would reach the real box
done
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
for wants in sysinit sockets local-fs timers multi-user; do
    [ ! -d "/usr/lib/systemd/system/$wants.target.wants" ] ||
        mount --bind /mnt/empty "/usr/lib/systemd/system/$wants.target.wants"
done
mount -t tmpfs -o mode=755 none /run
umount --lazy /mnt
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=box.target --show-status=no \
    --log-target=journal
"""
FILES = ("/lib/systemd/systemd", "/usr/lib/systemd/system/dbus.socket")
PROGRAMS = ("systemctl", "dbus-daemon", "nsenter", "unshare", "useradd")


class SystemBox(PrivateBox):
    """A private box with a service manager."""

    def __init__(self, first: int) -> None:
        #: The manager's pid, here.
        self.first = first
        self.state = self.at(DEFAULT_STATE_DIR)

    def at(self, path: str) -> Path:
        return Path(f"/proc/{self.first}/root{path}")

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", f"--target={self.first}", "--mount", "--pid", "--cgroup", "--wd=/", "--", *words]

    def show(self, unit: str, name: str) -> str:
        """A property, as ``systemctl`` says it."""
        return self.do("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def outside(self, pid: int) -> int:
        """The pid here of a process inside."""
        table = ProcessTable()
        return next(one for one in _below(table, self.first) if _inside(one) == pid)


def _below(table: ProcessTable, pid: int) -> Iterator[int]:
    yield pid
    for child in table.children.get(pid, ()):
        yield from _below(table, child)


def _inside(pid: int) -> int | None:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[-1]) for line in file if line.startswith("NSpid:"))
    return None


@contextlib.contextmanager
def system_manager() -> Iterator[SystemBox]:
    """Start one, and end it with everything that runs inside."""
    home = Cgroup.of(os.getpid())
    if os.geteuid() != 0:
        pytest.skip("needs root: makes namespaces")
    if home is None:
        pytest.skip("needs cgroup v2: a service manager lives in it")
    if not all(map(shutil.which, PROGRAMS)) or not all(map(os.path.exists, FILES)):
        pytest.skip("needs systemd: a service manager and its bus")
    group = home.make(f"system-manager-{uuid.uuid4().hex[:8]}")
    with tempfile.TemporaryFile() as log:
        enter = f'echo 0 > "{group.directory}/cgroup.procs" && exec "$@"'
        unshare = [
            "unshare",
            "--mount",
            "--cgroup",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--mount-proc",
            "--kill-child",
        ]
        process = subprocess.Popen(
            ["sh", "-c", enter, "sh", *unshare, "bash", "-c", INNER], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            (first,) = until(lambda: ProcessTable().children.get(process.pid))
            box = SystemBox(first)
            try:
                until(lambda: _is_up(box), 60)
            except AssertionError:
                log.seek(0)
                raise AssertionError(f"no service manager came up: {log.read().decode(errors='replace')}") from None
            yield box
        finally:
            process.kill()
            process.wait()
            until(lambda: not group.populated())
            group.remove()
            assert not os.path.exists(group.directory)


def _is_up(box: SystemBox) -> bool:
    asked = box.do("systemctl", "is-active", "box.target", "dbus.socket", check=False)
    return asked.stdout.split() == ["active", "active"]
