"""What a member puts in the place of a file of the state: nothing of it is followed, waited for, written or shown."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdtop.hold.inotify import Watch
from tests.hold.forged import ATTACKER, as_member, begin, ghost, gone, lines, record, ticket, token, write
from tests.hold.lanes import NAP, Box, ended
from tests.hold.test_accounts import GROUP, ONE, OTHER, as_account, said, shared

__all__ = ["shared"]

SECRET = "correct-horse"
#: A well-formed shell token, the most that is ever shown of a file that is none of ours.
CONTENT = f"{SECRET} 1234\nv={SECRET}\nid={SECRET}\n"
ID = "0000000900-77"
IN_QUEUE = (
    *(ID, "lane-77", ".sequence", ".receipts.jsonl", ".gpu-hold-survivors", ".new-.sequence"),
    *(f".record/{ID}.json", f".survivors/{ID}.json", f".stop/{ID}.x", f".claim/{ID}"),
    *(".log/events.jsonl", ".log/events.1.jsonl", ".audit/0.jsonl"),
)
#: The whole command line of every verb that looks or acts, in one process.
VERBS = (
    *(["status"], ["status", "--json"], ["audit"], ["audit", "verify"], ["recover", "--reason", "r", "--yes"]),
    *(["evict", ID, "--reason", "r", "--yes"], ["kill", ID, "--reason", "r", "--yes"]),
)
CALLS = """
import sys, traceback
from holdtop.cli.main import main
for line in sys.argv[2:]:
    verb, *rest = line.split()
    print("==", line, main([verb, "--state-dir", sys.argv[1], *rest]), flush=True)
"""


def verbs(box: Box, limit_bytes: int = resource.RLIM_INFINITY) -> str:
    """What root is told by all of them. Fails when one hangs, or is surprised."""
    done = subprocess.run(
        [sys.executable, "-c", CALLS, str(box.state), *map(" ".join, VERBS)],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes)),
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "internal" not in done.stderr
    assert done.stdout.count("==") == len(VERBS)
    return done.stdout + done.stderr


def lane(box: Box, *options: str) -> tuple[int, str]:
    status, errors = ended(box.run("true", options=["-w", "0", *options]))
    assert "Traceback" not in errors
    assert "internal" not in errors
    return status, errors


def symlink(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def hard_link(path: Path, victim: Path) -> None:
    """To a copy of its own: of two names, which the token may have. As where fs.protected_hardlinks is 0."""
    copy = shutil.copy(victim, f"{victim}{len(list(victim.parent.glob(f'{victim.name}*')))}")
    os.chmod(copy, 0o600)
    path.hardlink_to(copy)


def fifo(path: Path, victim: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path, victim: Path) -> None:
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


def directory(path: Path, victim: Path) -> None:
    path.mkdir()


def sparse(path: Path, victim: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)
    os.chown(path, ATTACKER, GROUP)


def everywhere(box: Box, plant: Callable[[Path, Path], None], victim: Path) -> None:
    for path in (box.token, box.state / "npu.lock", box.state / ".new-gpu-token", box.queue / ".lock"):
        path.unlink(missing_ok=True)
        plant(path, victim)
    for name in IN_QUEUE:
        path = box.queue / name
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        plant(path, victim)


def through_all(box: Box, limit_bytes: int = resource.RLIM_INFINITY) -> str:
    """All verbs, and lanes with ever less in their way. Gives all that was said."""
    heard = verbs(box, limit_bytes)
    for cleared in (None, box.token, box.queue / ".lock", box.queue / ".new-.sequence"):
        with contextlib.suppress(IsADirectoryError, FileNotFoundError):
            if cleared:
                cleared.unlink()
        if cleared and cleared.is_dir():
            cleared.rmdir()
        status, errors = lane(box)
        assert status in (0, 121, 125), errors
        heard += errors
    status, errors = lane(box, "-r", "npu")
    assert (status == 125) is not stat.S_ISREG((box.state / "npu.lock").lstat().st_mode) or "hard links" in errors
    return heard + errors


def readable(box: Box) -> str:
    """All that the group may read in the state."""
    found = [p for p in box.state.rglob("*") if p.is_file() and not p.is_symlink() and p.stat().st_size < 1 << 20]
    return "".join(p.read_text(errors="replace") for p in found if p.stat().st_mode & stat.S_IRGRP)


@pytest.mark.parametrize("plant", [symlink, hard_link])
def test_cannot_reach_outside_by_a_link(shared: Box, plant: Callable[[Path, Path], None]) -> None:
    begin(shared)
    victim = shared.state.parent / "secret"
    victim.write_text(CONTENT)
    victim.chmod(0o600)
    everywhere(shared, plant, victim)
    before = _files(victim)
    heard = through_all(shared)
    assert _files(victim) == before
    assert SECRET not in heard
    assert SECRET not in readable(shared)


def _files(victim: Path) -> dict[Path, tuple[object, ...]]:
    """The victim and its copies: content, mode, owner, group and time of change."""
    found = sorted(victim.parent.glob(f"{victim.name}*"))
    return {p: (p.read_text(), p.stat().st_mode, p.stat().st_uid, p.stat().st_gid, p.stat().st_mtime_ns) for p in found}


@pytest.mark.parametrize("plant", [fifo, unix_socket, directory])
def test_cannot_block(shared: Box, plant: Callable[[Path, Path], None]) -> None:
    begin(shared)
    everywhere(shared, plant, shared.state)
    through_all(shared)


def test_cannot_fill_a_memory(shared: Box) -> None:
    begin(shared)
    everywhere(shared, sparse, shared.state)
    nested = b"[" * 60_000
    write(shared.queue / ".record" / "0000000901-77.json", nested)
    bomb = b"[" + b"{}," * 5_000_000 + b"{}]\n"
    write(shared.queue / ".audit" / f"{ATTACKER}.jsonl", bomb)
    through_all(shared, 1 << 30)  # of addresses: each thread reserves some 70 MiB of them


DIRECTORIES = [".record", ".stop", ".claim", ".survivors", ".log", ".audit"]


@pytest.mark.parametrize("names", [DIRECTORIES, ["."]])
def test_cannot_swap_a_directory(shared: Box, names: list[str]) -> None:
    """Each a link to a directory elsewhere, or the queue itself: nothing is made, removed or changed in there."""
    begin(shared)
    outside = shared.state.parent / "outside"
    for name in ("", *DIRECTORIES):
        (outside / name).mkdir(mode=0o755)
    for name in (f"{ID}.json", ID, f"{ID}.x", "events.jsonl", "0.jsonl"):
        for below in ("", *DIRECTORIES):
            (outside / below / name).write_text("theirs")
    before = {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in outside.rglob("*")}
    for name in names:
        path = shared.queue / name
        with contextlib.suppress(FileNotFoundError):
            path.resolve().rename(shared.state / f"was-{len(name)}{name.strip('.')}")
        path.symlink_to(outside)
    verbs(shared)
    assert lane(shared)[0] == 125, "without a record of it nothing is started"
    assert {path: (path.lstat().st_mode, path.lstat().st_mtime_ns) for path in outside.rglob("*")} == before


def test_cannot_crash(shared: Box) -> None:
    """A ghost of the attacker's with every field of its record, and more, as odd as the form allows."""
    begin(shared)
    numbers: list[object] = [1 << 62, -1, 1e308, "nan", "9" * 5000]
    for value in (*numbers, "\udcff", "/\ud800", None, [], {}, "0001-01-01T00:00:00"):
        text = str(value).replace("\ud800", "\udcff")
        said = lines(gone(), lane=text, queued=text, cwd=text, cmd=text, limits=f"grace={text} max-hold={text}")
        ticket(shared, said)
        token(shared, said)
        fields = ("keeper_pid", "root_pid", "root_start_ticks", "deadline_at", "taken_at", "limits", "at")
        groups = [{"path": value, "inode": 1, "sole": True}, {"path": "/", "inode": value, "sole": True}]
        more: dict[str, Any] = dict.fromkeys(fields, value)
        record(shared, said, cgroups=groups, **more)
    verbs(shared)
    status, errors = lane(shared)
    assert status == 0, errors


def test_cannot_delay_a_deadline(shared: Box) -> None:
    """Thousands of requests that count for nothing, and more without end."""
    holder = as_account(ONE, shared, "run", "--max-hold", "2", "--grace", "0.5", "--", "sleep", NAP)
    started = shared.until_running()
    stops = shared.queue / ".stop"
    flood = "import sys, itertools\nfor n in itertools.count(): open(f'{sys.argv[1]}.{n % 5000}', 'w').close()"
    as_member(ATTACKER, stops.mkdir)
    with subprocess.Popen([sys.executable, "-c", flood, stops / started["ticket"]]) as flooding:
        status, errors = said(holder)
        flooding.kill()
    assert status == 124, errors
    endless = Watch()
    endless._fd = os.open("/dev/zero", os.O_RDONLY)
    drained = threading.Thread(target=endless.drain, daemon=True)
    drained.start()
    drained.join(10)
    assert not drained.is_alive(), "events that come as fast as they are read keep a hold from its deadline"
    endless.close()


@pytest.mark.parametrize("who", [OTHER, 0])
def test_cannot_hide_why(shared: Box, who: int) -> None:
    """In a sticky directory nobody but its owner and root may remove a ghost's token: root does, others are told."""
    begin(shared)
    ghost(shared)
    shared.state.chmod(0o3770)
    os.chown(shared.state, ONE, GROUP)
    status, errors = said(as_account(who, shared, "run", "-w", "1", "--survive-wait", "0", "--", "true"))
    assert status == (125 if who else 0), errors
    assert ("mode 3770" in errors) is bool(who)


@pytest.mark.parametrize(("where", "mode", "mend"), [("", 0o777, "o-w"), ("", 0o3777, "o-w"), ("..", 0o775, "g-w")])
def test_cannot_let_strangers_in_unseen(shared: Box, where: str, mode: int, mend: str) -> None:
    """Whoever opens the state's directory, or one above it, to others: every hold and ``status`` name it."""
    begin(shared)
    path = Path(os.path.normpath(shared.state / where))
    path.chmod(mode)
    status, errors = lane(shared)
    assert status == 0, errors
    said = f"chmod {mend} {path}"
    assert said in errors
    assert said in shared.verb("status").stdout
    path.chmod(0o2770 if where == "" else 0o755)
    assert "chmod" not in lane(shared)[1]
    assert "exposed" not in shared.verb("status").stdout
