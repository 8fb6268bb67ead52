"""``holdtop`` without a verb: the console. A terminal that cannot show it is told so before anything is loaded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from holdtop import config
from holdtop.cli import looking, types
from holdtop.console.terminal import why_not
from holdtop.errors import UsageError
from holdtop.hold.places import check_resource
from holdtop.model.values import Snapshot

#: Exit status when there is no terminal to draw on.
NO_TERMINAL = 4


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError`` and ``ConfigError``; 4 without a terminal."""
    refresh = _refresh(args.refresh)
    resources = [check_resource(args.resource)] if args.resource not in (None, "all") else None
    if (why := why_not()) is not None:
        print(f"holdtop: {why}", file=sys.stderr)
        return NO_TERMINAL
    settings = config.load({"theme": args.theme, "refresh": refresh})

    from holdtop import operator
    from holdtop.cli.acts import seen
    from holdtop.cli.earlier import Earlier
    from holdtop.console.start import start
    from holdtop.sampler import Sampler

    earlier = Earlier()

    def feed(on_snapshot: Callable[[Snapshot], None]) -> Sampler:
        return Sampler(
            refresh=settings.refresh,
            on_snapshot=earlier.on_the_way(on_snapshot),
            state_dir=args.state_dir,
            resources=resources,
            setup=looking.setup(args.state_dir),
        )

    return start(
        settings,
        feed,
        operator,
        read_only=args.read_only,
        state_dir=args.state_dir,
        acts=lambda: seen(resources, args.state_dir),
        tape=earlier.tape,
    )


def _refresh(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return types.positive_duration(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--refresh: {error}") from error
