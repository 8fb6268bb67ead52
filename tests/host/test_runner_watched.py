"""Runners beside a real service manager, as ``status`` and ``watch`` see them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.process import Pinned, read_stat
from tests.hold.lanes import HOLDTOP, until
from tests.host.runners import furnish, put, start
from tests.host.system_manager import SystemBox, system_manager

#: The watch, which asks about runners each second.
WATCH = """
from holdtop.sampler import box
box.RUNNERS_PERIOD = 1.0
from holdtop.cli.main import main
main(["watch"])
"""
LISTENER = "#!/bin/sh\nexec sleep 1000000\n"


@pytest.fixture
def system() -> Iterator[SystemBox]:
    with system_manager() as box:
        furnish(box)
        yield box


def status(box: SystemBox, **env: str) -> dict[str, Any]:
    done = box.do(*HOLDTOP, "status", "--json", check=False, env={**os.environ, **env})
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def flags(said: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Of runners, by name: kind and remedy."""
    found = [one for one in said["flags"] if one["kind"].startswith("runner-")]
    return {
        one["about"].removeprefix("holdtop-runner-").removesuffix(".service"): (one["kind"], one["remedy"])
        for one in found
    }


def test_a_dead_a_looping_and_an_unguarded_runner_are_flagged_and_no_other(system: SystemBox, tmp_path: Path) -> None:
    mortal = put(system, "mortal", {"Restart=always": "Restart=no"}, LISTENER)
    start(
        system,
        mortal,
        put(system, "well", listener=LISTENER),
        put(system, "loose", {"KillMode=mixed": "KillMode=process"}, LISTENER),
        put(system, "looping", listener="#!/bin/sh\nsleep 1\n"),
    )
    system.write("/var/lib/holdtop/runner-removed.json", "{}")
    until(lambda: "looping" in flags(status(system)), 30)
    said = status(system)
    found = flags(said)
    assert {name: kind for name, (kind, _) in found.items()} == {
        "mortal": "runner-unguarded",
        "loose": "runner-unguarded",
        "looping": "runner-down",
        "removed": "runner-down",
    }
    assert "sudo holdtop runner install --name loose --path-dir /home/fleet/bin; " in found["loose"][1]
    assert found["removed"][1] == "sudo holdtop runner install --name removed  # with its other options"
    runners = {one["unit"].split("-")[2].split(".")[0]: one for one in said["runners"]}
    assert (runners["well"]["up"], runners["well"]["guarded"], runners["well"]["problems"]) == (True, True, [])
    assert (runners["well"]["memory_max_bytes"], runners["well"]["manager"]) == (48 << 30, "system")
    assert (runners["removed"]["up"], runners["removed"]["guarded"]) == (False, None)
    with (
        (tmp_path / "said").open("w+b") as errors,
        subprocess.Popen(system.inside(sys.executable, "-c", WATCH), stderr=errors, stdin=subprocess.DEVNULL) as watch,
    ):
        until(lambda: b"raised warning runner-unguarded" in (tmp_path / "said").read_bytes(), 30)
        main = read_stat(system.outside(int(system.show(mortal, "MainPID"))))
        assert main
        with Pinned(main.identity) as listener:
            listener.send(signal.SIGKILL)
        until(lambda: f"raised critical runner-down: {mortal}: it is failed" in (tmp_path / "said").read_text(), 40)
        watch.terminate()
    assert "Result=signal" in (tmp_path / "said").read_text()
    without = status(system, DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nonexistent/bus")
    assert flags(without) == {}, "nobody knows"
    assert {one["up"] for one in without["runners"]} == {None}
    assert "service manager cannot be asked" in without["runners"][0]["why"]
