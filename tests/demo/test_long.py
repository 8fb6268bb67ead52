"""The demo cut short at random moments, many times."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdtop.payload.process import Stat

EPISODES = 60
#: The set-up takes about two seconds; later positions find the demo up.
LATEST = 3.0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_moment_leaves_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_leftovers: Callable[[], list[Stat]]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    chance = random.Random(os.environ.get("LONG_SEED", "1"))
    for episode in range(EPISODES):
        after = chance.uniform(0, LATEST)
        signum = chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
        command = [sys.executable, "-m", "holdtop", "demo", "--script"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as demo:
            time.sleep(after)
            demo.send_signal(signum)
            demo.wait(60)
        deadline = time.monotonic() + 20
        while (left := [*no_leftovers(), *tmp_path.iterdir()]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, f"episode {episode}: {signum.name} after {after:.3f} s"
