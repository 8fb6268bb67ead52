"""``holdtop watch``: the headless notifier."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

from holdtop import config
from holdtop.cli import looking
from holdtop.errors import UsageError
from holdtop.hold import journal
from holdtop.host.runner.quoting import check_path, word
from holdtop.model.schema import to_mapping
from holdtop.model.standing import LONG, Standing
from holdtop.model.values import Snapshot
from holdtop.recorder import places
from holdtop.recorder.aside import Aside
from holdtop.recorder.recorder import Recorder
from holdtop.render import clean
from holdtop.sampler import look_once
from holdtop.watch.looked import Unseen, looked_at
from holdtop.watch.metrics import PORT, Metrics, address, serve
from holdtop.watch.notify import Target
from holdtop.watch.reap import Reaper
from holdtop.watch.told import to_journal, to_manager

#: Seconds for what is still to be told in the end.
LAST_WORDS = 5.0
#: Seconds for an act that is under way in the end.
LAST_ACT = 30.0
#: What comes with the package, by what ``--print`` calls it.
SHIPPED = {"unit": "holdtop-watch.service", "alerts": "alerts.yml", "dashboard": "dashboard.json"}
#: Of what ``status --json`` says, what a look of ``--once --json`` keeps.
_KEYS = ("schema", "host", "boot_id", "taken_at", "flags")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("watch", help="tell what is wrong, once each, and when it is over", allow_abbrev=False)
    add = parser.add_argument
    looking.add_options(parser)
    add("--once", action="store_true", help="one look: the flags that stand, on stdout; then exit")
    add("--json", action="store_true", help="with --once: one object, flags as in status --json")
    add("--listen", metavar="ADDRESS", help=f"Prometheus metrics on loopback: PORT or ADDRESS:PORT (usual: {PORT})")
    add("--notify", metavar="TARGET", action="append", default=[], help="exec:/PATH, or an address for Apprise")
    add("--reap", choices=("off", "ghosts", "survivors"), default="off", help="end what dead holds left (default: off)")
    add("--print", choices=SHIPPED, help="print the unit, the alert rules or the dashboard; then exit")


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError``, and ``HoldtopError`` when the looks have stopped."""
    if args.print:
        print(_shipped(args.print), end="")
        return 0
    if args.json and not args.once:
        raise UsageError("--json goes with --once; without it the journal has the fields (docs/watch.md)")
    question = looking.question(args)
    if args.once:
        _say_once(look_once(**question), as_json=args.json)
        return 0
    with _told(args) as hearers:
        try:
            _watch(looking.looks(question, config.load().refresh, "watch"), hearers)
        finally:
            to_manager("STOPPING=1")
    return 0


@dataclass(frozen=True, slots=True)
class Hearers:
    """Who is told, beside the journal."""

    targets: tuple[Target, ...] = ()
    metrics: Metrics | None = None
    reaper: Reaper | None = None
    recorder: Aside | None = None


@contextlib.contextmanager
def _told(args: argparse.Namespace) -> Iterator[Hearers]:
    """Those of the command line. Raises ``UsageError``, and ``HoldtopError`` for an address that is taken."""
    with contextlib.ExitStack() as over:
        metrics = None
        if args.listen is not None:
            metrics = Metrics()
            over.callback(serve(metrics, *address(args.listen)).server_close)
        targets = tuple(Target(said, _say) for said in args.notify)
        for target in targets:
            over.callback(target.close, LAST_WORDS)
        reaper = None if args.reap == "off" else Reaper(args.reap, args.state_dir, _say)
        if reaper:
            over.callback(reaper.close, LAST_ACT)
        kept = places.kept()
        recorder = Aside(Recorder(kept, _say)) if kept else None
        if recorder:
            over.callback(recorder.close)
        yield Hearers(targets, metrics, reaper, recorder)


def _watch(looks: Iterable[Snapshot], hearers: Hearers) -> None:
    """Until told to end. The watchdog is fed by looks alone: a watch that sees nothing more is no watch."""
    standing, unseen, first = Standing(), Unseen(), True
    for snapshot in looks:
        if hearers.metrics:
            hearers.metrics.show(snapshot)
        for notice in standing.compare(snapshot):
            to_journal(notice)
            if not journal.reads(2):  # or it would be there twice
                _say(f"{snapshot.taken_at} {notice.line}")
            for target in hearers.targets:
                target.tell(notice, snapshot.host)
        for line in unseen.compare(snapshot):
            _say(line)
        if hearers.reaper:
            hearers.reaper.look(snapshot)
        if hearers.recorder:
            hearers.recorder.take(snapshot)
        to_manager(*(["READY=1"] if first else []), "WATCHDOG=1", f"STATUS={looked_at(snapshot)}")
        first = False


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        print(clean(line, LONG), file=sys.stderr, flush=True)


def _shipped(what: str) -> str:
    """A file of the package; the unit names this very program. Raises ``UsageError`` where its path cannot be."""
    text = resources.files("holdtop.watch").joinpath(SHIPPED[what]).read_text("utf-8")
    program = shutil.which(sys.argv[0]) or shutil.which("holdtop") or "/usr/local/bin/holdtop"
    return text.replace("@holdtop@", word(check_path(os.path.abspath(program), "this program's path")))


def _say_once(snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        whole = to_mapping(snapshot)
        print(json.dumps({**{key: whole[key] for key in _KEYS}, "looked_at": looked_at(snapshot)}))
        return
    print(looked_at(snapshot))
    for notice in Standing().compare(snapshot):
        print(notice.line.removeprefix("raised "))
