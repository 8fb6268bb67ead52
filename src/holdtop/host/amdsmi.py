"""AMD's library as a second opinion: never required, and never loaded in a process that does anything else.

It is asked in a child (``amdsmi_child``), whose prints are caught and whose answer is taken for a stranger's: bounded
in size, and believed in its one form only. At the deadline the child is ended, with whatever it started.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdtop.host.amdsmi_child import POOLS
from holdtop.model.values import Reading, Readings
from holdtop.payload import linux
from holdtop.payload.members import RUN_MARK, has_mark
from holdtop.payload.process import Pinned, ProcessTable, Stat, UnreadableProcess
from holdtop.sources.cards import PCI
from holdtop.sources.files import BYTES

#: How long the child may take in all, in seconds; a healthy library takes a tenth of it.
DEADLINE = 4.0
CHILD = "holdtop.host.amdsmi_child"
#: Bytes of an answer; a device takes less than 1 KiB.
LONGEST = 64 * 1024
#: Bytes kept of what the library prints, and characters of any one text.
_PRINTED, _TEXT = 2048, 200
#: How long a killed child may take to be gone, in seconds: one that the kernel holds fast is left behind.
_GONE = 1.0
_POLL = 0.02
#: What the library says of a text that it does not have.
_NOT_AVAILABLE = ("", "N/A")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the library says of one device."""

    pci_address: str
    market_name: str | None
    driver_version: str | None
    #: ``gtt_used_bytes`` and so on, for each of ``POOLS``.
    memory: Readings


@dataclass(frozen=True, slots=True)
class Answer:
    """All that the library says. Without ``why`` it did answer, be it of no device."""

    opinions: tuple[Opinion, ...] = ()
    why: str | None = None
    #: There is no library to ask.
    absent: bool = False


_NONSENSE = Answer(why="amdsmi's answer makes no sense")


class _NoAnswer(Exception):
    """Why, in one clause."""


def ask(deadline: float = DEADLINE) -> Answer:
    """Ask the library, for ``deadline`` seconds at most (and a second for ending what hangs). Never raises."""
    try:
        return understood(_heard(time.monotonic() + deadline))
    except _NoAnswer as error:
        return Answer(why=str(error))
    except OSError as error:
        return Answer(why=f"amdsmi's process cannot be started: {error.strerror}")


def _heard(until: float) -> bytes:
    """The one line that the child writes. Raises ``_NoAnswer``, and ``OSError`` when there can be no child."""
    mark = f"amdsmi-{uuid.uuid4().hex}"
    ours, theirs = os.pipe()
    linux.become_subreaper()  # what leaves the child's tree comes to us
    try:
        return _answer(ours, theirs, mark, until)
    finally:
        linux.become_subreaper(be=False)
        os.close(ours)


def _answer(ours: int, theirs: int, mark: str, until: float) -> bytes:
    try:
        child = _start(theirs, mark)
    finally:
        os.close(theirs)
    printed = bytearray()
    try:
        line = _line(ours, child, printed, until)
        ended = bool(line) or _has_ended(child, until)
    finally:
        _end(child, mark)
    if line:
        return line
    if not ended:
        raise _NoAnswer("amdsmi has not answered in time")
    raise _NoAnswer(f"amdsmi's process ended {_how(child)} without an answer{_after_words(printed)}")


def _start(fd: int, mark: str) -> subprocess.Popen[bytes]:
    """In a session of its own: no terminal's signal is meant for it. By its mark all that it starts is found again."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", CHILD, str(fd)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(fd,),
        env={**os.environ, RUN_MARK: ",".join(filter(None, (os.environ.get(RUN_MARK), mark)))},
        start_new_session=True,
    )


def _line(answer: int, child: subprocess.Popen[bytes], printed: bytearray, until: float) -> bytes:
    """What the child answers; empty when its descriptor is closed or time is up before the line ends.

    What it prints is taken off it meanwhile, and its beginning kept in ``printed``.
    """
    heard = bytearray()
    assert child.stdout is not None
    with selectors.DefaultSelector() as ready:
        ready.register(answer, selectors.EVENT_READ)
        ready.register(child.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in ready.select(left):
                data = os.read(key.fd, LONGEST)
                if key.fd != answer:
                    printed += data[: _PRINTED - len(printed)]
                    if not data:
                        ready.unregister(key.fd)
                    continue
                heard += data
                if len(heard) > LONGEST:
                    raise _NoAnswer(f"amdsmi answers without end (more than {LONGEST >> 10} KiB)")
                if not data or b"\n" in data:
                    return bytes(heard).partition(b"\n")[0] if data else b""
    return b""


def _has_ended(child: subprocess.Popen[bytes], until: float) -> bool:
    """Whether it ends by itself; it is not reaped yet."""
    pidfd = os.pidfd_open(child.pid)
    try:
        return bool(select.select([pidfd], [], [], max(0.0, until - time.monotonic()))[0])
    finally:
        os.close(pidfd)


def _end(child: subprocess.Popen[bytes], mark: str) -> None:
    """End it and whatever it has started, wherever that has gone: others of this process's children are not ours."""
    until = time.monotonic() + _GONE
    ours: set[int] = {child.pid}
    while (left := _left(ours, mark)) and time.monotonic() < until:
        for stat in left:
            ours.add(stat.pid)  # a zombie has no mark any more
            if not stat.dead:
                with contextlib.suppress(OSError, UnreadableProcess), Pinned(stat.identity) as process:
                    process.send(signal.SIGKILL)
            elif stat.pid != child.pid and stat.ppid == os.getpid():
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(stat.pid, os.WNOHANG)
        child.poll()
        time.sleep(_POLL)
    child.poll()
    if child.stdout is not None:
        child.stdout.close()


def _left(ours: Collection[int], mark: str) -> list[Stat]:
    table = ProcessTable()
    return [table.stats[pid] for pid in table.descendants(os.getpid()) if pid in ours or _is_marked(pid, mark)]


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return has_mark(pid, mark)
    except OSError:
        return False


def _how(child: subprocess.Popen[bytes]) -> str:
    status = child.returncode
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return f"by {signal.Signals(-status).name}"
    return f"with status {status}"


def _after_words(printed: bytearray) -> str:
    """The last line that was printed: of a traceback the error itself."""
    lines = os.fsdecode(bytes(printed)).split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f"; it said: {_one_line(last)}" if last else ""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_TEXT]


def understood(line: bytes) -> Answer:
    """What the child's line means, whoever wrote it. Never raises."""
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return _NONSENSE
    for key in ("absent", "failed"):
        if isinstance(why := said.get(key), str):
            return Answer(why=_one_line(why if key == "absent" else f"amdsmi failed: {why}"), absent=key == "absent")
    devices = said.get("devices")
    if not isinstance(devices, list) or not all(isinstance(one, dict) for one in devices):
        return _NONSENSE
    opinions = tuple(filter(None, map(_opinion, devices)))
    if len(opinions) < len(devices):
        return Answer(why="amdsmi names a device without a PCI address")
    return Answer(opinions)


def _opinion(said: Mapping[str, object]) -> Opinion | None:
    address = said.get("pci_address")
    if not isinstance(address, str) or not PCI.fullmatch(address.lower()):
        return None
    memory = said.get("memory")
    names = [f"{pool}_{kind}_bytes" for pool in POOLS for kind in ("used", "total")]
    return Opinion(
        address.lower(),
        _text(said.get("market_name")),
        _text(said.get("driver_version")),
        {name: _bytes(memory.get(name) if isinstance(memory, dict) else None) for name in names},
    )


def _text(said: object) -> str | None:
    value = said.get("value") if isinstance(said, dict) else None
    return _one_line(value) if isinstance(value, str) and value not in _NOT_AVAILABLE else None


def _bytes(said: object) -> Reading:
    """A number of bytes that a machine can have, or why there is none."""
    said = said if isinstance(said, dict) else {}
    value, why = said.get("value"), said.get("why")
    if isinstance(value, int) and not isinstance(value, bool) and BYTES[0] <= value <= BYTES[1]:
        return Reading(value=value, source="amdsmi")
    reason = _one_line(why) if isinstance(why, str) else "amdsmi gives no number of bytes"
    return Reading(why=reason, source="amdsmi")
