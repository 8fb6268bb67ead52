"""``holdtop replay``: a recording in the console, or without a terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from holdtop import config
from holdtop.cli import looking
from holdtop.cli.console import NO_TERMINAL
from holdtop.cli.status_text import Text
from holdtop.cli.types import take_spans
from holdtop.errors import UsageError
from holdtop.model.changes import changes
from holdtop.model.schema import to_mapping
from holdtop.recorder.recording import Recording
from holdtop.recorder.seeking import FORMS
from holdtop.render import clean

#: Status of a recording that is damaged, whatever else was asked for.
DAMAGED = 1
EPILOG = f"""TIME: {FORMS}.
Without one of the options: the console, which needs a terminal (4).
exit status: 0; 1 when the recording is damaged: up to when it is good is said on stderr, and that much is shown; also
1 when nothing was recorded within a minute of an instant that is asked for."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("replay", help="look at a recording", epilog=EPILOG, allow_abbrev=False)
    take_spans(parser)
    add = parser.add_argument
    add("recording", metavar="DIR|FILE", help="what record, watch or snapshot has written")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--at", metavar="TIME", help="print what was so then, as status does (default: the end)")
    what.add_argument("--changes", metavar="TIME..TIME", help="print what changed between two instants")
    what.add_argument("--marks", action="store_true", help="print the bookmarks: what happened, and when")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one object; of bookmarks and changes one a line")
    form.add_argument("--plain", action="store_true", help="sentences, one fact a line")


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError`` and ``RecordingError``."""
    recording = Recording(args.recording)
    for said in recording.damage:
        print(f"holdtop: {clean(said)}", file=sys.stderr)
    if args.at or args.changes or args.marks or args.json or args.plain:
        for line in _lines(args, recording):
            print(line)
        status = 0
    else:
        status = _console(recording)
    return DAMAGED if recording.damage and status == 0 else status


def _lines(args: argparse.Namespace, recording: Recording) -> Iterator[str]:
    if args.marks:
        return _marks(recording, args.json)
    last = len(recording.instants) - 1
    if args.changes:
        begin, dots, end = args.changes.partition("..")
        if not dots:
            raise UsageError(f"--changes {args.changes}: write both instants, as in --changes -10m..end")
        found = changes(*(recording.snapshot(recording.seek(text, last)) for text in (begin, end)))
        said = ({"change": one.sign, "text": one.text} for one in found)
        return map(json.dumps, said) if args.json else (clean(f"{one.sign} {one.text}") for one in found)
    snapshot = recording.snapshot(recording.seek(args.at, last) if args.at else last)
    if args.json:
        return iter([json.dumps(to_mapping(snapshot))])
    text = Text(ascii_only=looking.ascii_only())
    return text.sentences(snapshot) if args.plain else text.table(snapshot)


def _marks(recording: Recording, as_json: bool) -> Iterator[str]:
    for _, mark in recording.marks():
        where = " ".join(filter(None, (mark.resource, mark.ticket)))
        plain = {"at": mark.at, "kind": mark.kind, "severity": mark.severity, "resource": mark.resource}
        if as_json:
            yield json.dumps({**plain, "ticket": mark.ticket, "text": mark.text})
        else:
            yield clean(f"{mark.at} {mark.severity} {mark.kind}{f' ({where})' if where else ''}: {mark.text}")


def _console(recording: Recording) -> int:
    from holdtop.console.terminal import why_not

    if (why := why_not()) is not None:
        print(f"holdtop: {why}; --at, --changes and --marks need no terminal", file=sys.stderr)
        return NO_TERMINAL
    from holdtop.console.start import replay

    return replay(config.load(), recording, recording.damage)
