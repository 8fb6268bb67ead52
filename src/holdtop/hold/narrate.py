"""What a hold says on stderr, never by a call that can block.

A Ctrl-S on the terminal, ``| less`` or a dead ssh must not stop a deadline. So a terminal or pipe is opened anew for
ourselves, non-blocking (setting O_NONBLOCK on fd 2 would change it for the payload too), and a socket is sent to
without waiting; what does not fit is lost.
"""

from __future__ import annotations

import os
import select
import socket
import stat

#: A pipe that can be written to takes this many bytes at once (PIPE_BUF is larger, pipe(7)).
SHORT = 512


class Narrator:
    def __init__(self, name: str = "holdtop") -> None:
        self._name = name
        self._fd = 2
        self._socket: socket.socket | None = None
        self._own = True
        self._open()
        self._said: set[str] = set()

    def say(self, text: str) -> None:
        """One line. Controls in it become ``?``: most of it is foreign text."""
        shown = "".join(c if c.isprintable() else "?" for c in text)
        self._write(f"{self._name}: {shown}\n")

    def _open(self) -> None:
        try:
            mode = os.fstat(2).st_mode
            if stat.S_ISREG(mode):
                return  # a file does not block, and opening it anew would lose its O_APPEND and its offset
            if stat.S_ISSOCK(mode):
                self._socket = socket.socket(fileno=os.dup(2))
                return
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            self._fd = os.open("/proc/self/fd/2", flags)
        except OSError:
            self._own = False  # another account's terminal or pipe: written to when it has room, and little

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
        data = line.encode("utf-8", "backslashreplace")
        try:
            if self._socket is not None:
                self._socket.send(data, socket.MSG_DONTWAIT)
            elif self._own or _has_room(self._fd):
                os.write(self._fd, data[:SHORT] if not self._own else data)
        except OSError:
            return


def _has_room(fd: int) -> bool:
    poller = select.poll()
    poller.register(fd, select.POLLOUT)
    return bool(poller.poll(0))
