"""What readers of the pictures stumbled over: words, colours and cuts that misled, each seen once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from textual.pilot import Pilot

from holdtop.console.feeds import Acts
from holdtop.console.keys import KEYS
from holdtop.console.view.acts import deeds
from holdtop.console.view.deed import deed_lines
from holdtop.console.view.glyphs import UNICODE
from holdtop.console.view.help import help_lines
from holdtop.console.view.plan import Account
from tests.console.boxes import BUSY, HOLDER
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeOperator, console

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
NO_FLAGS = replace(BUSY, flags=())


def test_it_is_said_what_enter_does_now(on_screen: OnScreen) -> None:
    """It was said that Cancel is the default while the act was selected."""
    app = console(NO_FLAGS, FakeOperator())

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k", "1")
        await pilot.pause(0.3)
        assert "reason: stuck; Enter cancels" in text_of(app)
        for key, words in (("right", "carries it out"), ("left", "cancels")):
            await pilot.press(key)
            assert f"reason: stuck; Enter {words}" in text_of(app)

    on_screen(app, (100, 30), script)


def test_what_went_well_is_not_coloured_as_a_warning() -> None:
    operator = FakeOperator()
    plan = operator.plan_kill(BUSY, HOLDER.id)
    account = Account(plan, "stuck")
    account.end(plan, operator.execute(plan, reason="stuck", progress=lambda _: None), "")
    assert (account.words, account.role) == ("done", "ok")
    account.end(plan, None, "it failed")
    assert account.role == "warning"


def test_an_act_was_some_time_ago_not_less_than_none() -> None:
    """It said "-21s ago"."""
    intent = {"kind": "intent", "act": "a", "uid": 0, "verb": "kill", "at": "2030-01-02T03:04:05+00:00"}
    lines = deed_lines(deeds(Acts((intent,)))[0], None, "2030-01-02T03:04:26+00:00", 100, UNICODE)
    assert ", 21s ago" in "\n".join(span.text for row in lines for span in row.spans)


def test_no_key_is_named_that_would_be_refused(on_screen: OnScreen) -> None:
    """Flags named the key of their remedy in a recording, in which nothing can be ended."""

    def flagged(read_only: bool) -> str:
        app, shown = console(BUSY, read_only=read_only), list[str]()

        async def script(pilot: Pilot[None]) -> None:
            shown.append(text_of(app))

        on_screen(app, (120, 40), script)
        return shown[0]

    assert "k ends it" in flagged(False)
    assert "ends it" not in flagged(True)


def test_the_help_is_wrapped_and_not_cut() -> None:
    for width in (60, 80, 120):
        rows = ["".join(span.text for span in row.spans) for row in help_lines(KEYS, (), (), width, UNICODE)]
        assert max(map(len, rows)) <= width
        told = " ".join(" ".join(rows).split())
        assert all(key.help in told for key in KEYS)
        assert rows[0].strip(), "a line is wasted"


def test_every_screen_is_pictured_in_every_size_and_theme() -> None:
    """Of the same set each, and small enough to be kept."""
    drawn = [path.stem.split("-", 2) for path in PICTURES.glob("*-*x*-*.svg")]
    screens, sizes, looks = ({one[place] for one in drawn} for place in range(3))
    assert sizes == {"80x24", "120x40", "200x60"}
    assert looks == {"dark", "light", "high-contrast"}
    assert len(drawn) == len(screens) * 9
    missing = {"now", "ticket", "logs", "audit", "runners", "help", "palette", "dialog", "act", "replay"} - screens
    assert missing == set()
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 6_000_000
