"""Search in a log, for a word or a pattern, in lines that are there and in those that come; no key waits for it."""

from __future__ import annotations

import contextlib
import json
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from holdtop.console.events import LogLine

#: Lines that are matched at once, and characters of a line that are looked at.
BATCH = 500
WITHIN = 2000


def pattern_of(wanted: str) -> str:
    """What was typed as a regular expression: ``/…/`` is one, all else is a word that stands for itself."""
    return wanted[1:-1] if len(wanted) > 2 and wanted[0] == wanted[-1] == "/" else re.escape(wanted)


class Search:
    """One search, in a daemon thread and a child process that ends with it or by its own limits.

    ``on_found`` and ``on_end`` are called from the thread; the latter once, with why the search is over, empty
    when it was closed.
    """

    def __init__(
        self, wanted: str, on_found: Callable[[Sequence[LogLine]], None], on_end: Callable[[str], None]
    ) -> None:
        self.wanted = wanted
        self._on_found, self._on_end = on_found, on_end
        self._lines: queue.SimpleQueue[Sequence[LogLine] | None] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="holdtop-search", daemon=True).start()

    def feed(self, lines: Sequence[LogLine]) -> bool:
        """Look at these too; whether an answer will come."""
        if lines:
            self._lines.put(lines)
        return bool(lines)

    def close(self) -> None:
        """Look at no more. Waits for nothing."""
        self._lines.put(None)

    def _run(self) -> None:
        program = [sys.executable, "-I", "-S", str(Path(__file__).with_name("matching.py"))]
        why = ""
        with subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        ) as child:
            try:
                if error := _ask(child, pattern_of(self.wanted)):
                    why = f"no pattern: {error}"
                else:
                    self._match(child)
            except (OSError, ValueError):
                why = "given up: this pattern takes too long"
            with contextlib.suppress(OSError):
                child.communicate()
        self._on_end(why)

    def _match(self, child: subprocess.Popen[bytes]) -> None:
        while (lines := self._lines.get()) is not None:
            found = [line for batch in _batches(lines) for line in _matching(child, batch)]
            self._on_found(found)


def _batches(lines: Sequence[LogLine]) -> Iterator[Sequence[LogLine]]:
    return (lines[start : start + BATCH] for start in range(0, len(lines), BATCH))


def _matching(child: subprocess.Popen[bytes], lines: Sequence[LogLine]) -> list[LogLine]:
    places = _ask(child, [f"{line.kind} {line.ticket} {line.text}"[:WITHIN] for line in lines])
    return [lines[int(place)] for place in places]


def _ask(child: subprocess.Popen[bytes], question: object) -> list[int] | str:
    """Raises ``OSError`` or ``ValueError`` when the child has ended."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(question).encode("ascii") + b"\n")
    child.stdin.flush()
    answer: list[int] | str = json.loads(child.stdout.readline())
    return answer
