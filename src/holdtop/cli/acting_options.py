"""The options that the acting verbs share; apart, so that ``--help`` loads no more than this."""

from __future__ import annotations

import argparse

from holdtop.cli import types


def add_arguments(parser: argparse.ArgumentParser, *, resource: str | None = None) -> None:
    """The options of every acting verb. ``resource``: the default, ``None`` for all that have state."""
    add = parser.add_argument
    add("-r", "--resource", default=resource, metavar="NAME", help=f"gpu, npu, … (default: {resource or 'all'})")
    add("--state-dir", metavar="DIR", help="where queue and token live")
    add("--reason", default="", metavar="TEXT", help="why; it stands in the audit")
    add("--dry-run", action="store_true", help="show what would be done, and do nothing")
    add("--yes", action="store_true", help="do not ask; without a terminal nothing is done otherwise")
    add("--json", action="store_true", help="plan and outcome as JSON on stdout")
    add("--unaudited", action="store_true", help="act even when the audit cannot be written")


def add_grace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace", type=types.duration, metavar="DURATION", help="from TERM to KILL (default the hold's, or 10s)"
    )
