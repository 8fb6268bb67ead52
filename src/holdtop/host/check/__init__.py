"""``holdtop state check``: whether all accounts meet in one queue, and what a member gains besides. It only looks.

Each check is a function of the state directory; the doctor shows what they find as a section of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from holdtop.errors import HoldtopError
from holdtop.host.check.directory import contents, members_of, way
from holdtop.host.check.programs import programs, tools_of
from holdtop.host.check.queues import queues
from holdtop.host.check.sessions import sessions, variables
from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.model.raw import StateCheck

#: Every component of the way; what lies there; who is a member; whose processes lack the group; which tool each
#: account runs; who could write what it runs; what variables say; queues beside this one.
CHECKS: Mapping[str, Callable[[str], Iterable[Said]]] = {
    "way": way,
    "contents": contents,
    "members": members_of,
    "sessions": sessions,
    "tools": tools_of,
    "programs": programs,
    "variables": variables,
    "queues": queues,
}
#: The kind of what a check that failed has not seen.
BROKE_OFF = "error"
#: What can be asked without the directory.
_WITHOUT = ("tools", "queues")


def check(state_dir: str) -> dict[str, tuple[Said, ...]]:
    """What each check says."""
    there = os.path.isdir(state_dir)
    said = {name: tuple(_tried(one, state_dir)) for name, one in CHECKS.items() if there or name in _WITHOUT}
    if there:
        return said
    return {"way": (Fact("no-state-dir", f"there is no {state_dir}: each account queues in its own home"),), **said}


def checked(state_dir: str) -> StateCheck:
    """What is wrong, and whether that is all: a check that broke off has not seen the rest."""
    every = [one for said in check(state_dir).values() for one in said]
    broken = next((one.why for one in every if isinstance(one, Unlooked) and one.kind == BROKE_OFF), None)
    return StateCheck(tuple(one for one in every if isinstance(one, Finding)), broken)


def in_short(state_dir: str) -> Iterator[Said]:
    """The same for the doctor: its facts are counted only."""
    every = [one for said in check(state_dir).values() for one in said]
    yield from (one for one in every if not isinstance(one, Fact))
    if not any(isinstance(one, Finding) for one in every):
        facts = sum(isinstance(one, Fact) for one in every)
        yield Fact("state", f"{state_dir}: {facts} things looked at (holdtop state check names them)")


def _tried(one: Callable[[str], Iterable[Said]], state_dir: str) -> Iterator[Said]:
    try:
        yield from one(state_dir)
    except (OSError, HoldtopError) as error:
        yield Unlooked(BROKE_OFF, "the rest of this check", str(error))
