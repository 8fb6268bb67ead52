"""The options of ``holdtop runner``, and the settings that they say; apart, so that ``--help`` loads little."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from holdtop.errors import UsageError
from holdtop.hold.places import DEFAULT_STATE_DIR

if TYPE_CHECKING:
    from holdtop.host.runner.settings import Settings


#: The parts that change something.
CHANGES = ("install", "remove", "drill")


def add_arguments(part: str, parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    if part == "install":
        _add_installation(parser)
    if part in ("install", "remove"):
        add("--now", action="store_true", help="also while a job runs, which ends it")
    if part in CHANGES:
        add("--dry-run", action="store_true", help="show what would be done, and do nothing")
        add("--yes", action="store_true", help="do not ask; without a terminal nothing is done otherwise")
    add("--name", default="main", metavar="NAME", help="the unit is holdtop-runner-NAME.service (default main)")
    add("--user", metavar="NAME", help="the account that jobs run as (default ghrunner)")
    add("--home", metavar="DIR", help="its home (default /var/lib/ghrunner)")
    add("--user-manager", action="store_true", help="a unit of your own service manager, not of the system's")
    add("--memory-max", default="48G", metavar="SIZE", help="48G (default), 1.5T, 85%%, infinity")
    add("--memory-high", metavar="SIZE", help="from here on it is slowed (default 90%% of --memory-max)")
    add("--path-dir", action="append", default=[], metavar="DIR", help="shared tools, before the system's; repeatable")
    add("--env", action="append", default=[], metavar="KEY=VALUE", help="a variable for the jobs; repeatable")
    add("--home-link", action="append", default=[], metavar="NAME=TARGET", help="in the home, for reading; repeatable")
    add("--state-dir", metavar="DIR", help=f"where holds meet (default {DEFAULT_STATE_DIR})")
    add("--no-hold-state", action="store_true", help="jobs meet nobody else's holds")
    add("--unit-dir", metavar="DIR", help="where the unit lies (default: its manager's own directory)")
    add("--json", action="store_true", help="one JSON object on stdout")


def _add_installation(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--groups", default="", metavar="NAME,…", help="further groups of the account")
    add("--tarball", metavar="FILE", help="the vendor's archive; needs --sha256sums")
    add("--sha256sums", metavar="FILE", help="its checksum, as sha256sum prints it")
    add("--url", metavar="URL", help="where the vendor's config.sh registers it; needs --token-file")
    add("--labels", default="", metavar="NAME,…", help="what jobs it takes")
    add("--token-file", metavar="FILE", help="registration token, mode 0600; used once, then deleted")
    add("--linger", action="store_true", help="with --user-manager: it goes on when you log out")


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
        home_links=tuple(quoting.link(text) for text in args.home_link),
        state_dir=None if args.no_hold_state else args.state_dir or DEFAULT_STATE_DIR,
        system=not args.user_manager,
        unit_dir=args.unit_dir,
    )
