"""The hold for other programs: ``run`` and ``Hold``, both as a ``holdtop run`` in a process of its own.

Containment needs a subreaper, signal handlers and the only ``waitpid(-1)`` of its process; none of that may be
forced upon a caller with children and handlers of its own. When the caller is killed, the hold's own watch over its
starter ends the payload.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from holdtop.errors import HoldError

#: Says that the token is ours, then lives until its stdin is closed.
_PLACEHOLDER = ("sh", "-c", "echo held; exec cat >/dev/null")

#: How long a released ``Hold`` may take to end by itself, in seconds.
END_WAIT = 2.0
#: This program's own holds.
_held: set[Hold] = set()


def command_line(argv: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """``max_hold=60`` becomes ``--max-hold 60``; ``True`` is a bare flag, ``None`` and ``False`` are left out."""
    words = [sys.executable, "-m", "holdtop", "run"]
    for name, value in options.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return [*words, "--", *argv]


def run(
    argv: Sequence[str], *, resource: str = "gpu", stdio: Mapping[str, Any] | None = None, **options: object
) -> int:
    """Run a command under a hold and return the hold's exit status (see ``holdtop run --help``).

    ``options`` are the command's own: ``wait``, ``max_hold``, ``grace`` (seconds), ``lane``, ``state_dir``, …
    ``stdio``: ``stdin``, ``stdout``, ``stderr``, ``cwd``, ``env`` as for ``subprocess.Popen``. When the wait is
    interrupted, by Ctrl-C say, the hold is asked to end and waited for before the exception goes on.
    Raises ``HoldError`` inside a ``Hold`` of the same resource.
    """
    if any(hold.resource == resource and not hold.lost for hold in _held):
        raise HoldError(f"this program holds {resource} itself: run the command directly, it would wait for ever")
    line = command_line(argv, {"resource": resource, **options})
    process = subprocess.Popen(line, **(stdio or {}))
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise


class Hold:
    """The token, for the caller itself: ``with Hold("gpu", lane="eval"): …``.

    The caller is the payload then and cannot be contained; the token goes when the block is left or the caller dies.
    """

    def __init__(self, resource: str = "gpu", **options: object) -> None:
        """``options`` as for ``run``."""
        self.resource = resource
        self._line = command_line(_PLACEHOLDER, {"resource": resource, **options})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Hold:
        """Wait for the token. Raises ``HoldError`` with the status when it is not to be had."""
        process = subprocess.Popen(self._line, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._process = process
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"held\n":
                raise HoldError(f"the hold was not taken (status {process.wait()})")
        except BaseException:
            self.release()
            raise
        _held.add(self)
        return self

    @property
    def lost(self) -> bool:
        """The token is not ours any more: stopped by an operator, over its time, or taken away."""
        return self._process is None or self._process.poll() is not None

    def release(self) -> None:
        """Give the token back; returns when it is free."""
        if self._process is not None:
            process, self._process = self._process, None
            _held.discard(self)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            try:
                process.wait(END_WAIT)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
