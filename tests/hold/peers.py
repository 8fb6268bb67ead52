"""Lanes of the older shell tool beside ours, and a checker of exclusion that knows neither of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.hold.lanes import Box, until

PEER = str(Path(__file__).with_name("shell_peer.sh"))
#: A short poll, in seconds: the tool's own is one second.
POLL = "0.05"
#: ``sh -c PAYLOAD FILE``: the kernel's lock goes with the last process of the payload, however that one ends.
PAYLOAD = 'exec 9>> "$0"; flock -n 9 || echo overlap >> "$0.overlaps"; echo "$1" >> "$0.turns"; exec sleep "${2:-0}"'


@dataclass
class Marks:
    """What the payloads say and the kernel's lock proves."""

    file: Path

    def payload(self, kind: str, seconds: str = "0") -> tuple[str, ...]:
        return ("sh", "-c", PAYLOAD, str(self.file), kind, seconds)

    def turns(self) -> list[str]:
        return self.words("turns")

    def overlaps(self) -> int:
        return len(self.words("overlaps"))

    def words(self, what: str) -> list[str]:
        path = self.file.with_name(f"{self.file.name}.{what}")
        return path.read_text().split() if path.exists() else []


def variables(box: Box, **more: str) -> dict[str, str]:
    places = {"GPU_QUEUE_DIR": str(box.queue), "GPU_TOKEN_FILE": str(box.token), "PEER_POLL": POLL}
    return os.environ | places | more


def peer(box: Box, *words: str, environ: dict[str, str] | None = None, **kwargs: Any) -> subprocess.Popen[bytes]:
    box.queue.mkdir(exist_ok=True)
    kwargs.setdefault("stderr", subprocess.PIPE)
    kwargs.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.Popen([PEER, *words], env=variables(box, **(environ or {})), **kwargs)


def held_by(box: Box, process: subprocess.Popen[bytes]) -> None:
    """Wait until that shell peer has written its name into the token."""
    until(lambda: box.token.exists() and f" {process.pid}" in box.token.read_text())


def watched(pid: int, path: Path) -> bool:
    """Whether that process has an inotify watch on the file that lies there now (proc_pid_fdinfo(5))."""
    inode = f"ino:{path.stat().st_ino:x} "
    return any("inotify" in text and inode in text for text in _descriptors(pid))


def _descriptors(pid: int) -> list[str]:
    directory = Path(f"/proc/{pid}/fdinfo")
    found = []
    for entry in directory.iterdir():
        try:
            found.append(entry.read_text())
        except OSError:
            continue
    return found
