"""Who could write a path, or exchange it: every component of the way there counts, links and their targets too.

A file's own mode says little: whoever may write a directory above it may rename it away and put another there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator

from holdtop.errors import PlaceError
from holdtop.hold.files import refuse
from holdtop.hold.stop import user_name
from holdtop.host.accounts import group_name, members
from holdtop.lean import dataclass, replace

#: As many links as the kernel follows (path_resolution(7)).
MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Component:
    """One step on the way to a path."""

    path: str
    uid: int
    gid: int
    #: File type and permission bits (inode(7)).
    mode: int
    #: An access control list may let further accounts in; the group's bits are then its mask (acl(5)).
    has_acl: bool
    #: The last one: what is in it may be made and removed by whoever may write it.
    last: bool

    @property
    def said(self) -> str:
        """Owner and mode, as ``ls`` shows them."""
        return f"{stat.filemode(self.mode)} {user_name(self.uid)}:{group_name(self.gid)}"

    def others(self, trusted: Collection[int]) -> Iterator[str]:
        """Who else than root and these uids may write it, or what it leads to: nobody, if nothing is given."""
        if self.uid not in {0, *trusted}:
            yield f"its owner {user_name(self.uid)}"
        if stat.S_ISLNK(self.mode) or (self.mode & stat.S_ISVTX and not self.last):
            return  # a link has no mode; in a sticky directory only the owner of an entry exchanges it
        if self.mode & stat.S_IWOTH:
            yield "everybody"
        if self.mode & stat.S_IWGRP:
            names = members(self.gid) - {"root", *map(user_name, trusted)}
            if names:
                yield f"group {group_name(self.gid)} ({', '.join(sorted(names))})"
            if self.has_acl:
                yield "whom its access control list names"


def components(path: str) -> list[Component]:
    """Every component from ``/`` on, links included, in the order of the look-up. Raises ``PlaceError``."""
    found: dict[str, Component] = {}
    waiting = _parts(os.path.abspath(path))
    at, links = "/", 0
    found[at] = component("/", last=not waiting)
    while waiting:
        name = waiting.pop(0)
        if name == "..":
            at = os.path.dirname(at)
            continue
        one = component(os.path.join(at, name), last=not waiting)
        found[one.path] = one
        if not stat.S_ISLNK(one.mode):
            at = one.path
            continue
        links += 1
        if links > MOST_LINKS:
            raise PlaceError(f"{path} leads through more than {MOST_LINKS} links")
        target = os.readlink(one.path)
        at = "/" if target.startswith("/") else at
        waiting = _parts(target) + waiting
    return list(found.values())


def exposed(path: str, trusted: Collection[int] = (), *, on_the_way: bool = False) -> dict[str, str]:
    """Components that others than root and these uids may exchange or write: path -> who. Raises ``PlaceError``.

    ``on_the_way``: only one entry of the directory ``path`` matters, which root or one of these uids owns.
    """
    steps = components(path)
    if on_the_way:
        steps[-1] = replace(steps[-1], last=False)
    found = {one.path: ", ".join(one.others(trusted)) for one in steps}
    return {path: who for path, who in found.items() if who}


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def component(path: str, *, last: bool = True) -> Component:
    """This path by itself, a link as a link. Raises ``PlaceError``."""
    try:
        status = os.lstat(path)
        acl = bool(status.st_mode & stat.S_IWGRP) and not stat.S_ISLNK(status.st_mode) and _has_acl(path)
    except OSError as error:
        refuse(error, path, "look at who may write it")
    return Component(path, status.st_uid, status.st_gid, status.st_mode, acl, last)


def _has_acl(path: str) -> bool:
    try:
        return "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False  # this file system has none
