"""Whether a unit is what keeps a runner alive: judged by what its manager says is in force, not by a file."""

from __future__ import annotations

import itertools
import os
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

from holdtop.host.runner import sizes
from holdtop.host.runner.settings import Settings
from holdtop.host.runner.sizes import INFINITY
from holdtop.host.said import Finding

Properties = Mapping[str, Any]
#: Longer than ``RestartSec`` by so much, in seconds, has a unit to be up, or it may be in a loop.
LOOP_MARGIN = 10.0
#: Seconds in which a hold has ended its payload: its usual grace, and a moment for KILL.
LEAST_STOP = 15.0


def seen(settings: Settings, said: Properties) -> Iterator[Finding]:
    """All that one look can tell. ``verify`` has the time to see a loop; here each quick end that was seen counts."""
    yield from findings(settings, said)
    if said["LoadState"] != "loaded" or said["ActiveState"] != "active" or not said["NRestarts"]:
        return
    if up_seconds(said) < (enough := up_enough(said)):
        yield loop(settings, f"it has not stayed up for {enough:.0f} s since it ended, {said['NRestarts']} restarts")


def findings(settings: Settings, said: Properties) -> Iterator[Finding]:
    """What of the unit's properties (``Manager.properties``) is not as it has to be."""
    if said["LoadState"] != "loaded":
        yield _no_unit(settings, said["LoadState"])
        return
    yield from _state(settings, said)
    yield from _policies(settings, said)
    yield from _memory(settings, said)
    if said["NeedDaemonReload"]:
        why = "what is in force is not what the next start will read"
        yield _finding(settings, "stale", "its files have changed since", why, f"{_systemctl(settings)} daemon-reload")


def up_seconds(said: Properties) -> float:
    """CLOCK_MONOTONIC is what the manager's stamps are of (org.freedesktop.systemd1(5))."""
    return time.monotonic() - float(said["ActiveEnterTimestampMonotonic"]) / 1e6


def up_enough(said: Properties) -> float:
    """Seconds: in a crash loop a unit is active with success, but never for so long."""
    return float(said["RestartUSec"]) / 1e6 + LOOP_MARGIN


def loop(settings: Settings, what: str) -> Finding:
    return _finding(settings, "crash-loop", what, "each job it takes is lost", log(settings))


def offline(settings: Settings) -> Finding:
    return _finding(settings, "offline", "its forge has it offline", "no job reaches it", log(settings))


def install(settings: Settings, said: Properties | None = None) -> str:
    """The command that puts the unit back in its form; with its drop-ins it is not done."""
    sudo = ("sudo",) if settings.system else ()
    words = shlex.join((*sudo, "holdtop", "runner", "install", *settings.options))
    return f"{words}; {_systemctl(settings)} edit {settings.unit}" if said and said["DropInPaths"] else words


def log(settings: Settings) -> str:
    """The command that shows why it ended."""
    return f"journalctl {'' if settings.system else '--user '}-u {settings.unit}"


def _no_unit(settings: Settings, state: str) -> Finding:
    remedy = (
        f"{_systemctl(settings)} unmask {settings.unit}"
        if state == "masked"
        else f"{install(settings)}  # with its other options"
    )
    what = "there is no such unit" if state == "not-found" else f"its unit is {state}"
    return _finding(settings, "no-unit", what, "no job is taken", remedy)


#: As ``systemctl is-enabled`` says it; none is said of a unit whose file is gone, which is another finding.
_STARTS_AT_BOOT = ("enabled", "alias", "generated", "")


def _state(settings: Settings, said: Properties) -> Iterator[Finding]:
    systemctl = _systemctl(settings)
    if said["ActiveState"] != "active":
        what = f"it is {said['ActiveState']} ({said['SubState']})"
        yield _finding(
            settings, "not-active", what, "no job is taken", f"{systemctl} start {settings.unit}; {log(settings)}"
        )
    if said["Result"] != "success":
        what = f"Result={said['Result']}"
        yield _finding(
            settings,
            "failed",
            what,
            "its last end was no orderly one",
            f"{log(settings)}; {systemctl} restart {settings.unit}",
        )
    if (state := said["UnitFileState"]) not in _STARTS_AT_BOOT:
        why = "after the next boot nobody takes jobs"
        remedy = install(settings, said) if state == "static" else f"{systemctl} enable {settings.unit}"
        yield _finding(settings, "not-enabled", f"it is {state}", why, remedy)
    user = said["User"] if settings.system else settings.user
    if user != settings.user:
        why = "jobs are unreviewed code and need that account's bounds"
        yield _finding(settings, "user", f"User={user or 'root'}, not {settings.user}", why, install(settings, said))


def policies(said: Properties) -> Iterator[tuple[str, str, str]]:
    """What of any unit lets a runner die or leave its jobs behind: a finding's kind, what and why."""
    interval, runtime, oom = said["StartLimitIntervalUSec"], said["RuntimeMaxUSec"], said["OOMScoreAdjust"]
    never = " ".join(map(str, itertools.chain(*said["RestartPreventExitStatus"])))
    found = [
        ("oom-policy", "OOMPolicy", said["OOMPolicy"], said["OOMPolicy"] == "continue", "one job's kill ends it"),
        ("restart", "Restart", said["Restart"], said["Restart"] == "always", "a listener that ends with 0 stays dead"),
        ("kill-mode", "KillMode", said["KillMode"], said["KillMode"] in ("mixed", "control-group"),
         "what a job has started outlives it, with nobody who tracks it"),
        ("start-limit", "StartLimitIntervalSec", f"{interval / 1e6:g}", interval == 0,
         "after a few quick ends it is given up for good"),
        ("restart", "RestartPreventExitStatus", never, not never, "a listener that ends so stays dead"),
        ("kill-mode", "SendSIGKILL", "no", said["SendSIGKILL"], "what does not hear TERM outlives it"),
        ("run-time", "RuntimeMaxSec", f"{runtime / 1e6:g}", runtime == INFINITY, "it is ended in the midst of a job"),
        ("oom-score", "OOMScoreAdjust", oom, oom >= 0, "its jobs inherit it, and the kernel ends others for them"),
    ]  # fmt: skip
    for kind, name, value, right, why in found:
        if not right:
            yield kind, f"{name}={value} is in force", why


def _policies(settings: Settings, said: Properties) -> Iterator[Finding]:
    for kind, what, why in (*policies(said), *_bounds(settings, said)):
        yield _finding(settings, kind, what, why, install(settings, said))


def _bounds(settings: Settings, said: Properties) -> Iterator[tuple[str, str, str]]:
    """What a unit of ours keeps its jobs from, or gives them beyond their account: likewise."""
    stop = said["TimeoutStopUSec"]
    needed = [path for path in (settings.state_dir, *settings.path_dirs, settings.directory) if path]
    hidden = [path for path in said["InaccessiblePaths"] if any(_is_below(one, path.lstrip("-+")) for one in needed)]
    unseen = "jobs do not see what all others share: tools, models or the state of the holds"
    found = [
        ("delegate", "Delegate", "no", said["Delegate"], "a hold in a job gets no cgroup of its own"),
        ("timeout-stop", "TimeoutStopSec", f"{stop / 1e6:g}", stop >= LEAST_STOP * 1e6,
         "holds in its jobs are killed before they have ended their payloads"),
        ("hidden", "PrivateTmp", "yes", not said["PrivateTmp"], unseen),
        ("hidden", "ProtectHome", said["ProtectHome"], said["ProtectHome"] == "no", unseen),
        ("hidden", "ProtectSystem", "strict", said["ProtectSystem"] != "strict", "no hold in a job can be queued"),
        ("hidden", "InaccessiblePaths", " ".join(hidden), not hidden, unseen),
        ("capabilities", "AmbientCapabilities", f"{said['AmbientCapabilities']:#x}", not said["AmbientCapabilities"],
         "jobs are unreviewed code, and may more than their account"),
    ]  # fmt: skip
    for kind, name, value, right, why in found:
        if not right:
            yield kind, f"{name}={value} is in force", why


def _is_below(path: str, directory: str) -> bool:
    return os.path.commonpath([path, directory]) == os.path.normpath(directory)


def _memory(settings: Settings, said: Properties) -> Iterator[Finding]:
    high, most = said["MemoryHigh"], said["MemoryMax"]
    if most == INFINITY:
        why = "one job may take the box's whole memory"
        yield _finding(settings, "memory-max", "MemoryMax is not set", why, install(settings, said))
    elif high >= most:
        what = f"MemoryHigh ({sizes.said(high)}) is not below MemoryMax ({sizes.said(most)})"
        why = "nothing is slowed down before something is killed"
        yield _finding(settings, "memory-high", what, why, install(settings, said))


def _systemctl(settings: Settings) -> str:
    return "sudo systemctl" if settings.system else "systemctl --user"


def _finding(settings: Settings, kind: str, what: str, why: str, remedy: str) -> Finding:
    return Finding(kind, what, why, remedy, settings.unit)
