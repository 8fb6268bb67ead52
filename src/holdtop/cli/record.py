"""``holdtop record``: the flight recorder by itself."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys

from holdtop.cli import looking
from holdtop.recorder.aside import Aside
from holdtop.recorder.recorder import Recorder
from holdtop.render import clean

#: Seconds between two looks.
PERIOD = 1.0
EPILOG = """An hour at one look a second and a day at one in ten seconds, 48 MiB at most; bookmarks set themselves.
holdtop watch records by itself. exit status: 0 when told to end (TERM, INT); 1 when the directory cannot be used, or
another recorder has it."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("record", help="keep a recording of this box", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add("directory", metavar="DIR", help="where the recording is kept; made when it is missing")
    add("--json", action="store_true", help="say on stdout, as one object, that it records, and where")
    looking.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError``, ``RecordingError``, and ``HoldtopError`` when the looks have stopped."""
    question = looking.question(args)
    recorder = Recorder(args.directory, say)
    recorder.open()
    with contextlib.closing(Aside(recorder)) as aside:
        looks = looking.looks(question, PERIOD, "recorder")
        if args.json:
            print(json.dumps({"directory": args.directory, "pid": os.getpid()}), flush=True)
        say(f"recording in {args.directory}; end it with Ctrl+C")
        for snapshot in looks:
            aside.take(snapshot)
    return 0


def say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more: recording goes on
        print(f"holdtop: {clean(line)}", file=sys.stderr, flush=True)
