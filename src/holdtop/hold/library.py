"""The hold for other programs: ``run`` and ``Hold``, both as a ``holdtop run`` in a process of its own.

Containment needs a subreaper, signal handlers and the only ``waitpid(-1)`` of its process; none of that may be
forced upon a caller with children and handlers of its own. When the caller is killed, the hold's own watch over its
starter ends the payload.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from holdtop.errors import HoldError, HoldtopError
from holdtop.hold import placeholder
from holdtop.hold.above import refuse_disorder
from holdtop.hold.places import resolve
from holdtop.payload.signals import ready

#: Without the caller's directory in the path (-P): a ``queue.py`` there is not the library's.
_HOLDTOP = (sys.executable, "-P", "-m", "holdtop")
_PLACEHOLDER = (sys.executable, "-I", "-S", placeholder.__file__)

#: How long a released ``Hold`` may take to end by itself, in seconds.
END_WAIT = 2.0
#: This program's own holds.
_held: set[Hold] = set()


def _refuse_endless_wait(wanted: Mapping[str, str], holds: Iterable[Hold]) -> None:
    """Raises ``HoldError`` when one of ``holds`` has a part of what is wanted, or this thread has what comes after it.

    The same resource of another state directory is another one; but the order is one for all.
    """
    ours = {token for hold in holds if not hold.lost for token in hold.tokens.values()}
    for name, token in sorted(wanted.items()):
        if token in ours:
            raise HoldError(f"this program holds {name} itself, and would wait for ever: run the command directly")
    refuse_disorder(wanted, {name for hold in _of_this_thread() if not hold.lost for name in hold.tokens})


def _of_this_thread() -> list[Hold]:
    return [hold for hold in _held.copy() if hold.thread is threading.current_thread()]


def _tokens(resource: str, options: Mapping[str, object]) -> dict[str, str]:
    """The token's real path of each resource; empty when there is none to be had: the command itself says why."""
    named = options.get("state_dir")
    with contextlib.suppress(HoldtopError):
        return {
            name: os.path.realpath(resolve(name, None if named is None else str(named)).token_path)
            for name in resource.split(",")
        }
    return {}


def command_line(argv: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """``max_hold=60`` becomes ``--max-hold 60``; ``True`` is a bare flag, ``None`` and ``False`` are left out.

    Raises ``TypeError`` for a string instead of words: its letters would be the words.
    """
    if isinstance(argv, str | bytes):
        raise TypeError(f"the command is a list of words, not {argv!r}")
    words = [*_HOLDTOP, "run"]
    for name, value in options.items():
        if value is not None and value is not False:
            words.append(f"--{name.replace('_', '-')}")
            words += [] if value is True else [str(value)]
    return [*words, "--", *argv]


def run(
    argv: Sequence[str], *, resource: str = "gpu", stdio: Mapping[str, Any] | None = None, **options: object
) -> int:
    """Run a command under a hold and return the hold's exit status (see ``holdtop run --help``).

    -n when the hold itself was killed by signal n.
    ``options`` are the command's own: ``wait``, ``max_hold``, ``grace`` (seconds), ``lane``, ``state_dir``, …
    ``stdio``: ``stdin``, ``stdout``, ``stderr``, ``cwd``, ``env`` as for ``subprocess.Popen``. When the wait is
    interrupted, by Ctrl-C say, the hold is asked to end and waited for before the exception goes on; on a terminal it
    is the command that gets the Ctrl-C, and when it dies of it ``KeyboardInterrupt`` is raised here.
    Raises ``HoldError`` inside a ``Hold`` of the same resource or of one that sorts after it, and when this program
    reaps every child itself.
    """
    _refuse_endless_wait(_tokens(resource, options), _held.copy())
    line = command_line(argv, {"resource": resource, **options})
    process = subprocess.Popen(line, **(stdio or {}))
    try:
        status = _status(process)
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if status == -signal.SIGINT:
        raise KeyboardInterrupt
    return status


def _status(process: subprocess.Popen[bytes]) -> int:
    """Waits. ``Popen.wait`` would say 0 when the program's own ``waitpid(-1)``, or an ignored SIGCHLD, took it."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError as error:
        text = "the hold has ended, but this program reaps all its children itself: the status is in the event log"
        raise HoldError(text) from error
    process.wait()
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


class Hold:
    """The token, for the caller itself: ``with Hold("gpu", lane="eval"): …``.

    The caller is the payload then and cannot be contained; the token goes when the block is left or the caller dies.
    """

    def __init__(self, resource: str = "gpu", **options: object) -> None:
        """``options`` as for ``run``."""
        self.tokens = _tokens(resource, options)
        self._line = command_line(_PLACEHOLDER, {"resource": resource, **options})
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._owner = 0
        #: Which thread took it: one that waits for a hold of its own waits for ever, another one may be served.
        self.thread: threading.Thread | None = None

    def __enter__(self) -> Hold:
        """Wait for the token. Raises ``HoldError`` with the status when it is not to be had, and at once when this
        thread holds it, or what sorts after it, already."""
        if self._owner == os.getpid():
            raise HoldError("this Hold is in use: make another one, each stands for one place in the queue")
        _refuse_endless_wait(self.tokens, _of_this_thread())
        self._owner, self.thread = os.getpid(), threading.current_thread()
        try:
            process = self._start()
            assert process.stdout is not None
            if process.stdout.readline() != b"held\n":
                raise HoldError(f"the hold was not taken (status {_status(process)})")
        except BaseException:
            if self._process:
                self._process.terminate()  # a waiter does not look at its stdin
            self.release()
            raise
        _held.add(self)
        return self

    def _start(self) -> subprocess.Popen[bytes]:
        caller = os.pidfd_open(self._owner)
        try:
            # In a group of its own: a Ctrl-C that the caller survives must not cost it the token.
            process = subprocess.Popen(
                [*self._line, str(caller)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(caller,),
                process_group=0,
            )
        finally:
            os.close(caller)
        self._process, self._pidfd = process, os.pidfd_open(process.pid)
        return process

    @property
    def lost(self) -> bool:
        """The token is not ours any more: stopped by an operator, over its time, or taken away.

        True to the facts in a forked child as well.
        """
        return self._process is None or bool(ready((self._pidfd,), 0))

    def release(self) -> None:
        """Give the token back; returns when it is free. In a forked child, which never had it, nothing is given."""
        process, self._process = self._process, None
        owner, self._owner = self._owner, 0
        if process is None:
            return
        _held.discard(self)
        assert process.stdin
        assert process.stdout
        if owner == os.getpid():
            with contextlib.suppress(OSError):  # it has ended already
                process.stdin.write(b"\n")
        process.stdin.close()
        process.stdout.close()
        os.close(self._pidfd)
        try:
            process.wait(END_WAIT)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
