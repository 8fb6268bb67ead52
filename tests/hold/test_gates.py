"""Hardware gates that know the NPU's lock file only, and no queue."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.hold.lanes import HOLDTOP, NAP, Box, sleepers, until


@pytest.mark.parametrize("first", ["gate", "hold"])
def test_a_gate_that_only_knows_the_lock_excludes_the_npu_and_is_excluded(
    state: Box, tmp_path: Path, first: str
) -> None:
    ready, log = tmp_path / "ready", tmp_path / "log"
    gate = ["flock", str(state.state / "npu.lock")]
    hold = [*HOLDTOP, "run", "-r", "npu", "--state-dir", str(state.state), "--"]
    outer, inner = (gate, hold) if first == "gate" else (hold, gate)
    script = f"touch {ready}; exec sleep {NAP}"
    with subprocess.Popen([*outer, "sh", "-c", script]):
        until(ready.exists)
        waiting = subprocess.Popen([*inner, "touch", str(log)])
        until(lambda: first == "hold" or (state.state / "npu-token").exists())
        assert not log.exists()
        (sleeping,) = sleepers()
        os.kill(sleeping, signal.SIGTERM)
        assert waiting.wait(20) == 0
    assert log.exists()
