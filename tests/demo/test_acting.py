"""Every act works on the demo for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdtop.hold import places
from holdtop.hold.look import look
from holdtop.payload.process import read_stat


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = [sys.executable, "-m", "holdtop", "demo", "--script"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        yield json.loads(demo.stdout.readline())
        assert demo.stdin is not None
        demo.stdin.close()
        assert demo.wait(30) == 0


def gone(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is None or stat.dead


def test_each_act_does_what_it_says_and_leaves_the_rest(
    told: dict[str, Any], no_leftovers: Callable[[], list[Any]]
) -> None:
    def holdtop(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdtop", *words, "--state-dir", told["state_dir"]],
            env={**os.environ, **told["environ"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def act(*words: str) -> None:
        done = holdtop(*words, "--reason", "shown to a visitor", "--yes")
        assert done.returncode == 0, (words, done.stdout, done.stderr)

    assert told["survivor"]["pid"] in {stat.pid for stat in no_leftovers()}
    act("kill", "--pid", str(told["stray"]))
    assert gone(told["stray"])
    act("kill", "--pid", str(told["survivor"]["pid"]))
    assert gone(told["survivor"]["pid"])
    act("recover", "-r", "npu")
    assert all(map(gone, told["ghost"]["pids"]))
    assert not Path(told["ghost"]["token"]).exists()
    first, second, third, last = told["waiting"]
    act("evict", second)
    act("kill", told["holder"])
    assert all(map(gone, told["members"]))

    view = look(places.resolve("gpu", told["state_dir"]))
    assert [ticket.id for ticket in view.tickets] == [first, third, last]
    assert view.survivors == ()
    flags = json.loads(holdtop("status", "--json", "-r", "all").stdout)["flags"]
    assert {flag["kind"] for flag in flags} <= {"unreadable"}
