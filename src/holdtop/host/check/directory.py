"""The shared directory itself: the way to it, what lies in it, and whose group owns it."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator

from holdtop.errors import HoldError
from holdtop.hold.files import DIRECTORY_MODE, SHARED_FILE_MODE
from holdtop.host.access import component, components, exposed
from holdtop.host.accounts import group_name, members, primary_of
from holdtop.host.init import LOCK, QUEUES
from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.render import counted

#: How many paths a finding names.
NAMED = 5
_EXCHANGE = "they could put another state in its place: two queues, and tokens that exclude nobody"
_OPEN = "accounts outside the group may read, remove or forge tickets and tokens"
_CLOSED = "members are denied there: their holds fail to queue"


def way(state_dir: str) -> Iterator[Said]:
    """Every component from ``/`` on, with owner and mode."""
    found = exposed(os.path.dirname(state_dir), on_the_way=True)
    for one in components(state_dir):
        yield Fact("component", f"{one.path} {one.said}")
    for path, who in found.items():
        quoted = shlex.quote(path)
        yield Finding(
            "writable-way",
            f"{path} may be written by {who}",
            _EXCHANGE,
            f"sudo chown root {quoted}; chmod go-w {quoted}",
            path,
        )


def contents(state_dir: str) -> Iterator[Said]:
    """Owner, group and mode of all that lies there."""
    status = os.stat(state_dir)
    again = f"sudo holdtop state init --state-dir {shlex.quote(state_dir)} --group {group_name(status.st_gid)}"
    if status.st_uid != 0:
        what = f"{state_dir} belongs to {component(state_dir).said.split()[1]}, not to root"
        yield Finding("not-roots", what, _EXCHANGE, f"sudo chown root {shlex.quote(state_dir)}", state_dir)
    shared = [state_dir, *(os.path.join(state_dir, name) for name in sorted(os.listdir(state_dir)) if _is_queue(name))]
    wanted = dict.fromkeys(shared, DIRECTORY_MODE)
    if os.path.isfile(lock := os.path.join(state_dir, LOCK)):
        wanted[lock] = SHARED_FILE_MODE
    for path, right in wanted.items():
        mode = stat.S_IMODE(os.stat(path).st_mode)
        yield Fact("directory" if path in shared else "lock", f"{path} {component(path).said}")
        if mode & right != right:
            remedy = again if path in shared else f"sudo chmod {right:04o} {shlex.quote(path)}"
            yield Finding("closed-state", f"{path} has mode {mode:04o}, not {right:04o}", _CLOSED, remedy, path)
    for name in (*QUEUES, LOCK):
        if not os.path.lexists(path := os.path.join(state_dir, name)):
            yield Finding(
                "incomplete", f"there is no {path}", "whoever comes first makes it, as that account's", again, path
            )
    yield from _below(state_dir, status.st_gid)


def _below(state_dir: str, gid: int) -> Iterator[Said]:
    unread: list[OSError] = []
    open_to, strange = dict[str, str](), dict[str, str]()
    for top, _, files in os.walk(state_dir, onerror=unread.append):
        for path in (top, *(os.path.join(top, name) for name in files)):
            try:
                one = component(path)
            except HoldError:
                if os.path.lexists(path):
                    raise
                continue  # a ticket has gone meanwhile
            if not stat.S_ISLNK(one.mode) and one.mode & 0o007:
                open_to[path] = f"{path} {one.said}"
            if one.gid != gid:
                strange[path] = f"{path} {one.said}"
    quoted = shlex.quote(state_dir)
    if open_to:
        yield Finding(
            "open-state", f"open to everybody: {_named(open_to)}", _OPEN, f"sudo chmod -R o= {quoted}", min(open_to)
        )
    if strange:
        what = f"not of group {group_name(gid)}: {_named(strange)}"
        yield Finding("wrong-group", what, _CLOSED, f"sudo chgrp -R {group_name(gid)} {quoted}", min(strange))
    if unread:
        yield Unlooked("closed", f"{counted(len(unread), 'directory', 'directories')} of the state", str(unread[0]))


def members_of(state_dir: str) -> Iterator[Said]:
    """The group owns the hold state and nothing else."""
    gid = os.stat(state_dir).st_gid
    group, who = group_name(gid), members(gid) - {"root"}
    if who:
        yield Fact("members", f"group {group}: {', '.join(sorted(who))}; they may queue, and deny each other service")
    else:
        remedy = f"sudo holdtop state init --state-dir {shlex.quote(state_dir)} --user NAME"
        yield Finding("no-members", f"group {group} has no member", "nobody but root can queue", remedy, group)
    if owners := primary_of(gid) - {"root"}:
        what = f"{group} is the own group of {', '.join(sorted(owners))}"
        why = "whoever is a member to queue may also do what that group may with that account's files"
        yield Finding(
            "shared-group", what, why, "name another: sudo holdtop state init --group NAME --user NAME …", group
        )


def _is_queue(name: str) -> bool:
    return name.endswith("-queue") and not name.startswith(".")


def _named(said: dict[str, str]) -> str:
    more = len(said) - NAMED
    return ", ".join(list(said.values())[:NAMED]) + (f" and {more} more" if more > 0 else "")
