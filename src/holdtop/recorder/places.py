"""Where the watch keeps its own recording, and where whoever looks for one finds it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

import platformdirs

#: The watch as a service (``StateDirectory=`` of its unit, systemd.exec(5)).
SERVICE = "/var/lib/holdtop/watch"
RECORDING = "recording"


def kept(environ: Mapping[str, str] = os.environ) -> str | None:
    """Where the watch that runs here records: below its unit's state directory, else below the account's own.

    ``None`` for an account without a home.
    """
    given = environ.get("STATE_DIRECTORY", "").split(":")[0]
    if os.path.isabs(given):
        return os.path.join(given, RECORDING)
    with contextlib.suppress(RuntimeError):  # neither HOME nor an entry in the password file
        directory = platformdirs.user_state_dir("holdtop")
        if os.path.isabs(directory):
            return os.path.join(directory, RECORDING)
    return None


def candidates(environ: Mapping[str, str] = os.environ) -> Iterator[str]:
    """Recordings of a watch on this box, the service's first."""
    for path in (os.path.join(SERVICE, RECORDING), kept(environ)):
        if path is not None and os.path.isdir(path):
            yield path
