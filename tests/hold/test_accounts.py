"""Two accounts and one queue: both take turns whatever their umask, and a denial is never called contention."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hold.lanes import NAP, Box, until

DRIVER = str(Path(__file__).with_name("as_account.py"))
GROUP = 54_711
ONE, OTHER, OUTSIDER = 54_701, 54_702, 54_703


@pytest.fixture
def shared() -> Iterator[Box]:
    """A state directory of a group, where every account can reach it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: acts as other accounts")
    top = Path(tempfile.mkdtemp(prefix="holdtop-accounts-"))
    top.chmod(0o755)
    state = top / "state"
    state.mkdir()
    os.chown(state, 0, GROUP)
    state.chmod(0o2770)
    yield Box(state)
    shutil.rmtree(top)


def as_account(
    uid: int,
    box: Box,
    *words: str,
    umask: str = "022",
    group: bool = True,
    popen: Callable[..., subprocess.Popen[str]] = subprocess.Popen,
    **kwargs: Any,
) -> subprocess.Popen[str]:
    command = [sys.executable, DRIVER, str(uid), str(GROUP) if group else "", umask]
    return popen(
        [*command, words[0], "--state-dir", str(box.state), *words[1:]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        env={**os.environ, "HOME": "/nonexistent"},
        **kwargs,
    )


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


@pytest.mark.parametrize(("first", "second"), [(ONE, OTHER), (OTHER, ONE), (ONE, 0), (0, ONE)])
@pytest.mark.parametrize("umask", ["077", "022", "000"])
def test_both_take_turns_whatever_their_umask(shared: Box, first: int, second: int, umask: str) -> None:
    holder = as_account(first, shared, "run", "--", "sleep", NAP, umask=umask)
    shared.until_running()
    waiter = as_account(second, shared, "run", "--", "true", umask="077")
    until(lambda: len(shared.tickets()) == 2)
    holder.terminate()
    assert said(holder)[0] == 143
    status, errors = said(waiter)
    assert status == 0, errors
    assert said(as_account(first, shared, "run", "--", "true"))[0] == 0
    for path in (shared.state, *shared.state.rglob("*")):
        mode = path.lstat().st_mode
        assert not mode & stat.S_IWOTH, path
        assert path.lstat().st_gid == GROUP, path


def test_one_may_evict_the_others_waiting_ticket(shared: Box) -> None:
    holder = as_account(ONE, shared, "run", "--", "sleep", NAP)
    shared.until_running()
    waiter = as_account(ONE, shared, "run", "--", "true")
    until(lambda: len(shared.tickets()) == 2)
    subprocess.run(
        ["setpriv", "--reuid", str(OTHER), "--groups", str(GROUP), "rm", str(shared.queue / shared.tickets()[1])],
        check=True,
    )
    assert said(waiter)[0] == 120
    holder.terminate()
    said(holder)


@pytest.mark.parametrize(("mode", "group"), [(0o2750, True), (0o2770, False)])
def test_a_denial_is_said_at_once_with_owner_mode_and_groups(shared: Box, mode: int, group: bool) -> None:
    assert said(as_account(ONE, shared, "run", "--", "true"))[0] == 0
    for path in (shared.state, shared.queue):
        path.chmod(mode)
    status, errors = said(
        as_account(OTHER if group else OUTSIDER, shared, "run", "-w", "60", "--", "true", group=group)
    )
    assert status == 125
    assert "ermission denied" in errors
    assert f"mode {mode:04o}" in errors
    assert str(GROUP) in errors
    assert "timed out" not in errors
    assert "held by" not in errors


def test_a_ghost_of_another_account_is_freed_only_after_the_wait(shared: Box) -> None:
    holder = as_account(ONE, shared, "run", "--", "sleep", NAP)
    started = shared.until_running()
    keeper = started["keeper_pid"]
    os.kill(keeper, 19)
    holder.kill()
    os.kill(keeper, 9)
    holder.wait()
    waiter = as_account(OTHER, shared, "run", "--survive-wait", "2", "-w", "3", "--", "true")
    status, errors = said(waiter)
    assert status == 121, "its payload lives and is not ours to signal"
    assert str(ONE) in errors
    assert said(as_account(ONE, shared, "run", "--grace", "1", "--", "true"))[0] == 0, "its own account frees it"
    for pipe in (holder.stdout, holder.stderr):
        assert pipe
        pipe.close()
