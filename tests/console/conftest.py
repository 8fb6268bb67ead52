"""Pilot tests without a plugin: ``on_screen`` runs a coroutine beside the real program, headless."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.console import Console as Printer
from textual.pilot import Pilot

from holdtop.console.app import Console
from holdtop.console.view import when

GOLDENS = Path(__file__).parent / "goldens"
Script = Callable[[Pilot[None]], Awaitable[None]]
OnScreen = Callable[[Console, tuple[int, int], Script], None]


@pytest.fixture(autouse=True)
def never_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ages on the screen do not depend on how long this machine once slept."""
    monkeypatch.setattr(when, "_SUSPENDED", 0.0)


@pytest.fixture
def on_screen() -> OnScreen:
    def run(app: Console, size: tuple[int, int], script: Script) -> None:
        async def play() -> None:
            async with app.run_test(size=size) as pilot:
                await pilot.pause()
                await script(pilot)

        asyncio.run(play())

    return run


def text_of(app: Console) -> str:
    """The screen as text, blanks at the right ends dropped."""
    width, height = app.size
    printer = Printer(
        width=width, height=height, file=io.StringIO(), force_terminal=True, record=True, legacy_windows=False
    )
    printer.print(app.screen._compositor.render_update(full=True))
    lines = printer.export_text().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def hold_against(name: str, shown: str) -> None:
    """Compare with the golden text; where there is none, write it and fail, so that somebody looks at it."""
    golden = GOLDENS / f"{name}.txt"
    if not golden.exists():
        GOLDENS.mkdir(exist_ok=True)
        golden.write_text(shown)
        pytest.fail(f"{golden.name} did not exist: it is written now; look at it and run again")
    assert shown == golden.read_text()
