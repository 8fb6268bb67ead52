"""``holdtop incident``: what happened, as a report in Markdown."""

from __future__ import annotations

import argparse
import json
import sys

from holdtop.cli.types import take_spans
from holdtop.errors import RecordingError, UsageError
from holdtop.recorder import places
from holdtop.recorder.incident import last_incident, report, stretch
from holdtop.recorder.recording import Recording
from holdtop.recorder.seeking import FORMS
from holdtop.render import clean

EPILOG = f"""TIME: {FORMS}. Of a recording that is named, all of it is told unless --from or --to say less.
exit status: 0; 1 when the recording is damaged: up to when it is good is said, and that much is told."""


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("incident", help="what happened, as a report", epilog=EPILOG, allow_abbrev=False)
    take_spans(parser)
    add = parser.add_argument
    add("recording", metavar="DIR|FILE", nargs="?", help="what record, watch or snapshot has written")
    add("--last", action="store_true", help="the newest incident (without DIR|FILE: in the watch's own recording)")
    add("--from", dest="begin", metavar="TIME", help="tell no earlier than that")
    add("--to", dest="end", metavar="TIME", help="tell no later than that")
    add("--json", action="store_true", help="one object: its first and last instant, and the report")


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError`` and ``RecordingError``."""
    if not args.recording and not args.last:
        raise UsageError("name a recording (DIR or FILE), or ask for the newest incident of the watch's own by --last")
    if args.last and (args.begin or args.end):
        raise UsageError("--last finds its own times: leave out --from and --to")
    recording = Recording(args.recording) if args.recording else _newest()
    for said in recording.damage:
        print(f"holdtop: {clean(said)}", file=sys.stderr)
    first, last = _bounds(args, recording)
    lines = list(report(stretch(recording, first, last)))
    if args.json:
        times = [recording.snapshot(position).taken_at for position in (first, last)]
        print(json.dumps({"from": times[0], "to": times[1], "markdown": "\n".join(lines)}))
    else:
        print("\n".join(lines))
    return 1 if recording.damage else 0


def _newest() -> Recording:
    """What a watch on this box has recorded last. Raises ``RecordingError``."""
    found, why = [], "no watch has recorded on this box, as far as this account can see: name a recording"
    for path in places.candidates():
        try:
            found.append(Recording(path))
        except RecordingError as error:
            why = str(error)
    if not found:
        raise RecordingError(why)
    return max(found, key=lambda one: one.instants[-1].at_ms)


def _bounds(args: argparse.Namespace, recording: Recording) -> tuple[int, int]:
    if not args.last:
        return recording.between(args.begin, args.end)
    found = last_incident(recording)
    if found is None:
        print("holdtop: nothing went wrong in this recording; this is all of it", file=sys.stderr)
    return found or recording.between(None, None)
