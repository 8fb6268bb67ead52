"""A forge's token: in a file that nobody but its owner can read, and in no text of ours."""

from __future__ import annotations

import os
import stat

from holdtop.errors import RefusedError

LONGEST = 4096


def read(path: str) -> str:
    """Raises ``RefusedError`` unless it is its owner's alone, and one word."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RefusedError(f"{path}: {error.strerror}") from error
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise RefusedError(f"{path} is no regular file of one name")
        if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in (0, os.geteuid()):
            raise RefusedError(f"{path} may be read by others: chmod 0600 {path}, and have the token renewed")
        said = file.read(LONGEST + 1).decode("ascii", "replace").strip()
    if not said or len(said) > LONGEST or not (said.isascii() and said.isprintable()) or " " in said:
        raise RefusedError(f"{path} is no token: one word on one line")
    return said
