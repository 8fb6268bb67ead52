"""Foreign text in every field, headless: shown literally, never acted on."""

from __future__ import annotations

import unicodedata

import pytest
from textual.pilot import Pilot

from holdtop.console.events import parse_event
from holdtop.console.screens.main import MainScreen
from holdtop.render import cells, clean
from tests.console.boxes import EVIL, hostile
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeOperator, console

SIZE = (120, 40)


def assert_harmless(shown: str) -> None:
    for number, row in enumerate(shown.splitlines()):
        assert not [char for char in row if unicodedata.category(char) in ("Cc", "Cf", "Cs")], (number, row)
        assert cells(row) <= SIZE[0], (number, row)


@pytest.mark.parametrize("text", EVIL)
def test_every_screen_shows_it_literally(on_screen: OnScreen, text: str) -> None:
    operator = FakeOperator(text=text)
    app = console(hostile(text), operator)

    async def script(pilot: Pilot[None]) -> None:
        app.world.kept.add([parse_event("gpu", text), parse_event(text, '{"event": "x", "reason": "y"}')])
        app._main().look_again()
        await pilot.pause()
        assert clean(text)[:4] in text_of(app)
        for keys in (
            (),
            ("j",),
            ("l",),
            ("escape",),
            ("question_mark",),
            ("escape",),
            ("j", "k"),
            ("1", "right", "enter"),
        ):
            await pilot.press(*keys)
            await pilot.pause(0.15)
            assert_harmless(text_of(app))
        assert len(operator.executed) == 1
        await pilot.press("enter")
        assert isinstance(app.screen, MainScreen)
        assert app.is_running

    on_screen(app, SIZE, script)


def test_columns_stand_still_beside_wide_and_odd_lanes(on_screen: OnScreen) -> None:
    """The pid column of the tree begins at one place whatever stands in the rows."""
    ends = set()
    for text in EVIL:

        async def read(pilot: Pilot[None]) -> None:
            await pilot.press("j")
            row = next(line for line in text_of(pilot.app).splitlines() if " 5001 " in line)  # type: ignore[arg-type]
            ends.add(cells(row[: row.index(" 5001 ")]))

        on_screen(console(hostile(text)), SIZE, read)
    assert len(ends) == 1


def test_what_is_pasted_is_cleaned(on_screen: OnScreen) -> None:
    app = console(hostile("x"))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("slash")
        field = app.screen.query_one("#find")
        field.insert_text_at_cursor("a\x1b]52;c;x\x07b\u202e")  # type: ignore[attr-defined]
        await pilot.pause()
        assert app.world.wanted == "a␛]52;c;x␇b<u+202e>"
        assert_harmless(text_of(app))

    on_screen(app, SIZE, script)


def test_the_palette_acts_and_its_field_is_gated(on_screen: OnScreen) -> None:
    app = console(hostile("x"))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await pilot.pause(0.3)
        app.screen.query_one("Input").insert_text_at_cursor("\x1b[2J")  # type: ignore[attr-defined]
        await pilot.pause(0.3)
        assert_harmless(text_of(app))
        await pilot.press("ctrl+u", *"sort", "enter", "enter")
        await pilot.pause(0.5)
        assert app.world.sort == "age"

    on_screen(app, SIZE, script)
