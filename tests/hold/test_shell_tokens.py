"""A shell's token that nobody frees by mistake: empty, garbled, a link; of a holder alive, dead or out of sight."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.hold import token
from holdtop.hold.files import Dir
from holdtop.hold.ticket import INITIAL_PIDNS
from holdtop.operator import execute, plan_recover
from holdtop.sources import users
from holdtop.sources.roots import Roots
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until
from tests.hold.peers import held_by, peer
from tests.hold.unkillable import UNREAPING, python
from tests.operator.box import shown

RECOVER = ("recover", "--reason", "test", "--yes")
#: Nobody's: above what the kernel gives out (pid_max is at most 2^22).
NOBODY = 4_194_303


def refused_to_waiter(state: Box) -> str:
    """What a waiter says before it gives up; it has changed nothing."""
    before = os.lstat(state.token)
    status, said = ended(state.run("true", options=["-w", "0.5"]))
    assert status == 121, said
    assert os.path.samestat(os.lstat(state.token), before)
    return said


def refused_to_operator(state: Box) -> str:
    before = os.lstat(state.token)
    done = state.verb(*RECOVER)
    assert done.returncode == 6, done
    assert os.path.samestat(os.lstat(state.token), before)
    return done.stderr


@pytest.fixture
def small() -> Iterator[Box]:
    """A state directory on a file system of its own that can be filled."""
    if os.geteuid() != 0:
        pytest.skip("needs root: mounts a small file system")
    top = Path(tempfile.mkdtemp(prefix="holdtop-small-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=2770", "none", str(top)], check=True)
    try:
        yield Box(top)
    finally:
        subprocess.run(["umount", str(top)], check=True)
        top.rmdir()


def test_an_empty_token_of_a_full_disk_is_held_and_freed_by_recover_only(small: Box) -> None:
    small.queue.mkdir()
    filler = small.state / "filler"
    with pytest.raises(OSError, match="No space"):
        filler.write_bytes(b"x" * (1 << 20))
    shell = peer(small, "sleep", NAP)
    until(small.token.exists)
    until(lambda: shell.poll() is None and _payload_of(shell.pid))
    assert small.token.read_bytes() == b"", "the shell holds by an empty file"
    filler.unlink()
    assert "it is empty" in (said := refused_to_waiter(small))
    assert "holdtop recover" in said
    flags = small.verb("status", "--plain").stdout
    assert "holdtop recover" in flags, "its remedy is shown"
    assert ended(peer(small, "-w", "0", "true"))[0] == 121, "another shell lane is kept out as well"
    shell.terminate()
    assert ended(shell)[0] == 143
    small.token.touch()  # that of a shell killed in the same place
    assert small.verb(*RECOVER).returncode == 0
    assert ended(small.run("true"))[0] == 0


def _payload_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()


@pytest.mark.parametrize(
    "content", [b"lane 12", b"lane\n", b"lane 0\n", b"lane -5\n", b"lane 99999999999\n", b"\xff\x00 \x1b[31m\n"]
)
def test_a_garbled_token_is_held_for_both_kinds(state: Box, content: bytes) -> None:
    state.queue.mkdir()
    state.token.write_bytes(content)
    assert "cannot be read" in refused_to_waiter(state)
    assert ended(peer(state, "-w", "0", "true"))[0] == 121
    assert state.token.read_bytes() == content


@pytest.mark.parametrize("target", ["victim", "missing", "/dev/null"])
def test_a_symlinked_token_is_held_and_neither_followed_nor_released(state: Box, tmp_path: Path, target: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text(f"lane {NOBODY}\n")
    state.queue.mkdir()
    state.token.symlink_to(tmp_path / target)
    assert "is a link" in refused_to_waiter(state)
    assert state.token.is_symlink()
    assert os.readlink(state.token) == str(tmp_path / target)
    assert victim.read_text() == f"lane {NOBODY}\n"
    assert not (tmp_path / "missing").exists()


def test_a_hold_whose_token_became_a_link_leaves_it(state: Box, tmp_path: Path) -> None:
    lane = state.run("sleep", NAP)
    state.until_running()
    moved, link = tmp_path / "moved", tmp_path / "link"
    os.link(state.token, moved)
    link.symlink_to(moved)
    link.replace(state.token)
    status, said = ended(lane)
    assert status == 125, said
    assert state.token.is_symlink()
    assert moved.exists()


def test_a_living_shells_token_is_nobodys_to_free(state: Box) -> None:
    shell = peer(state, "sleep", NAP)
    held_by(state, shell)
    assert "not seen from here" not in refused_to_waiter(state)
    assert refused_to_operator(state)
    shell.terminate()
    assert ended(shell)[0] == 143


def test_a_killed_shells_token_is_freed_by_recover_when_its_pid_is_gone(state: Box) -> None:
    shell = peer(state, "sleep", NAP, stderr=subprocess.DEVNULL)
    held_by(state, shell)
    (payload,) = until(lambda: _payload_of(shell.pid).split())
    shell.kill()
    shell.wait()
    assert "not seen from here" in (said := refused_to_waiter(state)), "nothing proves that its payload is dead"
    assert "holdtop recover" in said
    os.kill(int(payload), 9)
    if os.stat("/proc/self/ns/pid").st_ino != INITIAL_PIDNS:
        assert "initial pid namespace" in refused_to_operator(state)
        return
    if not users.scan(Roots()).denied:
        done = state.verb(*RECOVER)
        assert done.returncode == 0, done
    else:  # even root may not see here who uses the device: told so, it stays; by a look that saw all, it goes
        assert "could not be looked into" in refused_to_operator(state)
        assert execute(plan_recover(shown(state), "gpu", state_dir=str(state.state)), reason="dead").status == 0
    assert ended(state.run("true"))[0] == 0
    assert state.leftovers() == [f"job.shell.{shell.pid}"], "a foreign entry is removed by an explicit evict only"


def test_a_zombie_or_recycled_pid_is_alive(state: Box) -> None:
    state.queue.mkdir()
    with subprocess.Popen(python(UNREAPING, NAP)) as parent:
        dead = int(until(lambda: _payload_of(parent.pid)))
        for pid in (dead, parent.pid):  # the second is somebody who has the number by now
            state.token.write_text(f"lane {pid}\n")
            assert "not seen from here" not in refused_to_waiter(state)
            assert refused_to_operator(state)
        parent.kill()


def test_another_accounts_living_shell_is_not_freed(state: Box) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: acts as other accounts")
    with subprocess.Popen(["setpriv", "--reuid", "54701", "--clear-groups", "sleep", NAP]) as shell:
        state.queue.mkdir()
        state.token.write_text(f"lane {shell.pid}\n")
        os.chown(state.token, 54_701, -1)
        refused_to_waiter(state)
        assert refused_to_operator(state)
        shell.kill()


def test_a_pid_that_is_not_seen_from_a_pid_namespace_is_not_freed_there(state: Box) -> None:
    if os.geteuid() != 0 or not shutil.which("unshare"):
        pytest.skip("needs unshare: makes a pid namespace")
    shell = peer(state, "sleep", NAP)
    held_by(state, shell)
    before = state.token.read_bytes()
    assert _in_a_pid_namespace(state, *RECOVER)[0] == 6
    status, said = _in_a_pid_namespace(state, "run", "-w", "0.5", "--", "true")
    assert status == 121, said
    assert f"pid {shell.pid}" in said
    assert state.token.read_bytes() == before
    shell.terminate()
    assert ended(shell)[0] == 143


def _in_a_pid_namespace(state: Box, verb: str, *words: str) -> tuple[int, str]:
    """Exit status and stderr; not as the namespace's init, which no hold can be."""
    command = [*HOLDTOP, verb, "--state-dir", str(state.state), *words]
    done = subprocess.run(
        ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def test_a_shell_that_takes_between_the_look_and_the_exchange_keeps_its_token(state: Box) -> None:
    state.token.write_text("lane 1\n")
    with Dir.root(str(state.state)) as directory:
        seen = token.look(directory, state.token.name)
        assert seen
        with token.pinned(directory, state.token.name):
            state.token.unlink()
            shell = peer(state, "sleep", NAP)
            held_by(state, shell)
            before = os.lstat(state.token)
            assert token.exchange_for(directory, state.token.name, b"ours", seen, keep_as=None) is None
    assert os.path.samestat(os.lstat(state.token), before)
    shell.terminate()
    assert ended(shell)[0] == 143
    assert state.leftovers() == []
