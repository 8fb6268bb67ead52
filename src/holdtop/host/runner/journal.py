"""The journal's last lines of a unit. It has no interface on the bus, so ``journalctl`` is asked."""

from __future__ import annotations

import subprocess

from holdtop.host.runner.settings import Settings

#: As many lines are enough to see why a listener dies at once.
LINES = 20


def last(settings: Settings) -> list[str]:
    """Foreign text; what cannot be had is said in its place."""
    which = ["-u", settings.unit] if settings.system else ["--user", "-u", settings.unit]
    command = ["journalctl", *which, f"--lines={LINES}", "--no-pager", "--output=short-iso", "--quiet"]
    try:
        done = subprocess.run(
            command, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"the journal cannot be read: {error}"]
    return done.stdout.splitlines() or [f"the journal has nothing of {settings.unit}: {' '.join(done.stderr.split())}"]
