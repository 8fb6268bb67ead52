"""Being told to end in the midst of an act: the record that was begun is ended first.

The command's own process gets an exception where it stands; a process that leaves while a thread still acts (the
console) ends the open records on its way out.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class _State:
    """Of the main thread, in which Python runs all handlers."""

    held_back = 0
    pending: int | None = None


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """HUP, INT or TERM raises ``SystemExit(128 + n)`` from the block, once; ignored signals stay ignored.

    For the main thread only.
    """
    old = {number: signal.getsignal(number) for number in SIGNALS}
    _State.pending = None
    for number, handler in old.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """What interrupts has to wait until the block is done: a record is written whole."""
    _State.held_back += 1
    try:
        yield
    finally:
        _State.held_back -= 1
    if not _State.held_back and _State.pending:
        number, _State.pending = _State.pending, None
        raise SystemExit(128 + number)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)  # what ends the act is not to be ended itself
    if _State.held_back:
        _State.pending = number
    else:
        raise SystemExit(128 + number)
