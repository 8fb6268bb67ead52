"""What a hold says on stderr, never by a call that can block.

A Ctrl-S on the terminal, ``| less`` or a dead ssh must not stop a deadline. So a terminal or pipe is opened anew for
ourselves, non-blocking (setting O_NONBLOCK on fd 2 would change it for the payload too); what does not fit is lost.
"""

from __future__ import annotations

import os
import stat


class Narrator:
    def __init__(self, name: str = "holdtop") -> None:
        self._name = name
        self._fd = _open_non_blocking(2)
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """One line. Controls in it become ``?``: most of it is foreign text."""
        shown = "".join(c if c.isprintable() else "?" for c in text)
        self._write(f"{self._name}: {shown}\n")

    def once(self, key: str, text: str) -> bool:
        """Say it unless something was said under this key; True when it was new."""
        new = key not in self._said
        if new:
            self._said.add(key)
            self.say(text)
        return new

    def warn(self, text: str) -> None:
        """A line that is printed as it is (``::warning::…``, which CI systems look for at the start)."""
        self._write("".join(c if c.isprintable() else "?" for c in text) + "\n")

    def _write(self, line: str) -> None:
        try:
            os.write(self._fd, line.encode("utf-8", "backslashreplace"))
        except OSError:
            return


def _open_non_blocking(fd: int) -> int:
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return fd  # a file does not block, and opening it anew would lose its O_APPEND and its offset
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return fd
