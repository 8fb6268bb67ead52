"""The terminal's manners: may we draw here, and how do we leave whatever happens.

Textual leaves the alternate screen and the mouse on after TERM and HUP, and spins when the terminal vanishes
while HUP is ignored. Here a signal asks the program to end, a thread notices a dead terminal, and whoever is
still there after ``PATIENCE`` is ended with the terminal put right as far as it can be.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable
from typing import Any

#: Seconds that an orderly end may take.
PATIENCE = 1.3
#: Seconds for the last writes to a terminal that may take none.
_LAST_WRITES = 0.6
SIGNALS = (signal.SIGTERM, signal.SIGHUP)

#: Paste, wrap, in-band resize, mouse (four ways), keyboard protocol, alternate screen, cursor, focus, colours.
RESTORE = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l\x1b[0m"
)


def why_not() -> str | None:
    """Why the console cannot be drawn here; ``None`` when it can. Imports nothing of Textual."""
    if not (sys.__stdin__ and sys.__stderr__ and sys.__stdin__.isatty() and sys.__stderr__.isatty()):
        return "the console needs a terminal for input and output; holdtop status shows the same without one"
    if os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return "the console needs a terminal that can move its cursor, TERM says otherwise; try holdtop status"
    return None


class Leaving:
    """Ends the program within 2 s of TERM, HUP or the terminal's end. ``ask`` is called from any thread."""

    def __init__(self, ask: Callable[[], object], last: Callable[[], object] = lambda: None) -> None:
        """``last`` is called before a program that does not leave is left all the same."""
        self._ask, self._last = ask, last
        self._modes: list[Any] | None = None
        self._old: dict[signal.Signals, Any] = {}
        self._done = threading.Event()
        #: The signal that ended us, or 0.
        self.signal = 0

    def __enter__(self) -> Leaving:
        with contextlib.suppress(termios.error):
            self._modes = termios.tcgetattr(0)
        for number in SIGNALS:
            ignored = signal.getsignal(number) is signal.SIG_IGN
            if not (ignored and number is signal.SIGHUP):  # that is what nohup means; the terminal is watched
                self._old[number] = signal.signal(number, self._on_signal)
        threading.Thread(target=self._watch, name="holdtop-terminal", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.signal = self.signal or number
        self._leave()

    def _leave(self) -> None:
        # Not from here: a loop that sleeps in the kernel is woken from another thread only.
        threading.Thread(target=self._ask, name="holdtop-ask", daemon=True).start()
        threading.Thread(target=self._insist, name="holdtop-leaving", daemon=True).start()

    def _watch(self) -> None:
        """Wait in the kernel until the terminal is gone; a healthy one costs nothing."""
        poll = select.poll()
        poll.register(0, 0)
        while not self._done.is_set():
            if any(what & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, what in poll.poll(1000)):
                self.signal = self.signal or signal.SIGHUP
                self._leave()
                return

    def _insist(self) -> None:
        if self._done.wait(PATIENCE):
            return
        # Either may hang: on a stopped terminal, a dead file system.
        writers = [threading.Thread(target=last, daemon=True) for last in (self._restore, self._last)]
        for writer in writers:
            writer.start()
        end = time.monotonic() + _LAST_WRITES
        for writer in writers:
            writer.join(max(0.0, end - time.monotonic()))
        os._exit(128 + (self.signal or signal.SIGTERM))

    def _restore(self) -> None:
        with contextlib.suppress(OSError, termios.error):
            if self._modes is not None:
                termios.tcsetattr(0, termios.TCSANOW, self._modes)
            os.write(2, RESTORE)
