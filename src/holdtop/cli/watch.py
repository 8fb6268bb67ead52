"""``holdtop watch``: the headless notifier."""

from __future__ import annotations

import argparse
import contextlib
import json
import queue
import signal
import sys

from holdtop import config
from holdtop.errors import HoldtopError
from holdtop.hold.places import check_resource, resolve
from holdtop.model.schema import to_mapping
from holdtop.model.values import Snapshot
from holdtop.sampler import Sampler, look_once
from holdtop.watch.notices import Standing, looked_at
from holdtop.watch.told import to_journal, to_manager

#: Seconds without a look after which the watch ends, for whoever started it to start it anew.
STALL = 60.0
#: Of what ``status --json`` says, what a look of ``--once --json`` keeps.
_KEYS = ("schema", "host", "boot_id", "taken_at", "flags")


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("watch", help="tell what is wrong, once each, and when it is over", allow_abbrev=False)
    add = parser.add_argument
    add("-r", "--resource", metavar="NAME", help="gpu, npu, any name (default: all with state)")
    add("--state-dir", metavar="DIR", help="where queue and token live")
    add("--once", action="store_true", help="one look: the flags that stand, on stdout; then exit")
    add("--json", action="store_true", help="with --once: one object, flags as in status --json")


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError``, ``ConfigError``, and ``HoldtopError`` when the looks have stopped."""
    names = None if args.resource in (None, "all") else tuple(map(check_resource, args.resource.split(",")))
    resolve("gpu", args.state_dir)
    settings = config.load()
    if args.once:
        _say_once(look_once(resources=names, state_dir=args.state_dir), as_json=args.json)
        return 0
    looks: queue.SimpleQueue[Snapshot | None] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: looks.put(None))
    sampler = Sampler(resources=names, state_dir=args.state_dir, refresh=settings.refresh, on_snapshot=looks.put)
    sampler.start()
    try:
        return _watch(looks)
    finally:
        to_manager("STOPPING=1")
        sampler.stop()


def _watch(looks: queue.SimpleQueue[Snapshot | None]) -> int:
    """Until told to end. The watchdog is fed by looks alone: a watch that sees nothing more is no watch."""
    standing, first = Standing(), True
    while True:
        try:
            snapshot = looks.get(timeout=STALL)
        except queue.Empty:
            raise HoldtopError(f"no look at the box has ended for {STALL:.0f} s: start the watch anew") from None
        if snapshot is None:
            return 0
        for notice in standing.compare(snapshot):
            to_journal(notice)
            with contextlib.suppress(OSError):
                print(f"{snapshot.taken_at} {notice.line}", file=sys.stderr, flush=True)
        to_manager(*(["READY=1"] if first else []), "WATCHDOG=1", f"STATUS={looked_at(snapshot)}")
        first = False


def _say_once(snapshot: Snapshot, *, as_json: bool) -> None:
    if as_json:
        whole = to_mapping(snapshot)
        print(json.dumps({**{key: whole[key] for key in _KEYS}, "looked_at": looked_at(snapshot)}))
        return
    print(looked_at(snapshot))
    for notice in Standing().compare(snapshot):
        print(notice.line.removeprefix("raised "))
