"""Puts the console together and runs it on this terminal."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from holdtop.config import Config
from holdtop.console import themes
from holdtop.console.app import Console, Setup
from holdtop.console.feeds import Acts, FeedMaker, Operator
from holdtop.console.keys import Key, table
from holdtop.console.replaying.keys import live_only, replay_table
from holdtop.console.terminal import Leaving
from holdtop.console.view.glyphs import chosen
from holdtop.errors import UsageError

if TYPE_CHECKING:
    from holdtop.console.replaying.moments import Tape


def start(
    config: Config,
    feed: FeedMaker,
    operator: Operator,
    *,
    read_only: bool,
    state_dir: str | None,
    acts: Callable[[], Acts] | None = None,
    tape: Callable[[], Tape] | None = None,
) -> int:
    """The exit status: 0, or 128+n when signal n (or the terminal's end, as HUP) ended it.

    ``acts`` reads the audits, ``tape`` opens what was recorded of this box; both may block.
    """
    setup = made(config, feed, operator, table(live_only(config.keys)))
    given = replace(setup, acts=acts, read_only=read_only, state_dir=state_dir, tape=tape)
    return run(Console(replace(given, time_keys=replay_table(config.keys))))


def replay(config: Config, tape: Tape, troubles: Sequence[str]) -> int:
    """The same screens on a recording. ``troubles``: what of it is damaged."""
    from holdtop.console.replaying.app import Replay, Still
    from holdtop.console.replaying.player import Player
    from holdtop.operator import recorded

    setup = made(config, lambda _: Still(), recorded, replay_table(config.keys))
    return run(Replay(replace(setup, troubles=(*troubles, *setup.troubles), logs=()), Player(tape)))


def made(config: Config, feed: FeedMaker, operator: Operator, keys: tuple[Key, ...]) -> Setup:
    """All that the console is given, by the configuration and the terminal. Raises ``UsageError``."""
    loaded = themes.load()
    return Setup(
        feed=feed,
        operator=operator,
        keys=keys,
        remapped=dict(config.keys),
        themes=loaded.loaded,
        theme=_theme(config.theme, loaded, os.environ),
        glyphs=chosen(os.environ, sys.__stderr__.encoding if sys.__stderr__ else "ascii"),
        reasons=config.reasons,
        logs=config.logs,
        troubles=loaded.failed,
        colorless=bool(os.environ.get("NO_COLOR")),
    )


def run(app: Console) -> int:
    with Leaving(lambda: app.call_later(app.exit), _end_records) as leaving:
        app.run()
    return 128 + leaving.signal if leaving.signal else app.return_code or 0


def _end_records() -> None:
    """For a program that is left while it acts; loaded only then."""
    from holdtop.operator.record import interrupt_all

    interrupt_all()


def _theme(wanted: str | None, loaded: themes.Themes, environ: Mapping[str, str]) -> str:
    """The theme's name. Raises ``UsageError`` for one that does not exist."""
    if wanted is None:
        few = not environ.get("COLORTERM") and not any(word in environ.get("TERM", "") for word in _MANY)
        wanted = themes.FEW_COLORS if few else themes.DEFAULT
    if wanted not in loaded.loaded:
        near = difflib.get_close_matches(wanted, loaded.loaded, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(loaded.loaded)}"
        broken = next((f" ({failed})" for failed in loaded.failed if f"{wanted}.toml" in failed), "")
        raise UsageError(f"there is no theme {wanted!r}{broken}; {hint}")
    return wanted


#: In the names of terminals that show 256 colours or more.
_MANY = ("256color", "direct", "kitty", "alacritty", "ghostty", "foot")
