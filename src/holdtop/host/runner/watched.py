"""The runners of this box as something that is watched: which are installed, and what their managers say of each.

Which there are is read off the disk, so that a box without any has no bus to ask, and one whose unit somebody has
removed is missed. Of what cannot be asked nothing is claimed: it is ``unknown``, with the reason.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdtop.errors import HoldtopError, UsageError
from holdtop.host.runner import directives, sizes
from holdtop.host.runner.recall import plain, recall
from holdtop.host.runner.settings import PREFIX, Settings
from holdtop.host.values import Online
from holdtop.model.flags_setup import DOWN
from holdtop.model.raw import Runners
from holdtop.model.values import Runner
from holdtop.sources.files import listing

#: Where the system's manager finds units (systemd.unit(5)), and where an installation's record lies.
SYSTEM_UNITS = (
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
)
SYSTEM_RECORDS = "/var/lib/holdtop"
#: How the vendor's units begin.
VENDORS = "actions.runner."
#: The same below a home.
OWN_UNITS, OWN_RECORDS = ".config/systemd/user", ".local/state/holdtop"
#: Of every account whose own manager runs there is a directory (pam_systemd(8)).
RUNTIME = "/run/user"
#: For one answer of a manager, in seconds.
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Found:
    """One installed runner."""

    settings: Settings
    #: ``system``, or the account whose own manager it is of.
    manager: str
    #: As the manager says them; ``None``: could not look, and ``why``.
    said: Mapping[str, Any] | None = None
    why: str = ""


def look(online: Callable[[list[str]], Mapping[str, Online]] | None = None) -> Runners:
    """Every runner of ours, as far as this account can see. Blocks for as long as a manager does.

    ``online``: what their forges say of them, by name.
    """
    found = list(installed())
    registered = online([one.settings.name for one in found]) if online and found else {}
    return Runners(tuple(_runner(one, registered.get(one.settings.name, Online())) for one in found), None)


def installed() -> Iterator[Found]:
    """Each manager is asked once, and none that has no runner."""
    yield from _of_manager(None, _names(SYSTEM_UNITS, SYSTEM_RECORDS))
    for uid in sorted({os.geteuid(), *(int(name) for name in listing(RUNTIME) if name.isdecimal())}):
        try:
            owner = pwd.getpwuid(uid)
        except (KeyError, OverflowError):
            continue
        units, records = (os.path.join(owner.pw_dir, place) for place in (OWN_UNITS, OWN_RECORDS))
        yield from _of_manager(owner, _names((units,), records))


def vendors() -> list[str]:
    """Units that the vendor's own script has made. They are not watched: nobody here knows what they are to be."""
    return sorted({f"{VENDORS}{name}.service" for name in _between(VENDORS, ".service", _files(SYSTEM_UNITS))})


def _files(directories: Iterable[str]) -> Iterator[str]:
    return (name for directory in directories for name in listing(directory))


def _names(units: tuple[str, ...], records: str) -> list[str]:
    """By their units and by their records: each may be there without the other."""
    return sorted(_between(PREFIX, ".service", _files(units)) | _between("runner-", ".json", listing(records)))


def _between(first: str, last: str, names: Iterable[str]) -> set[str]:
    return {name[len(first) : -len(last)] for name in names if name.startswith(first) and name.endswith(last)}


def _is_ours(name: str, own: tuple[str, str] | None) -> bool:
    """Of other names, and of root's own manager, no runner can be."""
    try:
        plain(name, own)
    except UsageError:
        return False
    return True


def _of_manager(owner: pwd.struct_passwd | None, named: list[str]) -> Iterator[Found]:
    manager, own = (owner.pw_name, (owner.pw_name, owner.pw_dir)) if owner else ("system", None)
    if not (names := [name for name in named if _is_ours(name, own)]):
        return
    if owner is not None and owner.pw_uid != os.geteuid():
        yield from _unseen(manager, own, names, f"the service manager of {manager} answers that account alone")
        return
    from holdtop.host.runner.bus import Manager  # 80 ms, for boxes with a runner alone

    try:
        asked = Manager(system=owner is None, patience=PATIENCE)
    except HoldtopError as error:
        yield from _unseen(manager, own, names, str(error))
        return
    with asked:
        for name in names:
            try:
                said = asked.properties(plain(name, own).unit)
            except HoldtopError as error:
                yield from _unseen(manager, own, [name], str(error))
            else:
                yield Found(recall(name, said, own), manager, said)


def _unseen(manager: str, own: tuple[str, str] | None, names: list[str], why: str) -> Iterator[Found]:
    yield from (Found(plain(name, own), manager, why=why) for name in names)


def _runner(one: Found, online: Online) -> Runner:
    said = one.said or {}
    loaded = said if said.get("LoadState") == "loaded" else {}
    found = tuple(directives.seen(one.settings, one.said)) if one.said else ()
    return Runner(
        unit=one.settings.unit,
        active_state=said.get("ActiveState", "unknown"),
        sub_state=said.get("SubState", "unknown"),
        result=loaded.get("Result", "unknown"),
        restarts=loaded.get("NRestarts"),
        oom_policy=loaded.get("OOMPolicy"),
        restart=loaded.get("Restart"),
        kill_mode=loaded.get("KillMode"),
        registration=online.state,
        problems=tuple(f"{finding.what}: {finding.why}" for finding in found),
        manager=one.manager,
        since=_stamp(said.get("StateChangeTimestamp", 0)),
        memory_high_bytes=sizes.limit(loaded.get("MemoryHigh")),
        memory_max_bytes=sizes.limit(loaded.get("MemoryMax")),
        up=None if one.said is None else not any(finding.kind in DOWN for finding in found),
        guarded=None if not loaded else all(finding.kind in DOWN for finding in found),
        registration_why=online.why,
        why=one.why or None,
        findings=found,
    )


def _stamp(microseconds: int) -> str | None:
    """0: this boot has seen no change of it."""
    if not microseconds:
        return None
    return datetime.fromtimestamp(microseconds / 1e6).astimezone().isoformat(timespec="seconds")
