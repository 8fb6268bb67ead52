"""A recorder in a thread of its own: a state or a disk that hangs stops the recording, and nobody who looks."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol

from holdtop.model.values import Snapshot

#: So many looks may wait; of more the newest.
WAITING = 30
#: Seconds for them in the end.
LAST = 5.0


class Taker(Protocol):
    """``Recorder``, or a memory."""

    def take(self, snapshot: Snapshot) -> None: ...

    def close(self) -> None: ...


class Aside:
    """Hands on what it takes, in order."""

    def __init__(self, taker: Taker) -> None:
        """``taker`` is this thread's from now on."""
        self._taker = taker
        self._looks: deque[Snapshot] = deque(maxlen=WAITING)
        self._closed = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="holdtop recorder", daemon=True)
        self._thread.start()

    def take(self, snapshot: Snapshot) -> None:
        """Returns at once."""
        with self._news:
            self._looks.append(snapshot)
            self._news.notify()

    def close(self) -> None:
        """When all is handed on, unless that hangs."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join(LAST)

    def _work(self) -> None:
        while look := self._next():
            self._taker.take(look)
        self._taker.close()

    def _next(self) -> Snapshot | None:
        """``None``: there is none, and none will come."""
        with self._news:
            self._news.wait_for(lambda: self._looks or self._closed)
            return self._looks.popleft() if self._looks else None
