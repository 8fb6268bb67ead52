"""How bad each thing is, decided once and for every place: state, verdict or flag -> role; themes give roles a look.

What a flag is about has the flag's own severity wherever it is shown: in the list of flags, in a row of a resource or
of the queue, in the bar of memory, in a gauge. Nothing else is ``critical`` but what failed, or what was left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdtop.console.view.text import Role
from holdtop.model.values import SEVERITIES, Severity, Snapshot

#: By the state of a resource or a ticket; a ghost has the severity of its flag.
STATES: Mapping[str, Role] = {
    "free": "ok",
    "held": "held",
    "running": "held",
    "waiting": "text",
    "ending": "warning",
    "paused": "warning",
    "unknown": "warning",
}
#: By the verdict of a release; any other one is a warning.
_VERDICTS: Mapping[object, Role] = {"clean": "ok", "settling": "info"}
LEFTOVERS = frozenset({"survivor", "unkillable", "stray"})


def flagged(
    snapshot: Snapshot, kinds: Collection[str], resource: str | None = None, *, least: Severity = "warning"
) -> Severity:
    """The worst of the flags of these kinds that stand (of one resource); ``least`` where there is none."""
    found = (flag.severity for flag in snapshot.flags if flag.kind in kinds and resource in (None, flag.resource))
    return min((least, *found), key=SEVERITIES.index)


def ghosts(snapshot: Snapshot) -> dict[str, Severity]:
    """Resources whose holder is dead, each with how bad that is."""
    dead = (resource.name for resource in snapshot.resources if resource.state == "ghost")
    return {name: flagged(snapshot, {"ghost"}, name) for name in dead}


def verdict_role(verdict: object) -> Role:
    return _VERDICTS.get(verdict, "warning")
