"""Whose word counts: requests by author, files that others may write or have moved, tickets about strangers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from holdtop.hold import audit, record, stop, survivors
from holdtop.hold import queue as queues
from holdtop.hold import ticket as tickets
from holdtop.hold import token as tokens
from holdtop.hold.files import Dir
from holdtop.payload.process import ProcessTable, is_alive
from tests.hold.forged import (
    ATTACKER,
    CI,
    as_member,
    begin,
    gone,
    lines,
    locked,
    queue,
    record_data,
    ticket,
    token,
    token_data,
    write,
)
from tests.hold.lanes import NAP, Box, ended, identity, kill_both, sleepers, stop_both, until
from tests.hold.test_accounts import ONE, OTHER, as_account, said, shared

__all__ = ["shared"]

#: What a hold needs to see that nothing has been asked of it, in seconds: it looks once in each.
A_LOOK = 1.2


def with_operator(box: Box, uid: int) -> Any:
    """For ``as_account``: where the system's configuration names that operator."""
    etc = box.state.parent / "etc"
    if not etc.exists():
        (etc / "holdtop").mkdir(parents=True)
        for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"/etc/{name}", etc)
        (etc / "holdtop" / "config.toml").write_text(f"operators = ['{uid}']\n")

    def start(command: list[str], **kwargs: Any) -> subprocess.Popen[str]:
        script = 'mount --bind "$0" /etc && exec "$@"'
        return subprocess.Popen(["unshare", "-m", "sh", "-c", script, str(etc), *command], **kwargs)

    return start


def ask(box: Box, author: int, ticket_id: str) -> None:
    """A stop request for that hold, made by that account."""
    with queue(box) as there:
        nonce = tickets.read(there, ticket_id).nonce
        if author == 0:
            stop.request(there, ticket_id, nonce, "asked")
        else:
            as_member(author, lambda: stop.request(there, ticket_id, nonce, "asked"))


@pytest.mark.parametrize(("owner", "author"), [(ONE, "own"), (ONE, "root"), (ONE, "operator"), (0, "operator")])
def test_cannot_stop_as_somebody_else(shared: Box, owner: int, author: str) -> None:
    """The account of a CI job and a member's own configuration stop nobody; own account, root and operators do."""
    lane = as_account(owner, shared, "run", "--grace", "0.5", "--", "sleep", NAP, popen=with_operator(shared, OTHER))
    started = shared.until_running()
    for stranger in (CI, ATTACKER) if owner == 0 else (CI,):
        ask(shared, stranger, started["ticket"])
    time.sleep(A_LOOK)
    assert lane.poll() is None
    who = {"own": owner, "root": 0, "operator": OTHER}[author]
    ask(shared, who, started["ticket"])
    status, errors = said(lane)
    assert status == 130
    assert f"stopped by {stop.user_name(who)}: asked" in errors


@pytest.mark.parametrize("asks_as", ["request", "record", "survivors", "token", "ticket"])
def test_cannot_speak_by_a_renamed_log(shared: Box, asks_as: str) -> None:
    """A log that root made is for all to write, and a member may rename it: it is not root's word then."""
    begin(shared)
    said = lines(gone())
    log = shared.queue / ".receipts.jsonl"
    assert log.stat().st_uid == 0
    to, content = {
        "request": (shared.queue / ".stop" / f"{said['id']}.x", tickets.encode(said | _bound(shared))),
        "record": (shared.queue / ".record" / f"{said['id']}.json", record_data(said)),
        "survivors": (
            shared.queue / ".survivors" / f"{said['id']}.json",
            record_data(said, processes=[asdict(identity(os.getpid()))]),
        ),
        "token": (shared.token, token_data(said)),
        "ticket": (shared.queue / said["id"], tickets.encode(said)),
    }[asks_as]

    def forge() -> None:
        with contextlib.suppress(FileExistsError):
            to.parent.mkdir()
        log.write_bytes(content)
        log.rename(to)

    as_member(ATTACKER, forge)
    assert to.stat().st_uid == 0
    with queue(shared) as there, Dir.root(str(shared.state)) as state:
        looks: dict[str, Callable[[], object]] = {
            "request": lambda: stop.find(there, said["id"], said["nonce"], lambda uid: uid == 0) or stop.pending(there),
            "record": lambda: record.read(there, said["id"]),
            "survivors": lambda: survivors.lasting(there),
            "token": lambda: (found := tokens.look(state, "gpu-token")) and (found.ghost or found.ticket),
            "ticket": lambda: queues.look(there)[0],
        }
        assert not looks[asks_as]()
        to.chmod(0o640)  # what would have been root's own word
        assert looks[asks_as](), "the forgery was well made"


def _bound(box: Box) -> dict[str, str]:
    return {"queue": str(box.queue.stat().st_ino)}


def test_cannot_move_a_request(shared: Box) -> None:
    """Root stops the attacker's own hold of another resource; that request, moved, stops nobody here."""
    lane = as_account(ONE, shared, "run", "--grace", "0.5", "--", "sleep", NAP)
    started = shared.until_running()
    with queue(shared) as there:
        nonce = tickets.read(there, started["ticket"]).nonce
    elsewhere = shared.state / "npu-queue"
    as_member(ATTACKER, lambda: (elsewhere / ".stop").mkdir(parents=True))
    with Dir.root(str(elsewhere)) as other:
        stop.request(other, started["ticket"], nonce, "root meant another hold")
    as_member(ATTACKER, lambda: (elsewhere / ".stop").rename(shared.queue / ".stop"))
    (moved,) = (shared.queue / ".stop").iterdir()
    assert moved.stat().st_uid == 0
    time.sleep(A_LOOK)
    assert lane.poll() is None
    lane.terminate()
    assert said(lane)[0] == 143


def test_cannot_make_a_living_hold_dead(shared: Box) -> None:
    """Its ticket replaced by a dead one of the same name, its record gone: the token's own lock and pid decide."""
    lane = as_account(ONE, shared, "run", "--grace", "0.5", "--", "sleep", NAP)
    started = shared.until_running()
    keeper, supervisor = started["keeper_pid"], lane.pid
    stop_both(supervisor, keeper)
    there = tickets.decode((shared.queue / started["ticket"]).read_bytes())

    def forge() -> None:
        (shared.queue / started["ticket"]).unlink()
        shutil.rmtree(shared.queue / ".record", ignore_errors=True)

    try:
        as_member(ATTACKER, forge)
        ticket(shared, there | {"boot": "another"})
        with queue(shared) as opened:
            assert tickets.read(opened, started["ticket"]).dead
        # Whoever may signal it would continue it, and it would end as one that was evicted.
        status, errors = said(as_account(ATTACKER, shared, "run", "-w", "1", "--", "true"))
        assert status == 121, errors
        assert shared.verb("recover", "--reason", "test", "--yes").returncode == 6
        assert sleepers()
    finally:
        os.kill(supervisor, signal.SIGCONT)
        os.kill(keeper, signal.SIGCONT)
    lane.kill()
    said(lane)
    until(lambda: not sleepers())


def test_cannot_fake_a_sign_of_life(shared: Box) -> None:
    """Who can only read a token has no lock on it that counts: it keeps no ghost alive, and lets nobody die."""
    lane = as_account(ONE, shared, "run", "--", "sleep", NAP, umask="022")
    started = shared.until_running()

    def lock() -> None:
        fd = os.open(shared.token, os.O_RDONLY)
        with pytest.raises(OSError, match="temporarily unavailable"):
            fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
        with pytest.raises(PermissionError):
            os.open(shared.token, os.O_RDWR)

    as_member(ATTACKER, lock)
    fd = os.open(shared.token, os.O_RDONLY)
    kill_both(lane, started["keeper_pid"])
    until(lambda: not tickets.is_locked(fd))
    fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
    assert ended(shared.run("true", options=["-w", "5", "--grace", "0.3"]))[0] == 0
    os.close(fd)
    for pipe in (lane.stdout, lane.stderr):
        assert pipe
        pipe.close()


def test_cannot_be_the_hold_above_a_stranger(shared: Box) -> None:
    """A token that names an ancestor of somebody's run, locked: it is not nested, and waits."""
    begin(shared)
    forged = lines(identity(os.getpid()))
    token(shared, forged)
    fd = locked(shared.token)
    status, errors = ended(shared.run("true", options=["-w", "0"]))
    assert status == 121, errors
    assert "nested" not in errors
    os.close(fd)


def test_cannot_have_a_payload_spared(shared: Box) -> None:
    """A locked ticket that names a process of somebody's payload does not make it the hold of another lane."""
    lane = as_account(ONE, shared, "run", "--grace", "0.5", "--", "sh", "-c", f"setsid -f sleep {NAP}; sleep {NAP}; :")
    shared.until_running()
    keeper = shared.until_running()["keeper_pid"]
    (detached,) = until(lambda: _session_leaders_below(keeper))
    forged = ticket(shared, lines(identity(detached)))
    fd = locked(forged)
    victim = identity(detached)
    lane.terminate()
    said(lane)
    assert is_alive(victim) is False
    os.close(fd)
    forged.unlink()


@pytest.mark.parametrize("held", ["token", "record"])
def test_cannot_hold_by_anothers_process(shared: Box, held: str) -> None:
    """Neither a token nor a record says anything by naming it, and nothing is said to have been done to it."""
    begin(shared)
    with subprocess.Popen(["sleep", NAP]) as stranger:
        said = lines(identity(stranger.pid))
        if held == "token":
            token(shared, said)
            kill = shared.verb("kill", said["id"], "--reason", "test", "--yes", "--grace", "0.1")
            assert kill.returncode in (6, 7)
            assert "killed" not in kill.stdout + kill.stderr
            assert shared.verb("recover", "--reason", "test", "--yes").returncode == 0
        else:
            data = record_data(said, lines=tickets.encode(said).decode())
            write(shared.queue / ".record" / f"{said['id']}.json", data)
        assert ended(shared.run("true", options=["-w", "10"]))[0] == 0
        assert stranger.poll() is None
        stranger.kill()


def _session_leaders_below(pid: int) -> list[int]:
    table = ProcessTable()
    return [below for below in table.descendants(pid) if table.stats[below].session == below]


def test_cannot_sign_the_audit_for_another(shared: Box) -> None:
    begin(shared)
    genuine = audit.sealed({"seq": 1, "prev": audit.FIRST, "uid": 0, "verb": "kill", "at": tickets.now()})
    write(shared.queue / ".audit" / "0.jsonl", audit.canonical(genuine) + b"\n")
    (shared.queue / "lane-77").touch()
    evict = ["evict", "lane-77", "--reason", "test", "--yes"]
    assert shared.verb(*evict).returncode == 6
    assert (shared.queue / "lane-77").exists()
    verify = shared.verb("audit", "verify")
    assert verify.returncode == 1
    assert f"belongs to uid {ATTACKER}" in verify.stdout
    assert "kill" not in shared.verb("audit").stdout
