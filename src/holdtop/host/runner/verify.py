"""``holdtop runner verify``: whether a runner is what it has to be, seen at its manager and from its account."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from holdtop.errors import HoldtopError, UnseenError, UsageError
from holdtop.host.accounts import account
from holdtop.host.runner import directives, lingering, reach
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.child import ask_as
from holdtop.host.runner.settings import Settings
from holdtop.host.said import Finding
from holdtop.host.values import Online
from holdtop.payload.cgroup import Cgroup

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
    #: What its forge says of it, ``unknown`` where nobody asked.
    online: Online

    @property
    def status(self) -> int:
        return 1 if self.findings else UnseenError.status if self.unlooked else 0


def verify(
    settings: Settings, manager: Manager, say: Callable[[str], None], asked: Callable[[], Online] = Online
) -> Verdict:
    """Takes as long as it needs to tell a unit that is up from one in a loop: at most ``RestartSec`` and a little.

    ``asked`` is what the forge says, after that: a listener that has just begun is not online yet.
    Raises ``UnseenError`` when the manager does not answer.
    """
    said = manager.properties(settings.unit)
    found = list(directives.findings(settings, said))
    if said["LoadState"] == "loaded":
        found += _loop(settings, manager, said, say)
    return _verdict(settings, said, found, manager.properties(settings.unit), asked())


def at_once(settings: Settings, said: Mapping[str, Any], online: Online) -> Verdict:
    """The same by one look at the unit's properties, which waits for no loop to show itself."""
    return _verdict(settings, said, list(directives.seen(settings, said)), said, online)


def _verdict(
    settings: Settings, said: Mapping[str, Any], found: list[Finding], last: Mapping[str, Any], online: Online
) -> Verdict:
    if online.state == "offline":
        found.append(directives.offline(settings))
    unlooked: list[str] = []
    try:
        found += _account(settings, said)
    except HoldtopError as error:
        unlooked.append(str(error))
    return Verdict(tuple(found), tuple(unlooked), tuple(_remarks(settings, said, online)), last, online)


def _loop(settings: Settings, manager: Manager, said: Mapping[str, Any], say: Callable[[str], None]) -> list[Finding]:
    """Restarts are counted over more than ``RestartSec``: in a crash loop a unit is briefly active, with success."""
    window = directives.up_enough(said)
    first, now = said, said
    while now["ActiveState"] == "active" and (left := window - directives.up_seconds(now)) > 0:
        if now is first:
            up = directives.up_seconds(now)
            say(f"{settings.unit} is up for {up:.0f} s: looking at it until it is {window:.0f} s")
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
    return [directives.loop(settings, what)]


def _runs(said: Mapping[str, Any]) -> tuple[Any, ...]:
    """The same for as long as one start of the unit lasts."""
    return said["ActiveState"], said["InvocationID"], said["NRestarts"]


def _account(settings: Settings, said: Mapping[str, Any]) -> list[Finding]:
    """Raises ``HoldtopError`` when nobody can look as the account."""
    try:
        runner = account(settings.user)
    except UsageError as error:
        remedy = directives.install(settings)
        return [Finding("no-account", str(error), "nothing can run as it", remedy, settings.user)]
    environment = settings.variables
    if said["LoadState"] == "loaded":
        environment = dict(one.split("=", 1) for one in said["Environment"])
    executed = reach.executed_by_others(settings, runner, environment.get("PATH", ""))
    found = ask_as(runner, lambda: list(map(astuple, reach.findings(settings, environment, executed))))
    return [*(Finding(*one) for one in found), *_groups(settings, said.get("MainPID", 0), runner.gid)]


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
    remedy = f"sudo systemctl restart {settings.unit}"
    return [Finding("old-groups", what, "its jobs may not queue", remedy, settings.unit)]


def _remarks(settings: Settings, said: Mapping[str, Any], online: Online) -> list[str]:
    found = [f"whether the forge sees the runner online is not known here: {online.why}"] if online.why else []
    group = said.get("ControlGroup") or ""
    if said["LoadState"] == "loaded" and not enforced(group):
        found.append("MemoryMax and MemoryHigh are named but not enforced: there is no memory controller for the unit")
    if not settings.system and (one := lingering.finding(settings.user)):
        found.append(f"{one.what}: {one.why}; {one.remedy}")
    return found


def enforced(group: str) -> bool:
    """Whether the kernel keeps a unit's cgroup to its memory limits: only with the memory controller there."""
    place = Cgroup.at(group)
    files = [
        f"/sys/fs/cgroup/memory{group}/memory.limit_in_bytes",
        *([f"{place.directory}/memory.max"] if place else []),
    ]
    return bool(group) and any(map(os.path.exists, files))
