"""``holdtop runner``: a self-hosted CI runner as a unit that survives its jobs."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from holdtop.errors import UsageError
from holdtop.hold.places import DEFAULT_STATE_DIR

if TYPE_CHECKING:
    from holdtop.host.runner.settings import Settings

EPILOG = "exit status: 0, or 1 when systemd-analyze verify has anything to say of the unit"


def add_parser(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser("runner", help="a CI runner that survives its jobs", allow_abbrev=False)
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    render = acts.add_parser("render", help="print the unit", epilog=EPILOG, allow_abbrev=False)
    _add_settings(render)
    render.add_argument("--json", action="store_true", help="name, text and complaints as JSON on stdout")


def run(args: argparse.Namespace) -> int:
    from holdtop.host.runner import unit
    from holdtop.render import clean

    settings = settings_of(args)
    text = unit.render(settings)
    said = unit.complaints(text, settings.unit)
    if args.json:
        print(json.dumps({"schema": 1, "unit": settings.unit, "text": text, "complaints": said}))
    else:
        print(text, end="")
    for line in [f"holdtop: not verified: {unit.NO_ANALYZE}"] if said is None else said:
        print(clean(line), file=sys.stderr)
    return 1 if said else 0


def settings_of(args: argparse.Namespace) -> Settings:
    """What the options say. Raises ``UsageError``."""
    from holdtop.host.runner import quoting, sizes
    from holdtop.host.runner.settings import Settings, own_account

    maximum = sizes.parse(args.memory_max)
    high = sizes.high_for(maximum) if args.memory_high is None else sizes.parse(args.memory_high)
    if args.no_hold_state and args.state_dir is not None:
        raise UsageError("--state-dir and --no-hold-state: one of them")
    if args.user_manager and (args.user is not None or args.home is not None):
        raise UsageError("--user-manager: a unit of your own manager runs as you, in your home")
    user, home = own_account() if args.user_manager else (args.user or "ghrunner", args.home or "/var/lib/ghrunner")
    return Settings(
        name=args.name,
        user=user,
        home=home,
        memory_max=maximum,
        memory_high=high,
        path_dirs=tuple(args.path_dir),
        environment=tuple(quoting.assignment(text, "--env") for text in args.env),
        state_dir=None if args.no_hold_state else args.state_dir or DEFAULT_STATE_DIR,
        system=not args.user_manager,
    )


def _add_settings(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--name", default="main", metavar="NAME", help="the unit is holdtop-runner-NAME.service (default main)")
    add("--user", metavar="NAME", help="the account that jobs run as (default ghrunner)")
    add("--home", metavar="DIR", help="its home (default /var/lib/ghrunner)")
    add("--user-manager", action="store_true", help="a unit of your own service manager, not of the system's")
    add("--memory-max", default="48G", metavar="SIZE", help="48G (default), 1.5T, 85%%, infinity")
    add("--memory-high", metavar="SIZE", help="from here on it is slowed (default 90%% of --memory-max)")
    add("--path-dir", action="append", default=[], metavar="DIR", help="shared tools, before the system's; repeatable")
    add("--env", action="append", default=[], metavar="KEY=VALUE", help="a variable for the jobs; repeatable")
    add("--state-dir", metavar="DIR", help=f"where holds meet (default {DEFAULT_STATE_DIR})")
    add("--no-hold-state", action="store_true", help="jobs meet nobody else's holds")
