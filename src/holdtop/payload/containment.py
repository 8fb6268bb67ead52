"""Where a payload is put so that nothing of it gets lost: the choice behind ``--contain``.

Descent from two subreapers and the mark are always in force. A cgroup comes on top wherever one can be had: below
the hold's own, never out of it; else as a scope that the user's service manager makes for us, which is injected.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Literal, Protocol, get_args

from holdtop.errors import HoldError
from holdtop.lean import dataclass
from holdtop.payload.cgroup import PREFIX, Cgroup, path_of

Mode = Literal["auto", "cgroup", "subreaper", "pidns"]
MODES: tuple[Mode, ...] = get_args(Mode)


class ScopeMaker(Protocol):
    """A service manager that makes a scope around a process."""

    def why_not(self) -> str | None:
        """Why it may not be asked; ``None`` when it may."""
        ...

    def start(self, name: str, pid: int) -> None:
        """Put ``pid`` into the new scope ``NAME.scope``. Raises ``HoldError``."""
        ...


class NoScopes:
    """No service manager."""

    def why_not(self) -> str | None:
        return "no service manager can be asked"

    def start(self, name: str, pid: int) -> None:
        raise HoldError(f"no service manager can be asked for {name} around pid {pid}")


@dataclass(slots=True)
class Place:
    """The place of one payload, prepared before it starts; both processes of a hold have it."""

    name: str
    mode: Mode = "subreaper"
    #: Made for the payload; ``None`` when there is none, or not yet.
    cgroup: Cgroup | None = None
    #: Makes a scope around the payload's root at its start.
    scope: Callable[[str, int], None] | None = None
    #: Why there is no cgroup.
    why: str = ""

    @property
    def means(self) -> tuple[str, ...]:
        """What is in force, strongest first."""
        namespace = ("pidns",) if self.mode == "pidns" else ()
        return (*namespace, *(("cgroup",) if self.cgroup or self.scope else ()), "subreaper", "marker")

    @property
    def groups(self) -> tuple[Cgroup, ...]:
        return (self.cgroup,) if self.cgroup else ()

    def fork(self) -> int:
        """``os.fork``, with the child in its place at once where the kernel can do that; ``put`` sees to the rest."""
        if self.cgroup:
            with contextlib.suppress(OSError):
                return self.cgroup.fork()
        return os.fork()

    def put(self, pid: int) -> None:
        """Put the payload's root there, before it execs. Raises ``OSError`` or ``HoldError`` if it must be there.

        Where it need not (``auto``), a failure is remembered in ``why``.
        """
        try:
            if self.cgroup:
                self._put(self.cgroup, pid)
            elif self.scope:
                self.scope(self.name, pid)
                self.cgroup = self._alone(pid)
        except (OSError, HoldError) as error:
            self.remove()
            self.cgroup, self.scope, self.why = None, None, str(error)
            if self.mode == "cgroup":
                raise

    @staticmethod
    def _alone(pid: int) -> Cgroup:
        """The cgroup in which nobody else is: all that will ever be in it is ended with the payload."""
        cgroup = Cgroup.of(pid)
        if cgroup is None or cgroup.procs() != {pid}:
            raise HoldError(f"pid {pid} has no cgroup of its own, but is in {cgroup and cgroup.path}")
        return cgroup

    @staticmethod
    def _put(cgroup: Cgroup, pid: int) -> None:
        if path_of(pid) == cgroup.path:
            return
        try:
            cgroup.put(pid)
        except FileNotFoundError:
            os.mkdir(cgroup.directory)  # swept away by another hold while it was still empty
            cgroup.put(pid)

    def remove(self) -> None:
        """Remove the cgroup as far as nobody is left in it. A scope is removed by its own manager."""
        if self.cgroup and self.cgroup.ours:
            self.cgroup.remove()


def prepare(mode: Mode, name: str, scopes: ScopeMaker) -> Place:
    """Choose and make the place. Raises ``HoldError`` when a cgroup was asked for and none can be had."""
    place = Place(PREFIX + name, mode)
    if mode == "subreaper":
        return place
    also = ""
    home = Cgroup.of(os.getpid())
    if home is None:
        place.why = "no version 2 cgroup hierarchy is mounted that shows this process's own cgroup"
    elif not _made(place, home):
        refused = scopes.why_not()
        place.scope = None if refused else scopes.start
        also = f", and {refused}"
    if mode == "cgroup" and not (place.cgroup or place.scope):
        raise HoldError(f"--contain cgroup: {place.why}{also}; Delegate=yes in the unit gives one")
    return place


def _made(place: Place, home: Cgroup) -> bool:
    """Whether a cgroup could be made below the hold's own; why not is remembered."""
    if not home.writable:
        place.why = f"the cgroup {home.path} is not delegated to this account"
        return False
    _sweep(home)
    try:
        place.cgroup = home.make(place.name)
    except OSError as error:
        place.why = f"{home.path}: {error.strerror}"
    return place.cgroup is not None


def _sweep(home: Cgroup) -> None:
    """Remove the empty cgroups of holds that were killed."""
    with contextlib.suppress(OSError), os.scandir(home.directory) as entries:
        for entry in entries:
            group = Cgroup(f"{home.path.rstrip('/')}/{entry.name}", entry.path)
            if group.ours and group.populated() is False:
                group.remove()


def possible(scopes: ScopeMaker) -> tuple[str, ...]:
    """What a hold started from here would have, without making anything."""
    home = Cgroup.of(os.getpid())
    cgroup = home is not None and (home.writable or scopes.why_not() is None)
    return (*(("cgroup",) if cgroup else ()), "subreaper", "marker")
