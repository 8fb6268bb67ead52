"""Signals as messages: each arrives as one byte in a pipe and is read at a safe point, never in between.

From the moment an inbox exists no listed signal can end or interrupt the process; whoever owns the loop reads
them where it is safe. That is how a hold starts without a window.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from types import FrameType

#: What acts on a hold.
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
#: What a hold must not be stopped by, with its payload running on.
STOPPING = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def _noted(_signum: int, _frame: FrameType | None) -> None:
    """The interpreter has already written the number to the pipe; there is nothing to do here."""


class SignalInbox:
    """Owns this process's dispositions. One at a time; make a new one after a fork."""

    def __init__(self, signums: Iterable[signal.Signals], *, hup_ignored: bool) -> None:
        """``hup_ignored``: HUP came ignored (``nohup``) and stays so."""
        self.hup_ignored = hup_ignored
        self.fd, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for signum in signums:
            if not (signum == signal.SIGHUP and hup_ignored):
                signal.signal(signum, _noted)
        for signum in STOPPING:
            signal.signal(signum, signal.SIG_IGN)

    def drain(self) -> list[signal.Signals]:
        """What has arrived since the last call, in order."""
        try:
            return [signal.Signals(number) for number in os.read(self.fd, 4096)]
        except BlockingIOError:
            return []

    def sleep(self, seconds: float) -> None:
        """Sleep, but not through a signal (SIGCHLD above all). What arrived is forgotten."""
        if ready((self.fd,), seconds):
            self.drain()

    def close(self) -> None:
        """Forget the pipe; the dispositions stay as they are."""
        signal.set_wakeup_fd(-1)
        os.close(self.fd)
        os.close(self._write)


def ready(fds: Iterable[int], seconds: float) -> list[int]:
    """Those of ``fds`` that can be read or have ended, after ``seconds`` at most (poll(2): no limit of 1024)."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    return [fd for fd, _ in poller.poll(max(0.0, seconds) * 1000)]


def capture() -> SignalInbox:
    """The inbox of a hold's first process; also makes SIGCHLD default-like first of all.

    What the starter had blocked (a thread that leaves signals to others does) is unblocked: a hold must hear TERM.
    """
    hup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    inbox = SignalInbox((*ENDING, signal.SIGCHLD, signal.SIGCONT), hup_ignored=hup_ignored)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return inbox


def reset_for_payload(hup_ignored: bool) -> None:
    """Between fork and exec: every disposition as a shell would give it, whatever the starter ignored.

    TERM, INT and QUIT are reset even if they came ignored (``cmd &`` leaves INT ignored), and so are the two
    that the interpreter itself ignores (PIPE, XFSZ).
    """
    for signum in signal.valid_signals():
        if signum in (signal.SIGKILL, signal.SIGSTOP) or (signum == signal.SIGHUP and hup_ignored):
            continue
        try:
            signal.signal(signum, signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # the C library keeps two real-time signals for itself
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
