"""``holdtop runner verify``: whether a runner is what it has to be, seen at its manager and from its account."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdtop.errors import HoldtopError, UnseenError, UsageError
from holdtop.host.accounts import account
from holdtop.host.runner import directives, reach
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.child import ask_as
from holdtop.host.runner.settings import Settings
from holdtop.host.values import Finding
from holdtop.payload.cgroup import Cgroup

#: Longer than ``RestartSec`` by so much, in seconds, has a unit to be up, or it may be in a loop.
LOOP_MARGIN = 10.0
POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Verdict:
    """Nothing is wrong, as far as could be seen, when there are neither findings nor ``unlooked``."""

    findings: tuple[Finding, ...]
    #: Checks that could not be made, and why: neither well nor ill is known.
    unlooked: tuple[str, ...]
    #: What no check here can tell.
    remarks: tuple[str, ...]
    #: As the manager says them (``Manager.properties``).
    properties: Mapping[str, Any]

    @property
    def status(self) -> int:
        return 1 if self.findings else UnseenError.status if self.unlooked else 0


def verify(settings: Settings, manager: Manager, say: Callable[[str], None]) -> Verdict:
    """Takes as long as it needs to tell a unit that is up from one in a loop: at most ``RestartSec`` and a little.

    Raises ``UnseenError`` when the manager does not answer.
    """
    said = manager.properties(settings.unit)
    found = list(directives.findings(settings, said))
    unlooked: list[str] = []
    if said["LoadState"] == "loaded":
        found += _loop(settings, manager, said, say)
    try:
        found += _account(settings, said)
    except HoldtopError as error:
        unlooked.append(str(error))
    return Verdict(tuple(found), tuple(unlooked), tuple(_remarks(settings, said)), manager.properties(settings.unit))


def _loop(settings: Settings, manager: Manager, said: Mapping[str, Any], say: Callable[[str], None]) -> list[Finding]:
    """Restarts are counted over more than ``RestartSec``: in a crash loop a unit is briefly active, with success."""
    window = said["RestartUSec"] / 1e6 + LOOP_MARGIN
    first, now = said, said
    while now["ActiveState"] == "active" and (left := window - _up_seconds(now)) > 0:
        if now is first:
            say(f"{settings.unit} is up for {_up_seconds(now):.0f} s: looking at it until it is {window:.0f} s")
        time.sleep(min(POLL_SECONDS, left))
        now = manager.properties(settings.unit)
        if _runs(now) != _runs(first):
            break
    restarts = now["NRestarts"] - first["NRestarts"]
    if _runs(now) == _runs(first) and now["SubState"] != "auto-restart":
        return []
    what = (
        f"it did not stay up for {window:.0f} s: {restarts} restarts seen, {now['NRestarts']} in all, {now['SubState']}"
    )
    log = f"{'journalctl -u' if settings.system else 'journalctl --user -u'} {settings.unit}"
    return [Finding("crash-loop", settings.unit, what, "each job it takes is lost", log)]


def _runs(said: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same for as long as one start of the unit lasts."""
    return said["ActiveState"], said["InvocationID"], said["NRestarts"]


def _up_seconds(said: Mapping[str, Any]) -> float:
    """CLOCK_MONOTONIC is what the manager's stamps are of (org.freedesktop.systemd1(5))."""
    return time.monotonic() - float(said["ActiveEnterTimestampMonotonic"]) / 1e6


def _account(settings: Settings, said: Mapping[str, Any]) -> list[Finding]:
    """Raises ``HoldtopError`` when nobody can look as the account."""
    try:
        runner = account(settings.user)
    except UsageError as error:
        remedy = directives.install(settings)
        return [Finding("no-account", settings.user, str(error), "nothing can run as it", remedy)]
    environment = settings.variables
    if said["LoadState"] == "loaded":
        environment = dict(one.split("=", 1) for one in said["Environment"])
    executed = reach.executed_by_others(settings, runner, environment.get("PATH", ""))
    found = ask_as(runner, lambda: [_plain(one) for one in reach.findings(settings, environment, executed)])
    return [*(Finding(*one) for one in found), *_groups(settings, said.get("MainPID", 0), runner.gid)]


def _plain(one: Finding) -> list[str]:
    return [one.kind, one.about, one.what, one.why, one.remedy]


def _groups(settings: Settings, pid: int, gid: int) -> list[Finding]:
    """A listener goes on with the groups that its account had when it was started (credentials(7))."""
    wanted = set(os.getgrouplist(settings.user, gid))
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            has = next({int(one) for one in line.split()[1:]} for line in file if line.startswith("Groups:"))
    except (OSError, StopIteration):
        return []
    missing = wanted - has - {gid}
    if not missing or not pid:
        return []
    what = f"the listener (pid {pid}) runs without the groups {', '.join(map(str, sorted(missing)))} of {settings.user}"
    remedy = f"systemctl restart {settings.unit}"
    return [Finding("old-groups", settings.unit, what, "its jobs may not queue", remedy)]


def _remarks(settings: Settings, said: Mapping[str, Any]) -> list[str]:
    found = ["whether the forge sees the runner online is not known here: only its own page tells"]
    group = said.get("ControlGroup") or ""
    if said["LoadState"] == "loaded" and not enforced(group):
        found.append("MemoryMax and MemoryHigh are named but not enforced: there is no memory controller for the unit")
    if not settings.system and not os.path.exists(f"/var/lib/systemd/linger/{settings.user}"):
        found.append(f"without linger the last logout ends the runner: loginctl enable-linger {settings.user}")
    return found


def enforced(group: str) -> bool:
    """Whether the kernel keeps a unit's cgroup to its memory limits: only with the memory controller there."""
    place = Cgroup.at(group)
    files = [
        f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes",
        *([f"{place.directory}/memory.max"] if place else []),
    ]
    return bool(group) and any(map(os.path.exists, files))
