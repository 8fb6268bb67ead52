"""The options of ``holdtop state``; apart, so that ``--help`` loads no more than this."""

from __future__ import annotations

import argparse

from holdtop.hold.places import DEFAULT_STATE_DIR

#: The group that owns the hold state and nothing else.
DEFAULT_GROUP = "fleethold"


def add_arguments(part: str, parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--state-dir", default=DEFAULT_STATE_DIR, metavar="DIR", help=f"default {DEFAULT_STATE_DIR}")
    add("--json", action="store_true", help="one JSON object on stdout")
    if part == "check":
        return
    if part == "init":
        add("--group", default=DEFAULT_GROUP, metavar="NAME", help=f"who may queue (default {DEFAULT_GROUP})")
        add("--user", action="append", default=[], metavar="NAME", help="a member; once for each")
        homes = "a home whose queue becomes part of it; once for each"
        add("--migrate-from", action="append", default=[], metavar="HOME", help=homes)
    if part == "migrate":
        add("--from", dest="home", required=True, metavar="HOME", help="whose queue becomes part of the shared one")
    if part == "shims":
        add("--user", required=True, metavar="NAME", help="whose gpu-hold and npu-hold are replaced")
    add("--dry-run", action="store_true", help="show what would be done, and do nothing")
    add("--yes", action="store_true", help="do not ask; without a terminal nothing is done otherwise")
