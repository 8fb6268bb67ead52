"""Runners on a box with a service manager: real units of ours, whose listener is a shell script."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from tests.hold.lanes import HOLDTOP
from tests.host.system_manager import SystemBox

TOOLS = "/home/fleet/bin"
HOME = "/var/lib/ghrunner"
#: Tells its pid and its child's, which ignores TERM and has left its group as a job's server does.
LISTENER = """#!/bin/bash
setsid bash -c 'trap "" TERM; exec sleep 1000000' &
echo $! > ../child-$PPID 2>/dev/null; echo $! > child
exec sleep 1000000
"""
#: Instead of half a minute, which a verdict has to wait for.
QUICK = "RestartSec=1"


def furnish(box: SystemBox, *, runner: bool = True) -> None:
    """An owner's and a runner's account, the shared state, and tools for both that only root may change."""
    box.user("owner")
    members = ["owner"]
    if runner:
        box.do("useradd", "--system", "--create-home", "--home-dir", HOME, "--shell", "/usr/sbin/nologin", "ghrunner")
        members.append("ghrunner")
    box.steps("init", *(word for name in members for word in ("--user", name)))
    box.write("/etc/systemd/system/holdtop-runner-.service.d/quick.conf", f"[Service]\n{QUICK}\n")  # for all of them
    for resource in ("gpu", "npu"):
        box.write(f"{TOOLS}/{resource}-hold", f'#!/bin/sh\nexec holdtop run -r {resource} -- "$@"\n', mode=0o755)


def put(box: SystemBox, name: str, replaced: Mapping[str, str] | None = None, listener: str = LISTENER) -> str:
    """Write a runner's unit, some of its lines replaced, with its listener; its name."""
    text = runner(box, "render", name).stdout
    for line, other in (replaced or {}).items():
        text, count = re.subn(f"(?m)^{re.escape(line)}$", other, text)
        assert count == 1, line
    unit = f"holdtop-runner-{name}.service"
    box.write(f"{HOME}/runner-{name}/bin/runsvc.sh", listener, owner="ghrunner", mode=0o755)
    box.do("chown", "ghrunner", f"{HOME}/runner-{name}")
    box.write(f"/etc/systemd/system/{unit}", text)
    return unit


def start(box: SystemBox, *units: str) -> None:
    box.do("systemctl", "daemon-reload")
    box.do("systemctl", "enable", "--quiet", *units)
    box.do("systemctl", "start", *units)


def runner(box: SystemBox, part: str, name: str, *words: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """``holdtop runner PART`` as root there."""
    command = [*HOLDTOP, "runner", part, "--name", name, "--path-dir", TOOLS, *words]
    return box.do(*command, check=False, stdin=subprocess.DEVNULL, **kwargs)


def verified(box: SystemBox, names: Sequence[str], *words: str) -> dict[str, tuple[int, dict[str, Any]]]:
    """What ``verify`` says of each, all of them asked at once."""
    asked = {
        name: subprocess.Popen(
            box.inside(*HOLDTOP, "runner", "verify", "--json", "--name", name, "--path-dir", TOOLS, *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for name in names
    }
    found = {}
    for name, process in asked.items():
        out, error = process.communicate(timeout=100)
        assert out, error
        found[name] = process.returncode, json.loads(out)
    return found


def kinds(said: Mapping[str, Any]) -> list[str]:
    return [one["kind"] for one in said["problems"]]
