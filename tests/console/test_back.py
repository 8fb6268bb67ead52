"""A log is read back from what is shown of it, in bounded steps, and searched there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from holdtop.console import follow, kept
from holdtop.console.app import Console
from holdtop.console.events import LogLine
from holdtop.console.feeds import LogFeed
from holdtop.console.follow import Follower, Place, Text
from holdtop.console.widgets.lines import LinesPanel
from tests.console.boxes import BUSY
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import console


def numbered(count: int) -> str:
    return "".join(f"line {number:06} {'x' * 40}\n" for number in range(count))


def read_back(follower: Follower, place: Place) -> list[str]:
    """All of it, oldest first; each step is bounded."""
    lines: list[str] = []
    while True:
        texts = [one for one in follower.before(place) if isinstance(one, Text)]
        assert len(texts) <= follow.LINES
        if not texts:
            return lines
        assert texts[0].place is not None
        assert 0 < place.offset - texts[0].place.offset <= follow.BACK
        place, lines = texts[0].place, [*(text.text for text in texts), *lines]


def first_place(said: list[follow.Said]) -> Place:
    return next(one.place for one in said if isinstance(one, Text) and one.place is not None)


def test_step_by_step_to_the_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(numbered(20_000))
    follower = Follower(str(log))
    said = follower.poll()
    shown = [one.text for one in said if isinstance(one, Text)]
    assert len(shown) < 2000
    assert [*read_back(follower, first_place(said)), *shown] == log.read_text().splitlines()
    follower.close()


@given(st.lists(st.binary(max_size=30).map(lambda line: line.translate(None, b"\n\r")), max_size=60))
def test_any_lines_are_the_same_both_ways(lines: list[bytes]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    path = Path("log")
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(follow, "BACK", 64)
        forward, back = Follower(str(path)), Follower(str(path))
        expected = [one.text for one in forward.poll() if isinstance(one, Text)]
        back.poll()
        assert read_back(back, Place(0, len(content))) == expected
        forward.close()
        back.close()


def test_a_line_larger_than_a_step_comes_in_parts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"first\n" + b"y" * (3 * follow.BACK) + b"\nlast\n")
    follower = Follower(str(log))
    follower.poll()
    lines = read_back(follower, Place(0, log.stat().st_size))
    assert (lines[0], lines[-1]) == ("first", "last")
    assert len(lines) < 8
    assert max(map(len, lines)) < follow.LINE + 100
    follower.close()


@pytest.mark.parametrize("fate", [lambda log: log.write_text("new\n"), lambda log: log.rename(f"{log}.1")])
def test_what_is_no_longer_there_is_not_read(tmp_path: Path, fate: Callable[[Path], object]) -> None:
    log = tmp_path / "log"
    log.write_text(numbered(4000))
    follower = Follower(str(log))
    place = first_place(follower.poll())
    fate(log)
    log.write_text("another\n")
    follower.poll()
    (said,) = follower.before(place)
    assert said == follow.Note("what was before is no longer in this file")
    follower.close()


def test_what_is_kept_is_bounded_and_has_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "KEPT_OF_FILE", 5)
    monkeypatch.setattr(kept, "KEPT_BACK", 10)
    lines = [LogLine("", "", "line", "", str(n), file="f", place=Place(0, n)) for n in range(40)]
    logs = kept.Kept()
    logs.add(lines[20:25])
    assert logs.add_earlier("f", lines[14:20])
    logs.add(lines[25:28])
    assert [line.text for line in logs.lines("f")] == [str(n) for n in range(14, 28)]
    logs.add(lines[28:])
    assert [line.text for line in logs.lines("f")] == [str(n) for n in range(25, 40)]
    assert logs.full("f")
    logs.let_go("f")
    assert len(logs.lines("f")) == 5


def opened(log: Path) -> Console:
    app = console(BUSY)
    app.world.logs = (str(log),)
    app.world.log_file = str(log)
    return app


async def until(pilot: Pilot[None], ask: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not ask():
        assert time.monotonic() < end, text_of(pilot.app)  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
        await pilot.pause()


def test_home_and_page_up_go_on_and_end_lets_go(on_screen: OnScreen, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(numbered(12_000))
    app = opened(log)

    async def script(pilot: Pilot[None]) -> None:
        lines = app.screen.query_one(LinesPanel)

        def further(before: int) -> bool:
            return len(lines.items) > before or "the file begins here" in text_of(app)

        await pilot.press("3")
        await until(pilot, lambda: "line 011999" in text_of(app))
        at_first = len(lines.items)
        assert "left out" in text_of(app)
        await pilot.press("home")
        await until(pilot, lambda: len(lines.items) > at_first)
        assert lines.items[lines.index].text.startswith("line 01"), "the cursor stays on its line"
        for key in ("home", "home", "pageup"):
            before = len(lines.items)
            await pilot.press("home", key)
            await until(pilot, lambda before=before: further(before))  # type: ignore[misc]
        assert lines.items[0].text.startswith("line 000000")
        assert "left out" not in text_of(app)
        assert [line.text[5:11] for line in lines.items] == [f"{number:06}" for number in range(12_000)]
        await pilot.press("end")
        await until(pilot, lambda: len(lines.items) < at_first)
        assert "left out" in text_of(app)

    on_screen(app, (100, 30), script)


def test_a_search_goes_further_back(on_screen: OnScreen, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(numbered(4000).replace("line 000007", "a needle!!!"))
    app = opened(log)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await until(pilot, lambda: "line 003999" in text_of(app))
        await pilot.press("f", *"needle", "enter")
        await until(pilot, lambda: "0 lines with needle" in text_of(app))
        await pilot.press("N")
        await until(pilot, lambda: "▌a needle!!!" in text_of(app))
        assert "1 line with needle" in text_of(app)
        await pilot.press("f", "ctrl+u", *"nowhere", "enter")
        await until(pilot, lambda: "0 lines with nowhere" in text_of(app))
        await pilot.press("N")
        await until(pilot, lambda: "the file begins here" in text_of(app))

    on_screen(app, (100, 30), script)


def test_events_are_read_back_in_order(tmp_path: Path) -> None:
    feed = LogFeed(lambda _: None)
    paths = {resource: str(tmp_path / resource) for resource in ("gpu", "npu")}
    for resource, path in paths.items():
        times = (f"2030-01-02T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}+00:00" for n in range(3000))
        Path(path).write_text("".join(f'{{"event": "{resource}", "at": "{at}"}}\n' for at in times))
    feed.follow(paths)
    logs = kept.Kept()
    logs.add(feed.poll())
    assert logs.oldest("")["gpu"].offset > 0
    while logs.add_earlier("", feed.earlier(logs.oldest(""))):
        pass
    said = [line.at for line in logs.lines() if line.kind != "note"]
    assert (len(said), said) == (6000, sorted(said))
