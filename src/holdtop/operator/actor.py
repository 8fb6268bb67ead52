"""Who acts, and with whose powers.

Root acting on what another account wrote takes that account's ids first, on a thread of its own: the kernel
itself then refuses whatever the author could not have done anyway. Comparing uids instead would leave a gap
between the comparison and the signal, and would know nothing of set-uid programs. Raw system calls change one
thread; the C library's would change the whole process.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import TypeVar

from holdtop import config
from holdtop.errors import ConfigError, RefusedError
from holdtop.hold.stop import user_name
from holdtop.payload import linux
from holdtop.payload.process import Identity, ProcessTable, UnreadableProcess, read_stat

T = TypeVar("T")

NO_GROUP = 65534


def with_powers_of(uid: int | None, work: Callable[[], T]) -> T:
    """Do ``work`` as that account, when we are root and it is not; else as we are. Raises what ``work`` does."""
    if uid is None or os.geteuid() != 0 or uid == 0:
        return work()
    from concurrent.futures import ThreadPoolExecutor  # for root only: 10 ms that nobody else has to wait

    def as_them() -> T:
        try:
            linux.become_thread_account(uid, *_groups(uid))
        except OSError as error:
            raise RefusedError(f"the powers of {user_name(uid)} cannot be taken: {error}") from error
        return work()

    with ThreadPoolExecutor(1, f"holdtop-as-{uid}") as one_thread:
        return one_thread.submit(as_them).result()


def _groups(uid: int) -> tuple[int, list[int]]:
    """The account's primary group and all of its groups; nobody's for a uid without an account."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return NO_GROUP, []
    return account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid)


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
