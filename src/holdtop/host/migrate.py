"""``holdtop state migrate``: a home's queue becomes part of the shared one.

The old token is ours throughout. What is moved is built aside, as a whole queue, and exchanged with the one that is
there: a run that is killed before that has changed nothing, and one that is killed after it has only the old paths
left to remove, which running it again does.
"""

from __future__ import annotations

import contextlib
import os
import shutil

from holdtop.errors import RefusedError
from holdtop.hold import queue as queues
from holdtop.hold.files import ASIDE, DIRECTORY_MODE, Dir, writing
from holdtop.hold.look import look
from holdtop.hold.places import Places, of_home, of_state_dir
from holdtop.host import history
from holdtop.host.accounts import Account, owner_of, with_homes
from holdtop.host.homes import exists, holders, waiting
from holdtop.host.switch import Leaving, held, left_behind
from holdtop.host.tools import tools
from holdtop.host.values import Step
from holdtop.payload import linux


def plan(state_dir: str, home: str) -> list[Step]:
    """A step for each resource that has state in this home. Raises ``RefusedError`` and ``UsageError``."""
    whose, home = owner_of(home), os.path.abspath(home)
    if not os.path.isdir(state_dir):
        raise RefusedError(f"there is no {state_dir}: holdtop state init --migrate-from {home} makes it of this")
    refuse_stale_tools(state_dir)
    steps = []
    for old in of_home(home):
        refuse_unfit(old)
        _refuse_in_use(state_dir, old.resource)
        text = f"move {old.queue_path} and {old.token_path} of {whose.name} into {state_dir}"
        steps.append(Step(text, lambda old=old: move(state_dir, whose, old)))  # type: ignore[misc]
    return steps


def move(state_dir: str, whose: Account, old: Places) -> None:
    """Either complete or undone. Raises ``RefusedError`` and what a hold would raise."""
    with held(whose, old) as leaving, Dir.root(state_dir) as state, writing(state_dir, "move a queue into it"):
        sweep(state, f"{old.resource}-queue")
        refuse_waiting(old)
        _exchange(state, leaving)
        leaving.leave()


def _exchange(state: Dir, leaving: Leaving) -> None:
    """Put a queue with both histories in the place of the one that is there, which nobody uses."""
    name = f"{leaving.places.resource}-queue"
    aside = f"{ASIDE}{name}-{os.getpid()}"
    state.sub(name, make=DIRECTORY_MODE).close()
    with state.sub(name) as there, queues.locked(there, token_dir=state):
        _refuse_in_use(state.path, leaving.places.resource)
        try:
            with state.sub(aside, make=DIRECTORY_MODE) as built, leaving.places.open_queue() as old:
                history.copy(there, built)
                history.merge(old, built, leaving.whose.uid)
                os.fsync(built.fd)
            linux.rename_special(state.fd, aside, state.fd, name, linux.RENAME_EXCHANGE)
        finally:
            remove_tree(state, aside)  # who waits for its lock finds it gone, and queues anew
    os.fsync(state.fd)


def refuse_stale_tools(state_dir: str) -> None:
    """Raises ``RefusedError`` when an account that can be seen has a tool that may not find the shared directory."""
    for one in with_homes():
        for tool in tools(one, state_dir):
            if tool.stale:
                raise RefusedError(f"{tool.said}: replace it (holdtop state shims --user {one.name}), or remove it")


def refuse_unfit(old: Places) -> None:
    """Raises ``RefusedError`` when something there lives, may live, or cannot be judged."""
    view = look(old)
    for said in (*holders(view), *waiting(view), *left_behind(view), *view.problems):
        raise RefusedError(f"{said}; wait until that has ended, or holdtop recover")
    for entry in view.entries:
        if entry.pid is None:
            raise RefusedError(
                f"{old.queue_path}: {entry.name} is nobody's ticket that can be judged: move it away first"
            )


def refuse_waiting(old: Places) -> None:
    """The last look, with the token already ours. Raises ``RefusedError``."""
    view = look(old)
    for said in (*waiting(view), *left_behind(view), *view.problems):
        raise RefusedError(f"{said}; wait until that has ended")


def _refuse_in_use(state_dir: str, resource: str) -> None:
    for places in of_state_dir(state_dir):
        if places.resource != resource:
            continue
        view = look(places)
        token = [f"{view.token_path} lies there: {resource} is held, or to be recovered"] if view.token else []
        for said in (*token, *waiting(view), *left_behind(view), *view.problems):
            raise RefusedError(f"{state_dir} is in use: {said}; wait until that has ended")


def sweep(parent: Dir, name: str) -> None:
    """Remove what a killed run has built aside."""
    for left in parent.names():
        owner = left.removeprefix(f"{ASIDE}{name}-")
        if owner != left and owner.isdecimal() and not exists(int(owner)):
            remove_tree(parent, left)


def remove_tree(parent: Dir, name: str) -> None:
    """Follows no link (``shutil.rmtree.avoids_symlink_attacks``)."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(name, dir_fd=parent.fd)
