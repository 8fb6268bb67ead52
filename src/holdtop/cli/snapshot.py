"""``holdtop snapshot``: one look as one file to share."""

from __future__ import annotations

import argparse
import json
import sys

from holdtop.cli import looking
from holdtop.recorder.one import write
from holdtop.render import clean
from holdtop.sampler import look_once

#: Seconds for the look itself.
DEADLINE = 2.0
EPILOG = """The file holds what 'holdtop status' and the console show, and the newest events and acts; secrets of
command lines are left out by their shape and name. Look at it before you share it: holdtop replay FILE"""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("snapshot", help="one look as one file to share", epilog=EPILOG, allow_abbrev=False)
    add = parser.add_argument
    add("file", metavar="FILE", help="written anew; an existing file is left alone")
    add("--json", action="store_true", help="say on stdout, as one object, what was written")
    looking.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError``, and ``RecordingError`` when it cannot be written."""
    size = write(args.file, look_once(**looking.question(args), deadline=DEADLINE))
    if args.json:
        print(json.dumps({"file": args.file, "bytes": size}))
    print(f"holdtop: {clean(args.file)}: {size} bytes; holdtop replay shows it", file=sys.stderr)
    return 0
