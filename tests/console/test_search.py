"""Search, levels and tickets on the page of logs; no pattern stops a key, and none is left computing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from textual.pilot import Pilot

from holdtop.console.app import Console
from holdtop.console.events import LogLine, parse_event, parse_line
from holdtop.console.feeds import LogFeed
from holdtop.console.search import Search, pattern_of
from holdtop.console.widgets.lines import LinesPanel
from tests.console.boxes import BUSY
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import console

LOG = "/var/log/job.log"
WORDS = ("step 1", "WARNING: low memory", "step 2", "ERROR: out of device memory", "step 3 [/red]", "step 4")
#: A pattern for which a backtracking matcher needs longer than anybody lives.
ENDLESS = "(a|aa)+$"


def children() -> set[str]:
    """Living children of ours, by pid."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return set(file.read().split())


def searched(wanted: str, texts: Sequence[str]) -> tuple[list[str], str]:
    """What a search finds in these, and why it ended before it was closed."""
    found: list[LogLine] = []
    told, over = threading.Event(), threading.Event()
    whys: list[str] = []

    def on_found(lines: Sequence[LogLine]) -> None:
        found.extend(lines)
        told.set()

    def on_end(why: str) -> None:
        whys.append(why)
        told.set()
        over.set()

    search = Search(wanted, on_found, on_end)
    search.feed([parse_line(LOG, text) for text in texts])
    assert told.wait(30)
    search.close()
    assert over.wait(30)
    return [line.text for line in found], whys[0]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("step", ["step 1", "step 2", "step 3 [/red]", "step 4"]),
        ("OUT OF", ["ERROR: out of device memory"]),
        ("/low|out of .*memory/", ["WARNING: low memory", "ERROR: out of device memory"]),
        ("/red]", ["step 3 [/red]"]),  # one slash makes no pattern
        ("/", ["step 3 [/red]"]),
        (".", []),
    ],
)
def test_words_and_patterns(wanted: str, found: list[str]) -> None:
    assert searched(wanted, WORDS) == (found, "")


@pytest.mark.parametrize("wanted", ["/(/", "/*/", "/(?P<a/"])
def test_what_is_no_pattern_is_said(wanted: str) -> None:
    assert searched(wanted, WORDS)[1].startswith("no pattern: ")


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (f"/{ENDLESS}/", "a" * 60 + "b"),
        ("/((((x{1,999}){1,999}){1,999}){1,999})y/", "x" * 2000),
        ("/(.*)*(.*)*(.*)*$z/", "q" * 2000),
    ],
)
def test_a_pattern_that_never_ends_is_given_up(wanted: str, text: str) -> None:
    before = children()
    assert searched(wanted, [text]) in [([], "given up: this pattern takes too long"), ([], "no pattern: too large")]
    assert children() == before


def test_ten_thousand_lines_in_batches() -> None:
    found, why = searched("7", [f"line {number}" for number in range(10_000)])
    assert len(found) == sum("7" in str(number) for number in range(10_000))
    assert why == ""


def test_a_word_stands_for_itself() -> None:
    assert pattern_of("a.b") == r"a\.b"
    assert pattern_of("/a.b/") == "a.b"
    assert pattern_of("//") == "//"


# On the screen


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(LogFeed, "poll", lambda _: [])
    made = console(BUSY)
    made.world.logs = (LOG,)
    made.world.kept.add(parse_line(LOG, text) for text in WORDS)
    for event, said in (("queued", ""), ("warned", ', "text": "hot"'), ("unreleased", ', "why": "full disk"')):
        made.world.kept.add([parse_event("gpu", f'{{"event": "{event}", "ticket": "0000000012-4012"{said}}}')])
    made.world.kept.add([parse_event("gpu", '{"event": "queued", "ticket": "0000000013-4013"}')])
    return made


async def marked(pilot: Pilot[None], app: Console, count: int) -> None:
    """Until so many lines are marked."""
    end = time.monotonic() + 30
    while app.screen.query_one(LinesPanel).marks.count != count:
        assert time.monotonic() < end
        await pilot.pause(0.05)


async def to_the_file(pilot: Pilot[None]) -> None:
    await pilot.press("3", "tab", "down", "tab")
    await pilot.pause()


def test_find_marks_and_goes_round(on_screen: OnScreen, app: Console) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await to_the_file(pilot)
        await pilot.press("f", *"memory", "enter")
        await marked(pilot, app, 2)
        lines = app.screen.query_one(LinesPanel)
        assert "2 lines with memory" in text_of(app)
        assert "▌ERROR: out of device memory" in text_of(app)
        assert "▌step" not in text_of(app)
        where = [lines.index]
        for key in ("n", "n", "N"):
            await pilot.press(key)
            where.append(lines.index)
        assert where == [3, 1, 3, 1]
        app.world.kept.add([parse_line(LOG, "memory is back")])
        app._main().look_again()
        await marked(pilot, app, 3)  # lines that come are looked at, too
        await pilot.press("escape")
        assert "▌ERROR" not in text_of(app)
        assert app.world.page == "logs"

    on_screen(app, (120, 40), script)


def test_no_key_waits_for_a_pattern(on_screen: OnScreen, app: Console) -> None:
    app.world.kept.add([parse_line(LOG, "a" * 60 + "b")])

    async def script(pilot: Pilot[None]) -> None:
        await to_the_file(pilot)
        await pilot.press("f", "slash", *ENDLESS, "slash", "enter")
        before = children()
        await pilot.press("1")
        assert app.world.page == "now"
        await pilot.press("3")
        assert app.world.page == "logs"
        end = time.monotonic() + 30
        while "takes too long" not in text_of(app):
            assert time.monotonic() < end
            await pilot.pause(0.1)
        assert children() <= before

    on_screen(app, (120, 40), script)


def test_levels(on_screen: OnScreen, app: Console) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await to_the_file(pilot)
        shown = []
        for _ in range(4):
            shown.append([line.text for line in app.screen.query_one(LinesPanel).items])
            await pilot.press("w")
        assert shown == [list(WORDS), [WORDS[1], WORDS[3]], [WORDS[3]], list(WORDS)]
        await pilot.press("tab", "up")
        await pilot.pause()
        assert "full disk" in text_of(app)
        assert "warnings and errors only" in text_of(app)

    on_screen(app, (120, 40), script)


def test_the_lines_of_the_selected_ticket(on_screen: OnScreen, app: Console) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "down", "l", "o")
        lines = app.screen.query_one(LinesPanel)
        assert [line.ticket for line in lines.items] == ["0000000013-4013"]
        assert "ticket 13-4013 only" in text_of(app)
        await pilot.press("o")
        assert len(lines.items) == 4

    on_screen(app, (120, 40), script)


def test_long_lines_are_moved_sideways(on_screen: OnScreen, app: Console) -> None:
    app.world.kept.add([parse_line(LOG, "".join(f"<{number:03}>" for number in range(200)))])

    async def script(pilot: Pilot[None]) -> None:
        await to_the_file(pilot)
        assert text_of(app).count("<000>") == 2  # in the list of logs, and in the log
        await pilot.press("right")
        assert text_of(app).count("<000>") == 1
        assert "from column 21" in text_of(app)
        await pilot.press("left", "left")
        assert text_of(app).count("<000>") == 2

    on_screen(app, (120, 40), script)


def test_leaving_ends_the_search(on_screen: OnScreen, app: Console, tmp_path: Path) -> None:
    async def script(pilot: Pilot[None]) -> None:
        await to_the_file(pilot)
        await pilot.press("f", *"step", "enter")
        await marked(pilot, app, 4)

    before = children()
    on_screen(app, (120, 40), script)
    end = time.monotonic() + 30
    while children() - before:
        assert time.monotonic() < end
        time.sleep(0.05)
