"""The controlling terminal, lent to the payload while it runs and taken back afterwards.

Lent only when the hold itself is in the foreground and no neighbour of a pipeline would lose it: a payload in a
group of its own then reads input and gets Ctrl-C, as a shell's own job would (credentials(7), termios(3)).
"""

from __future__ import annotations

import contextlib
import os
import stat
import termios
from collections.abc import Collection


class Terminal:
    """The hold's terminal. Made in the process whose group is in the foreground."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._home_group = os.getpgrp()
        self._lent_to = self._home_group
        self._modes = termios.tcgetattr(fd)

    @classmethod
    def lendable(cls) -> Terminal | None:
        """The terminal, or ``None`` when there is none, we are in the background, or a pipe joins us to others."""
        if not os.isatty(0) or any(_is_pipe(fd) for fd in (1, 2)):
            return None
        try:
            fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            if os.tcgetpgrp(fd) == os.getpgrp():
                return cls(fd)
        except OSError:
            pass
        os.close(fd)
        return None

    def lend(self, group: int) -> bool:
        """Make ``group`` the foreground group, if the hold is; TTOU must be ignored by the caller."""
        self._lent_to = group
        try:
            if os.tcgetpgrp(self.fd) == self._home_group:
                os.tcsetpgrp(self.fd, group)
            return os.tcgetpgrp(self.fd) == group
        except OSError:
            return False

    def recall(self, groups: Collection[int]) -> int | None:
        """For a pause: the foreground is the hold's if one of ``groups`` has it. Gives that one."""
        with contextlib.suppress(OSError):
            if (foreground := os.tcgetpgrp(self.fd)) in groups:
                os.tcsetpgrp(self.fd, self._home_group)
                return foreground
        return None

    def take_back(self) -> None:
        """Foreground and modes as they were. Quietly nothing when the terminal is gone or somebody else's.

        A shell that saw the hold stop or die has taken it already. A job-controlling payload's groups are dead by now.
        """
        try:
            foreground = os.tcgetpgrp(self.fd)
            if foreground not in (self._home_group, self._lent_to) and _lives(foreground):
                return
            with contextlib.suppress(OSError):  # nobody may be left of the group that had it
                os.tcsetpgrp(self.fd, self._home_group)
            termios.tcsetattr(self.fd, termios.TCSANOW, self._modes)  # DRAIN would wait for a Ctrl-S for ever
        except (OSError, termios.error):
            return


def in_foreground() -> bool:
    """True when a key at the controlling terminal signals this very process group."""
    try:
        fd = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(fd)


def _lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_pipe(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
