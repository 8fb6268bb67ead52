"""State in the homes: what lies there of the time before a shared directory, and whether anything of it lives."""

from __future__ import annotations

import os
from collections.abc import Iterator

from holdtop.hold.look import look
from holdtop.hold.places import Places, of_home
from holdtop.hold.view import QueueView, TokenFile
from holdtop.host.accounts import Account, with_homes
from holdtop.lean import dataclass


@dataclass(frozen=True, slots=True)
class OldState:
    """One resource's queue and token in one home."""

    account: Account
    places: Places
    view: QueueView

    @property
    def living(self) -> list[str]:
        """Who holds or waits there, or may: each a clause. What cannot be read may live."""
        return [*holders(self.view), *self.waiting]

    @property
    def waiting(self) -> list[str]:
        """The same, but for the token."""
        return [*waiting(self.view), *self.view.problems]


def old_states() -> list[OldState]:
    """In every home that this account can look into."""
    return [OldState(account, places, look(places)) for account in with_homes() for places in of_home(account.home)]


def holders(view: QueueView) -> Iterator[str]:
    if view.token is not None and (why := alive(view.token)):
        yield f"{view.token_path} {why}"


def alive(token: TokenFile) -> str | None:
    """Why a token's owner lives or may live; ``None`` when it is a proven ghost, or nobody's (empty, garbled)."""
    if token.locked:
        return "is held: its life lock is taken"
    if token.kind == "holdtop":
        return None if token.ghost else f"is held by lane {token.lane} (pid {token.pid}), or that cannot be known here"
    if token.kind == "shell" and token.pid is not None and exists(token.pid):
        return f"names pid {token.pid} (lane {token.lane}), which is alive"
    return None


def waiting(view: QueueView) -> Iterator[str]:
    for ticket in view.tickets:
        if not ticket.dead:
            yield f"{view.queue_path}: ticket {ticket.id} of lane {ticket.lane} (pid {ticket.pid})"
    for ticket in view.ran:
        if not ticket.dead and ticket.id not in {one.id for one in view.tickets}:
            yield f"{view.queue_path}: hold {ticket.id} of lane {ticket.lane} (pid {ticket.pid}) runs"
    for entry in view.entries:
        if entry.pid is not None and exists(entry.pid):
            yield f"{view.queue_path}: {entry.name}, which names the live pid {entry.pid}"


def exists(pid: int) -> bool:
    """Whether there is such a process; True when it cannot be known."""
    try:
        os.close(os.pidfd_open(pid))
    except (ProcessLookupError, OverflowError):  # a number that anybody may have written can be any
        return False
    except OSError:
        return True
    return True
