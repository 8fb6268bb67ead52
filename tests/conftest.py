"""What every test gets: a box of its own, and the duty to leave no process behind.

A test never sees the state, the home, the configuration or the variables of whoever runs it, and a process
that a test starts inherits a mark by which it is found again. A skip is allowed only when its reason stands
in ``allowed_skips.txt``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.payload.process import Identity, Pinned, ProcessTable, Stat

#: Machines are shared: how long an example takes says nothing about the code.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")

AnyReport = TypeVar("AnyReport", pytest.TestReport, pytest.CollectReport)

#: In the environment of every process that a test starts; its value is the test's own.
MARK = "TEST_LEFTOVER_MARK"
#: How long a test's processes may take to be gone after the test, in seconds.
LEFTOVER_PATIENCE = 3.0

_FOREIGN_PREFIXES = (
    *("GPU_", "NPU_", "HOLDTOP_", "ONEBIT_"),
    *("TEXTUAL", "XDG_", "DBUS_", "TMUX", "MAKE", "MFLAGS"),
    *("GITHUB_", "GITLAB_", "RUNNER_", "CI_"),
)
_FOREIGN_NAMES = {"HW_GATE_LOCK", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "CLICOLOR", "CI"}
_ALLOWED_SKIPS = tuple(
    line
    for line in (Path(__file__).parent / "allowed_skips.txt").read_text().splitlines()
    if line and not line.startswith("#")
)


def pytest_sessionstart() -> None:
    """Refuse where somebody's real state lies: no variable keeps every test out of the default place.

    Started in the background, everything would inherit that SIGINT and SIGQUIT are ignored.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    if Path(DEFAULT_STATE_DIR).is_dir():
        pytest.exit(
            f"{DEFAULT_STATE_DIR} exists: these tests would touch real state. Hide it from them: "
            "unshare -rm sh -c 'mount -t tmpfs none /var/lib && exec make test'",
            returncode=4,
        )


def _foreign(name: str) -> bool:
    return name in _FOREIGN_NAMES or name.startswith(_FOREIGN_PREFIXES) or name.endswith(("_QUEUE_DIR", "_TOKEN_FILE"))


@pytest.fixture(autouse=True)
def box(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private home and working directory; none of the caller's variables that holdtop or Textual follow."""
    root = tmp_path_factory.mktemp("box")
    for name in filter(_foreign, list(os.environ)):
        monkeypatch.delenv(name)
    for name in ("home", "cwd"):
        (root / name).mkdir()
    monkeypatch.setenv("HOME", str(root / "home"))
    monkeypatch.chdir(root / "cwd")
    return root


@pytest.fixture(autouse=True)
def no_leftovers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], list[Stat]]]:
    """Fail the test that leaves a process behind, and end that process. Gives the scan, for tests to ask."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    children_before = _own_children()

    def leftovers() -> list[Stat]:
        return _leftovers(mark, children_before)

    yield leftovers
    deadline = time.monotonic() + LEFTOVER_PATIENCE
    while (left := leftovers()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        named = [f"{stat.pid} ({stat.name}) {_command(stat.pid)}" for stat in left]
        while left and time.monotonic() < deadline + LEFTOVER_PATIENCE:
            for stat in left:
                _end(stat.identity)
            left = leftovers()
        pytest.fail("left behind by this test: " + "; ".join(named), pytrace=False)


def _own_children() -> set[Identity]:
    """Children of this very process: a fork without an exec shows no mark."""
    table = ProcessTable()
    return {table.stats[pid].identity for pid in table.children.get(os.getpid(), ())}


def _leftovers(mark: str, children_before: set[Identity]) -> list[Stat]:
    needle = f"{MARK}={mark}".encode()
    return [
        stat
        for stat in ProcessTable().stats.values()
        if not stat.dead
        and stat.pid != os.getpid()
        and (needle in _environ(stat.pid) or _is_new_child(stat, children_before))
    ]


def _is_new_child(stat: Stat, before: set[Identity]) -> bool:
    return stat.ppid == os.getpid() and stat.identity not in before


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return "?"


def _end(identity: Identity) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError), Pinned(identity) as process:
        process.send(signal.SIGKILL)


def _judge_skip(report: AnyReport) -> AnyReport:
    if report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not reason.startswith(_ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"skipped for a reason that tests/allowed_skips.txt does not have: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _judge_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _judge_skip((yield))
