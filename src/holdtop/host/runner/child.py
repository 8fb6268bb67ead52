"""A look as another account: a child that is that account, with its groups and nothing of root's, and answers once.

A thread with borrowed ids would not do here: access(2) asks for the real uid, and what is asked may hang.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from holdtop.errors import UnseenError
from holdtop.host.accounts import Account

#: For the whole look, in seconds; a dead network disk keeps it no longer.
TIMEOUT = 30.0
#: Of the answer, in bytes: that account could have had a hand in it.
LONGEST = 1 << 20


def ask_as(account: Account, work: Callable[[], Any], timeout: float = TIMEOUT) -> Any:
    """What ``work`` returns within ``timeout`` seconds, as JSON brings it over.

    Raises ``UnseenError``: no powers, no answer, a failure.
    """
    if os.geteuid() not in (0, account.uid):
        raise UnseenError(f"only root can look as {account.name}: run it with sudo")
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(account, work, writing))
    child.start()
    writing.close()
    try:
        said = reading.recv_bytes(LONGEST) if reading.poll(timeout) else None
    except (EOFError, OSError) as error:
        raise UnseenError(f"the look as {account.name} ended without an answer") from error
    finally:
        reading.close()
        child.kill()  # our own child, not waited for yet
        child.join(TIMEOUT)
    if said is None:
        raise UnseenError(f"the look as {account.name} did not end within {timeout:g} s: does a disk hang?")
    answer = json.loads(said)
    if "failed" in answer:
        raise UnseenError(f"the look as {account.name} failed: {answer['failed']}")
    return answer["said"]


def _answer(account: Account, work: Callable[[], Any], writing: Connection) -> None:
    try:
        _become(account)
        said = {"said": work()}
    except Exception as error:  # noqa: BLE001  # told where somebody sees it
        said = {"failed": f"{type(error).__name__}: {error}"}
    writing.send_bytes(json.dumps(said).encode())


def _become(account: Account) -> None:
    """For good: as the service manager does it for ``User=`` (systemd.exec(5))."""
    if os.geteuid() == account.uid:
        return
    os.setgroups(os.getgrouplist(account.name, account.gid))
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    os.chdir("/")
