"""Accounts and groups of the box, as its own databases say (getpwent(3), getgrent(3))."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
from collections.abc import Iterator

from holdtop.errors import UsageError
from holdtop.lean import dataclass
from holdtop.payload.members import real_uid
from holdtop.payload.process import scan


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int
    home: str


def account(name: str) -> Account:
    """Raises ``UsageError`` when there is none of that name."""
    try:
        return _of(pwd.getpwnam(name))
    except KeyError:
        raise UsageError(f"there is no account {name!r} on this box (getent passwd)") from None


def accounts() -> list[Account]:
    """Every account, one for each uid."""
    return list({entry.pw_uid: _of(entry) for entry in reversed(pwd.getpwall())}.values())[::-1]


def _at_work() -> Iterator[Account]:
    """Accounts with a live process: a directory service may list none, and know those that are asked for."""
    for uid in {uid for pid in scan() if (uid := real_uid(pid)) is not None}:
        with contextlib.suppress(KeyError):
            yield _of(pwd.getpwuid(uid))


def with_homes() -> Iterator[Account]:
    """Accounts with a home directory of their own: each home once."""
    seen: set[tuple[int, int]] = set()
    for one in dict.fromkeys((*accounts(), *_at_work())):
        try:
            status = os.stat(one.home)
        except (OSError, ValueError):
            continue
        if status.st_uid == one.uid and (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield one


def owner_of(home: str) -> Account:
    """The account that owns this directory. Raises ``UsageError``."""
    try:
        return _of(pwd.getpwuid(os.stat(home).st_uid))
    except (OSError, KeyError) as error:
        why = error.strerror if isinstance(error, OSError) else "nobody on this box owns it"
        raise UsageError(f"{home} is no home of an account: {why}") from error


def group_named(name: str) -> grp.struct_group | None:
    try:
        return grp.getgrnam(name)
    except KeyError:
        return None


def group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def primary_of(gid: int) -> set[str]:
    """Names of the accounts that have this group as their own."""
    return {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == gid}


def members(gid: int) -> set[str]:
    """Everybody who has this group, by name: explicitly, or as the primary one."""
    try:
        named = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        named = set()
    return named | primary_of(gid)


def _of(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)
