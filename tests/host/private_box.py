"""A box of its own for tests of accounts: its ``/etc``, ``/home`` and ``/var/lib`` exist in one mount namespace only.

Processes and the kernel are the real ones; accounts are made by the real programs, in files that vanish with the
namespace. What lies there is seen from outside through ``/proc/PID/root``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdtop.hold.places import DEFAULT_STATE_DIR
from tests.hold.lanes import HOLDTOP

SET_UP = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 none /mnt
mkdir /mnt/etc /mnt/home /mnt/lib
cp -a /etc/. /mnt/etc
mount --bind /mnt/etc /etc
mount --bind /mnt/home /home
mount --bind /mnt/lib /var/lib
rm -rf /etc/tmpfiles.d
umount -l /mnt
echo ready
read -r _
"""
AS_ACCOUNT = str(Path(__file__).parents[1] / "hold" / "as_account.py")
GROUP = "fleethold"


class PrivateBox:
    """Runs commands there; ``at`` is a path of it as seen from here."""

    def __init__(self) -> None:
        self._keeper = subprocess.Popen(
            ["unshare", "-m", "sh", "-c", SET_UP], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._keeper.stdout
        assert self._keeper.stdout.readline() == "ready\n"
        self.state = self.at(DEFAULT_STATE_DIR)

    def at(self, path: str) -> Path:
        return Path(f"/proc/{self._keeper.pid}/root{path}")

    def close(self) -> None:
        self._keeper.communicate("\n")

    def inside(self, *words: str) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--wd=/", *words]

    def do(self, *words: str, check: bool = True, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.inside(*words), capture_output=True, text=True, timeout=60, check=check, **kwargs)

    def user(self, name: str, uid: int | None = None) -> int:
        """Make an account with a home of its own; its uid. Others may have processes of the usual ones."""
        own = () if uid is None else ("--uid", str(uid))
        self.do("useradd", "--create-home", "--home-dir", f"/home/{name}", *own, name)
        return int(self.do("id", "-u", name).stdout)

    def state_verb(self, *words: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
        """``holdtop state …`` as root there."""
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        return self.do(*HOLDTOP, "state", *words, check=False, **kwargs)

    def steps(self, *words: str) -> list[str]:
        """What a changing part of ``holdtop state`` says it has done."""
        done = self.state_verb(*words, "--yes", "--json")
        assert done.returncode == 0, done.stderr
        return list(json.loads(done.stdout)["done"])

    def as_account(self, name: str, *words: str, umask: str = "022", **kwargs: Any) -> subprocess.Popen[str]:
        """``holdtop …`` as that account with all of its groups, in its home's environment."""
        uid = self.do("id", "-u", name).stdout.strip()
        groups = self.do("id", "-G", name).stdout.split()
        command = [sys.executable, AS_ACCOUNT, uid, ",".join(groups), umask, *words]
        return subprocess.Popen(
            self.inside(*command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "HOME": f"/home/{name}", **kwargs.pop("env", {})},
            **kwargs,
        )

    def write(self, path: str, text: str, owner: str = "root", mode: int = 0o644) -> Path:
        """A file there, with its directories, all of that owner."""
        self.do("install", "-d", "-o", owner, os.path.dirname(path))
        file = self.at(path)
        file.write_text(text)
        file.chmod(mode)
        self.do("chown", owner, path)
        return file


def tree(directory: Path) -> dict[str, tuple[str, int, int]]:
    """Every path below, with type and mode, owner and group."""
    paths: Sequence[Path] = [directory, *directory.rglob("*")]
    found = {}
    for path in paths:
        status = path.lstat()
        found[str(path.relative_to(directory))] = (oct(status.st_mode), status.st_uid, status.st_gid)
    return found


def sweep(host: PrivateBox, *words: str) -> int:
    """Run ``tests.host.sweep`` there; how often it has killed."""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = host.do(sys.executable, "-m", "tests.host.sweep", *words, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)
