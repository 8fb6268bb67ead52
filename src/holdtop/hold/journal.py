"""The journal's own protocol: datagrams of fields (systemd.journal-fields(7), "Native Journal Protocol")."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Mapping

SOCKET = "/run/systemd/journal/socket"


def send(fields: Mapping[str, str], large: Mapping[str, bytes] | None = None) -> None:
    """One datagram, never waited for; where there is no journal, nothing. Values are single lines.

    ``large`` fields are left out when the datagram would be too long with them.
    """
    short = "".join(f"{name}={value}\n" for name, value in fields.items()).encode("utf-8", "backslashreplace")
    rest = b"".join(name.encode() + b"=" + value + b"\n" for name, value in (large or {}).items())
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.setblocking(False)
        try:
            journal.sendto(short + rest, SOCKET)
        except OSError as error:
            if error.errno == errno.EMSGSIZE and rest:
                journal.sendto(short, SOCKET)


def reads(fd: int) -> bool:
    """Whether what is written there ends in the journal anyway (``JOURNAL_STREAM``, systemd.exec(5))."""
    device, _, inode = os.environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        status = os.fstat(fd)
    except OSError:
        return False
    return (device, inode) == (str(status.st_dev), str(status.st_ino))
