"""One read, again and again, in a daemon thread of its own.

A sensor read can block for ever in the kernel, and no thread that waits in one can be ended. So each source has
exactly one thread: while it hangs nobody waits for it, no second one is started, and what it gave last grows old.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: A source rests this many times longer than its read computed: none takes more than a twentieth of a CPU.
REST = 19.0
#: A read that has not returned after so many seconds hangs: nobody waits for it any more.
HANGS = 1.5


class Source(Generic[T]):
    """``newest`` is the last answer and the ``time.monotonic()`` at which it came, or ``None``."""

    def __init__(self, name: str, read: Callable[[], T], period: float = 0.0) -> None:
        self.name = name
        self.newest: tuple[T, float] | None = None
        self._read = read
        self._period = period
        self._due = 0.0
        self._pending_since: float | None = None
        self._wake = threading.Event()
        self._done = threading.Event()
        self._closed = False
        threading.Thread(target=self._work, name=f"holdtop {name}", daemon=True).start()

    def ask(self) -> None:
        """Start a read, unless one is under way or the last one was just now."""
        now = time.monotonic()
        if self._pending_since is None and not self._closed and now >= self._due:
            self._pending_since = now
            self._done.clear()
            self._wake.set()

    @property
    def silent_for(self) -> float | None:
        """Seconds since a read was started that has not returned; ``None`` when none is under way."""
        since = self._pending_since
        return None if since is None else time.monotonic() - since

    def wait(self, until: float) -> None:
        """Until the read that was asked for is done, or the monotonic instant ``until``."""
        silent = self.silent_for
        if silent is not None and silent < HANGS:
            self._done.wait(max(0.0, until - time.monotonic()))

    def hurry(self) -> None:
        """The next ``ask`` starts a read, whatever its period."""
        self._due = 0.0

    def close(self) -> None:
        """The thread ends as soon as it is not in a read; joins nothing."""
        self._closed = True
        self._wake.set()

    def _work(self) -> None:
        while self._wake.wait() and not self._closed:
            self._wake.clear()
            started, computed = time.monotonic(), time.thread_time()
            answer = self._read()
            now, computed = time.monotonic(), time.thread_time() - computed
            self.newest = (answer, now)
            self._due = max(started + self._period, now + REST * computed)
            self._pending_since = None
            self._done.set()
