"""Datagrams to the journal and to the service manager: never waited for, and nothing where nobody listens."""

from __future__ import annotations

import contextlib
import os
import socket

from holdtop.hold import journal
from holdtop.model.standing import LONG, Notice
from holdtop.render import clean

#: One for each state, for ever (``MESSAGE_ID``).
MESSAGE_IDS = {"raised": "6b0f1c2e3a5d4f7e8c9a0b1d2e3f4a51", "resolved": "6b0f1c2e3a5d4f7e8c9a0b1d2e3f4a52"}
_PRIORITIES = {"critical": 2, "warning": 4, "info": 6}


def to_journal(notice: Notice) -> None:
    """The fields of docs/watch.md; each value is cleaned, so that none begins another field."""
    flag = notice.flag
    fields = {
        "MESSAGE": notice.line,
        "MESSAGE_ID": MESSAGE_IDS[notice.state],
        "PRIORITY": 5 if notice.state == "resolved" else _PRIORITIES[flag.severity],
        "SYSLOG_IDENTIFIER": "holdtop-watch",
        "HOLDTOP_STATE": notice.state,
        "HOLDTOP_FLAG": flag.kind,
        "HOLDTOP_SEVERITY": flag.severity,
        "HOLDTOP_RESOURCE": flag.resource,
        "HOLDTOP_TICKET": flag.ticket,
        "HOLDTOP_ABOUT": flag.about,
        "HOLDTOP_SINCE": flag.since,
    }
    said = {name: clean(str(value), LONG) for name, value in fields.items() if value is not None}
    pids = {"HOLDTOP_PIDS": " ".join(map(str, flag.pids)).encode()} if flag.pids else {}  # all of them, or none
    journal.send({**said, "HOLDTOP_REMEDY": clean(flag.remedy)}, pids)  # a command that is cut is none


def to_manager(*states: str) -> None:
    """sd_notify(3): ``READY=1``, ``WATCHDOG=1``, ``STATUS=…``, ``STOPPING=1``."""
    path = os.environ.get("NOTIFY_SOCKET")
    if not path:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.sendto(
            "\n".join(states).encode("utf-8", "backslashreplace"), "\0" + path[1:] if path.startswith("@") else path
        )
