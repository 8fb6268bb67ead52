"""``holdtop runner verify``: whether a runner is what it has to be; each failure a line with its remedy."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial

from holdtop import config
from holdtop.cli.runner_options import settings_of
from holdtop.host.runner import sizes
from holdtop.host.runner.bus import Manager
from holdtop.host.runner.settings import Settings
from holdtop.host.runner.verify import Verdict, verify
from holdtop.host.values import Online
from holdtop.render import clean

#: Key of the JSON -> the manager's property; ``null`` without a unit.
_TOLD = {
    "active_state": "ActiveState",
    "sub_state": "SubState",
    "result": "Result",
    "restarts": "NRestarts",
    "oom_policy": "OOMPolicy",
    "restart": "Restart",
    "kill_mode": "KillMode",
    "user": "User",
}
#: Of text on a line, in characters.
LONG = 500


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    asked = asking(settings)
    verdict = verify(settings, Manager(system=settings.system), narrate, asked)
    show(settings, verdict, as_json=args.json)
    return verdict.status


def asking(settings: Settings) -> Callable[[], Online]:
    """What asks its forge, by the configuration. Raises ``ConfigError``."""
    if (forge := config.load().forges.get(settings.name)) is None:
        return Online
    from holdtop.host.runner.forge import ask  # TLS, for boxes with a token alone

    return partial(ask, settings.name, forge)


def narrate(text: str) -> None:
    print(f"holdtop: {clean(text, LONG)}", file=sys.stderr, flush=True)


def show(settings: Settings, verdict: Verdict, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"schema": 1, **told(settings, verdict)}), flush=True)
    else:
        print("\n".join(clean(line, LONG) for line in _lines(settings, verdict)), flush=True)


def told(settings: Settings, verdict: Verdict) -> dict[str, object]:
    """As an entry of ``runners`` in ``status --json``, and more."""
    there = verdict.properties if verdict.properties["LoadState"] == "loaded" else {}
    return {
        "unit": settings.unit,
        **{key: there.get(name) for key, name in _TOLD.items()},
        "registration": verdict.online.state,
        "registration_why": verdict.online.why,
        "memory_max_bytes": _bytes(there.get("MemoryMax")),
        "memory_high_bytes": _bytes(there.get("MemoryHigh")),
        "problems": [asdict(one) for one in verdict.findings],
        "could_not_look": list(verdict.unlooked),
        "remarks": list(verdict.remarks),
    }


def _bytes(size: int | None) -> int | None:
    """``None``: no limit is set, or there is no unit."""
    return None if size == sizes.INFINITY else size


def _lines(settings: Settings, verdict: Verdict) -> Iterator[str]:
    said = verdict.properties
    for one in verdict.findings:
        why = f": {one.why}" if one.why else ""
        yield f"FINDING {one.kind}: {one.what}{why}; remedy: {one.remedy}"
    yield from (f"could not look: {text}" for text in verdict.unlooked)
    if said["LoadState"] == "loaded":
        high, most = sizes.said(said["MemoryHigh"]), sizes.said(said["MemoryMax"])
        state = f"{said['ActiveState']} ({said['SubState']}), Result={said['Result']}, {said['NRestarts']} restarts"
        online = "" if verdict.online.why else f", {verdict.online.state} at its forge"
        yield f"{settings.unit}: {state}{online}, MemoryHigh {high}, MemoryMax {most}"
    yield from verdict.remarks
