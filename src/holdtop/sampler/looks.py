"""The state on disk of each resource, where it lies now: places are resolved again at each look."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping

from holdtop.errors import HoldtopError
from holdtop.hold import places
from holdtop.hold.look import look
from holdtop.hold.places import Places
from holdtop.hold.view import QueueView
from holdtop.model.raw import Look

#: Seconds after which a suspicious look is repeated: a release has several steps, and a look may fall between them.
AGAIN = 0.02


def look_all(
    resources: Collection[str] | None,
    state_dir: str | None,
    environ: Mapping[str, str] = os.environ,
    before: Collection[Look] = (),
) -> tuple[Look, ...]:
    """One look at each of the resources, or at all that have state, and always at ``gpu``. Never raises.

    ``before``: the looks of a moment ago.
    """
    if resources is None:
        try:
            resources = places.known_resources(state_dir, environ)
        except HoldtopError:
            resources = ("gpu",)  # what is wrong is found again, and said, below
    views = {one.view.queue_path: one.view for one in before if one.view}
    return tuple(_look(resource, state_dir, environ, views) for resource in resources)


def _look(resource: str, state_dir: str | None, environ: Mapping[str, str], before: Mapping[str, QueueView]) -> Look:
    try:
        found = places.resolve(resource, state_dir, environ)
    except (HoldtopError, OSError) as error:
        return Look(resource, None, str(error), half_named=_half_named(resource, state_dir, environ))
    view = steady(found, before.get(found.queue_path))
    return Look(found.resource, view, elsewhere=tuple(_elsewhere(found, environ)))


def steady(found: Places, before: QueueView | None = None) -> QueueView:
    """A view in which nothing dead was seen, or seen twice."""
    view = look(found, before)
    if (view.token and view.token.ghost) or any(ticket.dead for ticket in view.tickets):
        time.sleep(AGAIN)
        view = look(found, view)
    return view


def _half_named(resource: str, state_dir: str | None, environ: Mapping[str, str]) -> bool:
    prefix = places.prefix(resource)
    named = [bool(environ.get(f"{prefix}_{name}")) for name in ("QUEUE_DIR", "TOKEN_FILE")]
    return state_dir is None and any(named) and not all(named)


def _elsewhere(found: Places, environ: Mapping[str, str]) -> Iterator[QueueView]:
    """Places that a lane with another environment would resolve to, if anybody holds or waits there.

    A state directory that was named on the command line is meant to be apart.
    """
    name, others = found.resource, list[Places]()
    shared, home = places.DEFAULT_STATE_DIR, environ.get("HOME", "")
    if found.rule in ("variables", "state-dir-variable") and os.path.isdir(shared):
        others.append(Places(name, "default-state-dir", shared, f"{name}-queue", shared, f"{name}-token"))
    if found.rule not in ("flag", "home") and os.path.isdir(home):
        upper = name.upper()
        others.append(Places(name, "home", home, f"{upper}-QUEUE", home, f"{upper}-TOKEN"))
    for other in others:
        if os.path.abspath(other.token_path) != os.path.abspath(found.token_path):
            view = look(other)
            if view.token is not None or any(ticket.locked for ticket in view.tickets):
                yield view
