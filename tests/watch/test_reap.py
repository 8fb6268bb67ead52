"""``--reap``: dead holds and what they left, on real processes; and whom it lets alone."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.hold import forged
from tests.hold.lanes import NAP, Box, identity, kill_both, sleepers, until
from tests.hold.test_accounts import shared
from tests.operator.box import audited

__all__ = ["shared"]

#: The verb as a process that is less patient.
DRIVER = """
import sys
from holdtop.watch import reap
from holdtop.cli.main import main
reap.PATIENCE = 0.5
sys.exit(main(sys.argv[1:]))
"""


@contextlib.contextmanager
def watching(box: Box, policy: str) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", DRIVER, "watch", "--state-dir", str(box.state), "--reap", policy]
    env = {**os.environ, "HOLDTOP_REFRESH": "0.3"}
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as watch:
        try:
            yield watch
        finally:
            watch.terminate()


def ghost(box: Box) -> None:
    """Dead, with a payload that left the tree."""
    lane = box.run(
        "sh", "-c", f"setsid sleep {NAP} & sleep {NAP}", options=["--grace", "0.3"], stderr=subprocess.DEVNULL
    )
    started = box.until_running()
    until(lambda: len(sleepers(words=2)) == 2)
    kill_both(lane, started["keeper_pid"])


@pytest.fixture
def state(tmp_path: Path) -> Box:
    (tmp_path / "state").mkdir(mode=0o2770)
    return Box(tmp_path / "state")


def test_a_ghost_is_ended_and_freed_and_put_on_record(state: Box) -> None:
    ghost(state)
    with watching(state, "ghosts") as watch:
        until(lambda: not state.token.exists(), 40)
        until(lambda: sleepers() == [])
        watch.terminate()
        said = watch.communicate(timeout=20)[1]
    assert "reaped (gpu " in said
    assert [one["kind"] for one in audited(state)] == ["intent", "outcome"]
    assert audited(state)[0]["reason"] == "left behind; ended by holdtop watch --reap"


def test_off_is_off(state: Box) -> None:
    ghost(state)
    with watching(state, "off") as watch:
        assert watch.stderr
        assert "ghost" in watch.stderr.readline()
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(4)
    assert state.token.exists()
    assert len(sleepers()) == 2
    assert state.verb("recover", "--yes", "--reason", "over").returncode == 0
    assert sleepers() == []


@pytest.mark.parametrize("policy", ["ghosts", "survivors"])
def test_recorded_survivors_are_ended_by_their_policy_and_strays_never(shared: Box, policy: str) -> None:
    forged.begin(shared)
    with forged.running() as survivor, forged.running() as other:
        said = forged.lines(forged.gone())
        process = asdict(identity(survivor.pid))
        record = forged.record_data(said, processes=[process])
        forged.write(shared.queue / ".survivors" / f"{said['id']}.json", record, 0)
        with watching(shared, policy) as watch:
            assert watch.stderr
            assert "survivor" in watch.stderr.readline()
            if policy == "survivors":
                until(lambda: survivor.poll() is not None, 30)
            else:
                with pytest.raises(subprocess.TimeoutExpired):
                    survivor.wait(4)
        assert other.poll() is None
