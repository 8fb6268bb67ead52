"""Waking on changes of files (inotify(7)), with the slow look as the fallback where no instance is to be had."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from holdtop.payload import linux

#: A file that is unlinked (while others have it open: ATTRIB), replaced or renamed away.
GOES = linux.IN_ATTRIB | linux.IN_DELETE_SELF | linux.IN_MOVE_SELF
#: Something new appears in a directory.
APPEARS = linux.IN_CREATE | linux.IN_MOVED_TO


class Watch:
    """At most one inotify instance; none when the user's limit (128 by default) is reached."""

    def __init__(self) -> None:
        self._fd: int | None = None

    def fds(self) -> Sequence[int]:
        return () if self._fd is None else (self._fd,)

    def add(self, path: str, mask: int) -> bool:
        """Watch a path, again if it was watched before. False: it cannot be watched; look now and then instead."""
        try:
            if self._fd is None:
                self._fd = linux.inotify_open()
            linux.inotify_watch(self._fd, path, mask)
        except OSError:
            return False
        return True

    def drain(self) -> None:
        """Forget what has been reported: the caller looks for itself."""
        if self._fd is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._fd, 65536)  # once: others may make events as fast as they are read

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
