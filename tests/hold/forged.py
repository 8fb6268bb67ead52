"""What a member of the group may write into a state: tickets, tokens, records and requests that say what is not so."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.payload.process import Identity
from tests.hold.lanes import NAP, Box, ended, identity
from tests.hold.test_accounts import GROUP

#: A member that runs what nobody has read, and one that nothing else is known of.
ATTACKER, CI = 54_712, 54_714
NAMES = {
    "queue": (".lock", ".sequence", ".receipts.jsonl", ".gpu-hold-survivors"),
    "state": ("gpu-token", "npu.lock", ".new-gpu-token"),
}


def as_member(uid: int, work: Callable[[], object]) -> None:
    """``work`` in a fork of this process with a member's ids: what it does here, a member can do."""
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):
            os.setgroups([GROUP])
            os.setresgid(GROUP, GROUP, GROUP)
            os.setresuid(uid, uid, uid)
            work()
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "a member cannot do that"


@contextlib.contextmanager
def running(uid: int = 0, *words: str, **kwargs: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A process of that account, which is nobody's payload."""
    if uid:
        kwargs |= {"user": uid, "group": GROUP, "extra_groups": [GROUP]}
    with subprocess.Popen(words or ("sleep", NAP), stdin=subprocess.DEVNULL, **kwargs) as process:
        try:
            yield process
        finally:
            process.kill()


def gone() -> Identity:
    """A process that was, and is no more."""
    with running() as process:
        return identity(process.pid)


def begin(box: Box) -> None:
    """The queue and its files, made by root as the first to use them."""
    assert ended(box.run("true"))[0] == 0


def lines(hold: Identity, **changes: str) -> dict[str, str]:
    """A ticket's lines about that process as the hold, here and now."""
    said = {
        "v": tickets.FORMAT,
        "id": f"0000000900-{hold.pid}",
        "nonce": os.urandom(16).hex(),
        "resource": "gpu",
        "lane": "forged",
        "pid": str(hold.pid),
        "start": str(hold.start_ticks),
        "pidns": str(tickets.namespace("pid")),
        "timens": str(tickets.namespace("time")),
        "boot": tickets.boot_id(),
        "host": os.uname().nodename,
    }
    return said | changes


def write(path: Path, data: bytes, uid: int = ATTACKER) -> None:
    """As that account would have: its file, with the group and mode of ours."""
    path.parent.mkdir(mode=0o2770, exist_ok=True)
    path.write_bytes(data)
    os.chown(path, uid, GROUP)
    path.chmod(0o640)


def ticket(box: Box, said: Mapping[str, str], uid: int = ATTACKER) -> Path:
    path = box.queue / said["id"]
    write(path, tickets.encode(said), uid)
    return path


def token_data(said: Mapping[str, str]) -> bytes:
    return f"{tickets.escape(said['lane']) or '-'} {said['pid']} {tickets.now()}\n".encode() + tickets.encode(said)


def token(box: Box, said: Mapping[str, str], uid: int = ATTACKER) -> None:
    write(box.token, token_data(said), uid)


def record_data(said: Mapping[str, str], *members: Identity, **more: Any) -> bytes:
    processes = [{"pid": one.pid, "start_ticks": one.start_ticks, "name": "x"} for one in members]
    content = {"ticket": said["id"], "nonce": said["nonce"], "state": "running", "members": processes}
    return json.dumps(content | more).encode()


def record(box: Box, said: Mapping[str, str], *members: Identity, uid: int = ATTACKER, **more: Any) -> None:
    write(box.queue / ".record" / f"{said['id']}.json", record_data(said, *members, **more), uid)


def ghost(box: Box, *members: Identity, uid: int = ATTACKER, **more: Any) -> dict[str, str]:
    """A dead hold of that account, with its token, ticket and record."""
    said = lines(gone())
    ticket(box, said, uid)
    token(box, said, uid)
    record(box, said, *members, uid=uid, **more)
    return said


def survivors(box: Box, *members: Identity, uid: int = ATTACKER) -> None:
    processes = [{"pid": one.pid, "start_ticks": one.start_ticks, "name": "x"} for one in members]
    said = {"ticket": "0000000900-77", "lane": "l", "released_at": "", "why": ["unkillable"], "processes": processes}
    write(box.queue / ".survivors" / "0000000900-77.json", json.dumps(said).encode(), uid)


def locked(path: Path) -> int:
    """Hold a life lock on it, as its owner can; close the descriptor to let go."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    tickets.lock_life(fd)
    return fd


def queue(box: Box) -> Dir:
    return Dir.root(str(box.queue))
