"""Notices to whom it may concern: a program, or any address that Apprise knows.

A target may hang, and a network may be away for long: each has a thread of its own, which waits for it alone, and
what comes meanwhile is kept, up to a bound that is told.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict

from holdtop.errors import UsageError
from holdtop.model.standing import Notice

#: How many notices a target may be behind.
KEPT = 100
#: How often a notice is tried, and the seconds between.
TRIES, BETWEEN = 3, 10.0
#: Seconds that a program may take; then it is ended with all that it started.
LONGEST = 30
_EXEC = "exec:"
#: What Apprise calls a severity: its services choose colour and sound by it.
_TYPES = {"critical": "failure", "warning": "warning", "info": "info"}
#: Raises ``OSError`` when the notice did not get there.
_Send = Callable[[Notice, str], None]


class Target:
    """One ``--notify``. ``complain`` is called from its thread with why a notice did not get there."""

    def __init__(self, said: str, complain: Callable[[str], None]) -> None:
        """Raises ``UsageError`` for what is no target."""
        self._send, self._name = (_program(said), said) if said.startswith(_EXEC) else (_apprise(said), _scheme(said))
        self._complain = complain
        self._due: queue.Queue[tuple[Notice, str]] = queue.Queue(KEPT)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._deliver, name="holdtop-notify", daemon=True)
        self._thread.start()

    def tell(self, notice: Notice, host: str) -> None:
        """Never waits."""
        try:
            self._due.put_nowait((notice, host))
        except queue.Full:
            self._complain(f"{self._name} is {KEPT} notices behind; it is not told: {notice.line}")

    def close(self, seconds: float) -> None:
        """Give what is due so long, and leave."""
        self._over.set()
        self._thread.join(seconds)

    def _deliver(self) -> None:
        while not (self._over.is_set() and self._due.empty()):
            try:
                notice, host = self._due.get(timeout=0.5)
            except queue.Empty:
                continue
            for left in reversed(range(TRIES)):
                try:
                    self._send(notice, host)
                    break
                except OSError as error:
                    if not left or self._over.wait(BETWEEN):
                        self._complain(f"{self._name} could not be told: {error}")
                        break


def _program(said: str) -> _Send:
    """The notice as one JSON object on its standard input; a hold's own guard sees to its end."""
    path = said.removeprefix(_EXEC)
    if not path.startswith("/"):
        raise UsageError(f"--notify {said!r}: give exec: and the whole path of a program")
    guard = [sys.executable, "-m", "holdtop", "guard", "--max-hold", f"{LONGEST}s", "--grace", "2s", "--", path]

    def send(notice: Notice, host: str) -> None:
        content = json.dumps({"host": host, "state": notice.state, "line": notice.line, "flag": asdict(notice.flag)})
        done = subprocess.run(
            guard, input=content.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        if done.returncode:
            last = done.stderr.decode("utf-8", "backslashreplace").strip().rpartition("\n")[2]
            raise OSError(f"status {done.returncode}{f': {last}' if last else ''}")

    return send


def _apprise(said: str) -> _Send:
    if "://" not in said:
        raise UsageError(f"--notify {said!r}: give exec:/PATH, or an address as Apprise writes them (https://…)")
    if importlib.util.find_spec("apprise") is None:
        raise UsageError("--notify with an address needs Apprise: pip install 'holdtop[notify]'")
    apprise = importlib.import_module("apprise")
    target = apprise.Apprise()
    if not target.add(said):
        raise UsageError(f"--notify: Apprise does not know an address like this {_scheme(said)}…")

    def send(notice: Notice, host: str) -> None:
        title = f"holdtop on {host}: {notice.flag.kind} {notice.state}"
        kind = "success" if notice.state == "resolved" else _TYPES[notice.flag.severity]
        try:  # as text: a service that shows markup is to escape what lanes and files are called
            sent = target.notify(body=notice.line, title=title, notify_type=kind, body_format="text")
        except Exception as error:  # its services raise what they like
            raise OSError(f"{type(error).__name__}: {error}") from error
        if not sent:
            raise OSError("Apprise says that it was not sent")

    return send


def _scheme(address: str) -> str:
    """What may be said of an address: the rest is a password as often as not."""
    return f"{address.partition('://')[0]}://"
