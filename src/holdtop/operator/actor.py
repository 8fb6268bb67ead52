"""Who may be acted upon, and by whom."""

from __future__ import annotations

import os

from holdtop import config
from holdtop.errors import ConfigError, RefusedError
from holdtop.hold.stop import user_name
from holdtop.payload.process import Identity, ProcessTable, UnreadableProcess, read_stat


def refuse_unless_heeded(uid: int, ticket_id: str) -> None:
    """A hold of ``uid`` heeds its own account, root and the configured operators. Raises ``RefusedError``."""
    me = os.geteuid()
    if me in (uid, 0):
        return
    try:
        operators = config.operator_uids()
    except ConfigError as error:
        raise RefusedError(f"who may stop holds of other accounts cannot be read: {error}") from error
    if me not in operators:
        raise RefusedError(
            f"ticket {ticket_id} belongs to {user_name(uid)}; {user_name(me)} is neither its owner nor root "
            f"nor an operator named in {config.SYSTEM_FILE}"
        )


def refuse_untouchable(pid: int) -> None:
    """Nobody ends init, this very process or what it runs under. Raises ``RefusedError``."""
    if pid <= 1:
        raise RefusedError(f"pid {pid} is never signalled")
    if pid == os.getpid():
        raise RefusedError(f"pid {pid} is this very command")
    if pid in ProcessTable().ancestors(os.getpid()):
        raise RefusedError(f"pid {pid} is an ancestor of this command: it would end itself")


def refuse_unless_same(identity: Identity) -> None:
    """Raises ``RefusedError`` when the pid is another process now or cannot be looked at."""
    try:
        stat = read_stat(identity.pid)
    except UnreadableProcess as error:
        raise RefusedError(f"{error}: whether it is still the same process cannot be known") from error
    if stat is not None and stat.start_ticks != identity.start_ticks:
        raise RefusedError(f"pid {identity.pid} is another process now ({stat.name}): the one that was meant is gone")
