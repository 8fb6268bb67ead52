"""``holdtop record``: the flight recorder by itself."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import signal
import sys
from collections.abc import Callable

from holdtop.cli import looking
from holdtop.errors import HoldtopError
from holdtop.model.values import Snapshot
from holdtop.recorder.recorder import Recorder
from holdtop.render import clean
from holdtop.sampler import Sampler

#: Seconds without a look after which the recorder ends, for whoever started it to start it anew.
STALL = 60.0
EPILOG = """An hour at one look a second and a day at one in ten seconds, 48 MiB at most; bookmarks set themselves.
holdtop watch records by itself. exit status: 0 when told to end (TERM, INT); 1 when the directory cannot be used, or
another recorder has it."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("record", help="keep a recording of this box", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add("directory", metavar="DIR", help="where the recording is kept; made when it is missing")
    add("-r", "--resource", metavar="NAME", help="gpu, npu, any name (default: all with state)")
    add("--json", action="store_true", help="say on stdout, as one object, that it records, and where")
    add("--state-dir", metavar="DIR", help="where queue and token live")


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError``, ``RecordingError``, and ``HoldtopError`` when the looks have stopped."""
    question = looking.question(args)
    recorder = Recorder(args.directory, say)
    recorder.open()
    looks: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: looks.put(None))
    sampler = Sampler(**question, on_snapshot=looks.put)
    sampler.start()
    if args.json:
        print(json.dumps({"directory": args.directory, "pid": os.getpid()}), flush=True)
    say(f"recording in {args.directory}; end it with Ctrl+C")
    try:
        _record(looks, recorder.take)
    finally:
        sampler.stop()
        recorder.close()
    return 0


def _record(looks: queue.SimpleQueue[Snapshot | None], take: Callable[[Snapshot], None]) -> None:
    while True:
        try:
            snapshot = looks.get(timeout=STALL)
        except queue.Empty:
            raise HoldtopError(f"no look at the box has ended for {STALL:.0f} s: start the recorder anew") from None
        if snapshot is None:
            return
        take(snapshot)


def say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more: recording goes on
        print(f"holdtop: {clean(line)}", file=sys.stderr, flush=True)
