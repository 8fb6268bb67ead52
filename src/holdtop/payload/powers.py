"""With whose powers processes are signalled: root in another account's place has that account's, and no more.

What an account wrote about processes is believed as far as that account could have acted itself. So the acting
thread takes its ids, and the kernel judges: comparing uids instead would leave a gap between the comparison and the
signal, and would know nothing of set-uid programs, nor of what they have started. Raw system calls change one thread;
the C library's would change the whole process.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import pwd
from collections.abc import Callable, Iterator
from typing import TypeVar

from holdtop.errors import HoldError
from holdtop.payload import linux

T = TypeVar("T")
#: Does a piece of work with somebody's powers.
Act = Callable[[Callable[[], None]], None]

NO_GROUP = 65534


def with_powers_of(uid: int | None, work: Callable[[], T]) -> T:
    """Do ``work`` as that account, when we are root and it is not; else as we are.

    Raises what ``work`` does, and ``HoldError`` when the powers cannot be taken.
    """
    done: list[T] = []
    with powers_of(uid) as act:
        act(lambda: done.append(work()))
    return done[0]


@contextlib.contextmanager
def powers_of(uid: int | None) -> Iterator[Act]:
    """The same for several pieces of work, in one thread of its own. ``None``: our own powers."""
    if uid is None or os.geteuid() != 0 or uid == 0:
        yield lambda work: work()
        return
    from concurrent.futures import ThreadPoolExecutor  # for root only: 10 ms that nobody else has to wait

    codecs.lookup("ascii")  # the thread may be unable to load it: our interpreter can lie below a private home
    with ThreadPoolExecutor(1, f"holdtop-as-{uid}") as one_thread:
        try:
            one_thread.submit(linux.become_thread_account, uid, *_groups(uid)).result()
        except (OSError, RuntimeError) as error:  # the latter: no thread is to be had
            raise HoldError(f"the powers of uid {uid} cannot be taken: {error}") from error
        yield lambda work: one_thread.submit(work).result()


def _groups(uid: int) -> tuple[int, list[int]]:
    """The account's primary group and all of its groups; nobody's for a uid without an account."""
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        return NO_GROUP, []
    return account.pw_gid, os.getgrouplist(account.pw_name, account.pw_gid)
