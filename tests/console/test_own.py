"""Themes and keys of one's own, on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from holdtop.console import themes
from holdtop.console.screens.act import ActScreen
from tests.console.boxes import BUSY
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import console


def test_themes_are_switched_live(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        for _ in range(len(app._setup.themes)):
            await pilot.press("t", "k")
            await pilot.pause(0.1)
            await pilot.press("escape")
        assert app.look.painter.theme.name == "dark"
        assert "theme dark" in text_of(app)

    on_screen(app, (120, 40), script)


def test_a_remapped_key_acts_and_is_shown(on_screen: OnScreen) -> None:
    app = console(BUSY, remapped={"kill": "x"})

    async def script(pilot: Pilot[None]) -> None:
        assert " x End tree" in text_of(app)
        assert "x ends it" in text_of(app)  # beside the selected flag's remedy
        await pilot.press("k")
        assert not isinstance(app.screen, ActScreen)
        await pilot.press("x")
        assert isinstance(app.screen, ActScreen)

    on_screen(app, (120, 40), script)


def test_a_theme_that_failed_is_said_and_stays_in_the_help(on_screen: OnScreen) -> None:
    app = console(BUSY, troubles=("theme /x/mine.toml: [colors] lacks text",))

    async def script(pilot: Pilot[None]) -> None:
        assert "mine.toml: [colors] lacks text" in text_of(app)
        await pilot.press("question_mark")
        await pilot.pause(0.2)
        assert "mine.toml: [colors] lacks text" in text_of(app)

    on_screen(app, (120, 40), script)


def test_a_theme_of_ones_own_is_put_on_while_it_is_written(
    on_screen: OnScreen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is broken meanwhile is said, and stays as it was."""
    monkeypatch.setattr(themes, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(themes, "user_directory", lambda: tmp_path)
    own = tmp_path / "dark.toml"  # replaces the one that is on
    ours = (themes.packaged() / "dark.toml").read_text()
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        async def until(condition: Callable[[], bool]) -> None:
            for _ in range(200):
                await pilot.pause(0.05)
                if condition():
                    return
            raise AssertionError("never")

        own.write_text(re.sub(r'(?m)^(\s*accent\s*=\s*)"[^"]*"', r'\1"#123456"', ours))
        await until(lambda: app.look.painter.theme.colors["accent"] == "#123456")
        own.write_text("dark = maybe")
        await until(lambda: "dark.toml" in text_of(app))
        assert app.look.painter.theme.colors["accent"] == "#123456"

    on_screen(app, (120, 40), script)
