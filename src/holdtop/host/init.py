"""``holdtop state init``: the shared directory, complete from the instant in which it has its name.

From that instant every new hold resolves to it, so it is built aside, with its queues, and renamed into place. What
can be done before is done before: the group, its members, the exclusion from cleaning by age. An interrupted run leaves
no directory, or a whole one; running it again does what is missing.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator

from holdtop.errors import HoldError, RefusedError, UsageError
from holdtop.hold.files import ASIDE, DIRECTORY_MODE, SHARED_FILE_MODE, Dir, refuse, writing
from holdtop.hold.places import Places, of_home
from holdtop.host import ageing, history, migrate
from holdtop.host.access import exposed
from holdtop.host.accounts import Account, account, group_named, owner_of, primary_of
from holdtop.host.homes import old_states
from holdtop.host.switch import Leaving, held
from holdtop.host.values import Step
from holdtop.lean import dataclass
from holdtop.payload import linux

QUEUES = ("gpu-queue", "npu-queue")
#: Gates that only know the lock open it for writing, as shells do (``exec 9>npu.lock``): the one file that is 0660.
LOCK = "npu.lock"

#: What groupadd(8) takes on every distribution.
_GROUP = re.compile(r"[a-z_][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class Wanted:
    state_dir: str
    group: str
    #: Members to be, by name; those that the group has already stay.
    users: tuple[str, ...] = ()
    #: Homes whose queues become part of it.
    homes: tuple[str, ...] = ()


def plan(wanted: Wanted) -> list[Step]:
    """What is to be done, in this order; empty when all is there. Raises ``RefusedError`` and ``UsageError``."""
    _refuse_exposed(os.path.dirname(wanted.state_dir))
    steps = [*_group(wanted), *_ageing(wanted.state_dir)]
    if os.path.lexists(wanted.state_dir):
        moving = (step for home in wanted.homes for step in migrate.plan(wanted.state_dir, home))
        return [*steps, *_mending(wanted), *moving]
    _refuse_living(wanted)
    moved = _moved(wanted)
    for _, old in moved:
        migrate.refuse_unfit(old)
    text = f"make {wanted.state_dir} root:{wanted.group} 2770 with {', '.join(QUEUES)} and {LOCK}"
    text += "".join(f", moving {old.queue_path} and {old.token_path} into it" for _, old in moved)
    return [*steps, Step(text, lambda: make(wanted))]


def make(wanted: Wanted) -> None:
    """Build the directory aside and give it its name. Raises ``RefusedError`` when anybody has been quicker.

    The tokens of the homes are ours meanwhile: else a lane could take one between the last look and the rename.
    """
    parent_path, name = os.path.split(wanted.state_dir)
    with (
        contextlib.ExitStack() as stack,
        Dir.root(parent_path) as parent,
        writing(wanted.state_dir, "make the state directory"),
    ):
        moved = [stack.enter_context(held(*one)) for one in _moved(wanted)]
        others = [stack.enter_context(held(*one)) for one in _free(wanted)]
        migrate.sweep(parent, name)
        _build(wanted, parent, f"{ASIDE}{name}-{os.getpid()}", moved, others)
        for leaving in others:
            leaving.drain()
        for leaving in moved:
            leaving.leave()


def _build(wanted: Wanted, parent: Dir, aside: str, moved: list[Leaving], others: list[Leaving]) -> None:
    name = os.path.basename(wanted.state_dir)
    os.mkdir(aside, 0o700, dir_fd=parent.fd)
    try:
        with parent.sub(aside) as built:
            _furnish(built, _gid(wanted.group))
            for leaving in moved:
                target = f"{leaving.places.resource}-queue"
                with leaving.places.open_queue() as old, built.sub(target, make=DIRECTORY_MODE) as queue:
                    history.merge(old, queue, leaving.whose.uid)
            _refuse_living(wanted, (*moved, *others))  # the last look before new holds resolve to it
            os.fchmod(built.fd, DIRECTORY_MODE)
            os.fsync(built.fd)
        linux.rename_special(parent.fd, aside, parent.fd, name, linux.RENAME_NOREPLACE)
    except BaseException as error:
        migrate.remove_tree(parent, aside)
        if isinstance(error, FileExistsError):
            raise RefusedError(f"{wanted.state_dir} has been made meanwhile: run it again") from error
        raise
    os.fsync(parent.fd)


def _moved(wanted: Wanted) -> list[tuple[Account, Places]]:
    homes = {os.path.realpath(home): owner_of(home) for home in wanted.homes}
    return [(whose, places) for home, whose in homes.items() for places in of_home(home)]


def _free(wanted: Wanted) -> list[tuple[Account, Places]]:
    """Queues in the other homes whose tokens a lane could take."""
    moved = set(map(os.path.realpath, wanted.homes))
    return [
        (old.account, old.places)
        for old in old_states()
        if os.path.realpath(old.account.home) not in moved and os.path.isdir(old.places.queue_path)
        if old.view.token is None or old.view.token.ghost
    ]


def _furnish(directory: Dir, gid: int) -> None:
    os.fchown(directory.fd, 0, gid)
    for name in QUEUES:
        directory.sub(name, make=DIRECTORY_MODE).close()
    os.close(directory.create(LOCK, mode=SHARED_FILE_MODE))


def _group(wanted: Wanted) -> Iterator[Step]:
    """A group that owns the hold state and nothing else, with its members. Raises ``RefusedError``, ``UsageError``."""
    group = group_named(wanted.group)
    has = set(group.gr_mem) if group else set()
    if group is None and not _GROUP.fullmatch(wanted.group):
        raise UsageError(f"--group {wanted.group!r} is no name for a group: letters, digits, _ and -, 32 at most")
    if group and (owners := primary_of(group.gr_gid)):
        raise RefusedError(
            f"group {wanted.group} is the own group of {', '.join(sorted(owners))} and owns more than the hold state: "
            "name another with --group"
        )
    if not {*has, *wanted.users} - {"root"}:
        raise RefusedError("nobody but root could queue: name the members, --user NAME for each")
    if group is None:
        yield Step(f"make the system group {wanted.group}", lambda: _run("groupadd", "--system", wanted.group))
    for name in dict.fromkeys(wanted.users):
        if account(name).name not in has:
            words = ("usermod", "--append", "--groups", wanted.group, name)
            yield Step(f"make {name} a member of {wanted.group}", lambda words=words: _run(*words))  # type: ignore[misc]


def _ageing(state_dir: str) -> Iterator[Step]:
    if ageing.reached(state_dir):
        name = os.path.join(ageing.DIRECTORIES[0], ageing.exclusion(state_dir)[0])
        yield Step(f"exclude {state_dir} from cleaning by age: {name}", lambda: ageing.exclude(state_dir))


def _mending(wanted: Wanted) -> Iterator[Step]:
    """What an existing directory lacks. Raises ``RefusedError`` when it is not root's own."""
    path, status = wanted.state_dir, os.lstat(wanted.state_dir)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "no directory"
        raise RefusedError(
            f"{path} is {kind} of uid {status.st_uid}: it must be a directory of root's; look at it first"
        )
    group = group_named(wanted.group)
    with Dir.root(path) as directory:
        if _differs(status, group and group.gr_gid, DIRECTORY_MODE):
            yield Step(f"make {path} root:{wanted.group} 2770", lambda: _set(path, None, wanted.group, DIRECTORY_MODE))
        for name, mode in (*((name, DIRECTORY_MODE) for name in QUEUES), (LOCK, SHARED_FILE_MODE)):
            there = directory.status(name)
            if there is None:
                yield Step(f"make {directory.of(name)}", lambda name=name: _add(path, name))  # type: ignore[misc]
            elif _differs(there, group and group.gr_gid, mode):
                text = f"make {directory.of(name)} root:{wanted.group} {mode:04o}"
                yield Step(text, lambda name=name, mode=mode: _set(path, name, wanted.group, mode))  # type: ignore[misc]


def _differs(status: os.stat_result, gid: int | None, mode: int) -> bool:
    return (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) != (0, gid, mode)


def _add(path: str, name: str) -> None:
    with Dir.root(path) as directory, writing(path, f"make {name}"):
        if name == LOCK:
            os.close(directory.create(name, mode=SHARED_FILE_MODE))
        else:
            directory.sub(name, make=DIRECTORY_MODE).close()


def _set(path: str, name: str | None, group: str, mode: int) -> None:
    """Owner and mode by descriptor: members may have put a link there, or another name of a file elsewhere."""
    with Dir.root(path) as directory, writing(path, "set owner and mode"):
        if name is None:
            fd = os.dup(directory.fd)
        elif name == LOCK:
            fd = directory.open(name)
        else:
            with directory.sub(name) as below:
                fd = os.dup(below.fd)
        try:
            os.fchown(fd, 0, _gid(group))
            os.fchmod(fd, mode)
        finally:
            os.close(fd)


def _gid(group: str) -> int:
    found = group_named(group)
    if found is None:
        raise RefusedError(f"there is no group {group}, though it was just made: see getent group {group}")
    return found.gr_gid


def _refuse_exposed(parent: str) -> None:
    try:
        found = exposed(parent, on_the_way=True)
    except HoldError as error:
        raise RefusedError(str(error)) from error
    for path, who in found.items():
        raise RefusedError(
            f"{path} may be written by {who}, who could exchange the state: chmod go-w {path}, chown root"
        )


def _refuse_living(wanted: Wanted, ours: Iterable[Leaving] = ()) -> None:
    """New holds would resolve to the directory beside a queue that lives. Raises ``RefusedError``."""
    tokens = {os.path.realpath(one.places.token_path) for one in ours}
    for old in old_states():
        living = old.waiting if os.path.realpath(old.places.token_path) in tokens else old.living
        if living:
            raise RefusedError(f"{old.account.name} still uses its home: {living[0]}; wait until that has ended")
    migrate.refuse_stale_tools(wanted.state_dir)


def _run(*words: str) -> None:
    """A program of the box. Raises ``RefusedError`` with what it said."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    except OSError as error:
        refuse(error, words[0], "run it")
    if done.returncode:
        raise RefusedError(f"{' '.join(words)}: status {done.returncode}: {' '.join(done.stderr.split())}")
