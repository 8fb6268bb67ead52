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
from tests.host.forges import SECRET, forge, listing, table
from tests.host.runners import furnish, kinds, put, start, verified
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


def registered(box: SystemBox) -> None:
    """What the forge says is in the snapshot, on the screen and in a verdict; the token is nowhere."""
    with forge(listing(("well", "online"), ("loose", "offline"))) as made:
        box.write("/home/token", SECRET, mode=0o600)
        names = "well", "loose", "mortal"
        box.write("/etc/holdtop/config.toml", "".join(table(name, made, "/home/token") for name in names))
        said = {one["unit"]: (one["registration"], one["registration_why"]) for one in status(box)["runners"]}
        shown = box.do(*HOLDTOP, "status", check=False).stdout
        verdicts = verified(box, ["well", "loose"])
        examined = box.do(*HOLDTOP, "doctor", check=False).stdout
    box.at("/etc/holdtop/config.toml").unlink()
    assert said == {
        "holdtop-runner-well.service": ("online", None),
        "holdtop-runner-loose.service": ("offline", None),
        "holdtop-runner-mortal.service": ("unknown", "its forge lists 2 runners there, and none is called mortal"),
        "holdtop-runner-looping.service": ("unknown", "no token for the forge is configured"),
        "holdtop-runner-removed.service": ("unknown", "no token for the forge is configured"),
    }
    assert ", MemoryMax 48.0 GiB, online at its forge" in shown
    assert (verdicts["well"][0], verdicts["well"][1]["registration"]) == (0, "online")
    assert sorted(kinds(verdicts["loose"][1])) == ["kill-mode", "offline"]
    assert "FINDING offline: holdtop-runner-loose.service: its forge has it offline" in examined
    assert SECRET not in json.dumps([said, shown, verdicts, examined])


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
    registered(system)
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
