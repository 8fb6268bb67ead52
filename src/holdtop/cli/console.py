"""``holdtop`` without a verb: the console. A terminal that cannot show it is told so before anything is loaded."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from holdtop import config
from holdtop.cli import types
from holdtop.console.terminal import why_not
from holdtop.errors import UsageError

if TYPE_CHECKING:
    from holdtop.console.feeds import Acts, Feed, Operator
    from holdtop.model.values import Snapshot

#: Exit status when there is no terminal to draw on.
NO_TERMINAL = 4


def run(args: argparse.Namespace) -> int:
    """Raises ``UsageError`` and ``ConfigError``; 4 without a terminal."""
    refresh = _refresh(args.refresh)
    resources = _resources(args.resource)
    if (why := why_not()) is not None:
        print(f"holdtop: {why}", file=sys.stderr)
        return NO_TERMINAL
    settings = config.load({"theme": args.theme, "refresh": refresh})

    gc.disable()  # until the first picture: nothing of what is loaded for it is garbage

    from holdtop.cli.earlier import Earlier
    from holdtop.console.feeds import Late
    from holdtop.console.start import start

    earlier = Earlier()

    def feed(on_snapshot: Callable[[Snapshot], None]) -> Feed:
        heard = earlier.on_the_way(on_snapshot)
        return Late(lambda: _sampler(heard, settings.refresh, args.state_dir, resources))

    def acts() -> Acts:
        from holdtop.cli.acts import seen

        return seen(resources, args.state_dir)

    return start(
        settings,
        feed,
        cast("Operator", _Operator()),
        read_only=args.read_only,
        state_dir=args.state_dir,
        acts=acts,
        tape=earlier.tape,
    )


def _resources(named: str | None) -> list[str] | None:
    """``None`` for all of them. Raises ``UsageError``."""
    if named in (None, "all"):
        return None
    from holdtop.hold.places import check_resource

    return [check_resource(named)]


class _Operator:
    """``holdtop.operator``, which is loaded when it is first asked for: whoever only looks does not wait for it."""

    def __getattr__(self, name: str) -> Any:
        from holdtop import operator

        return getattr(operator, name)


def _sampler(
    on_snapshot: Callable[[Snapshot], None], refresh: float, state_dir: str | None, resources: list[str] | None
) -> Feed:
    from holdtop.cli.looking import setup
    from holdtop.sampler import Sampler

    return Sampler(
        refresh=refresh,
        on_snapshot=on_snapshot,
        state_dir=state_dir,
        resources=resources,
        setup=setup(state_dir, config.load().forges),
    )


def _refresh(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return types.positive_duration(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--refresh: {error}") from error
