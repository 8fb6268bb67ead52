"""The live screen on hand-made snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.events import Key, MouseScrollUp
from textual.geometry import Region, Size
from textual.pilot import Pilot

from holdtop.console.board import Board
from holdtop.console.events import parse_event
from holdtop.console.feeds import LogFeed
from holdtop.console.screens.act import ActScreen
from holdtop.console.view.glyphs import ASCII
from holdtop.console.view.subject import FlagKey, TicketKey
from holdtop.console.view.text import Line
from holdtop.console.widgets.panel import Panel
from holdtop.model.values import Snapshot, Ticket
from tests.console.boxes import BUSY, FOREIGN, HOLDER, QUIET, readings, resource, ticket
from tests.console.conftest import OnScreen, hold_against, text_of
from tests.console.fakes import FakeFeed, FakeOperator, console

SIZES = ((80, 24), (120, 40), (200, 60))
LOG = (
    '{"at": "2030-01-02T03:00:01+00:00", "event": "queued", "ticket": "0000000012-4012", "lane": "nightly-build"}',
    '{"at": "2030-01-02T03:00:02+00:00", "event": "taken", "ticket": "0000000012-4012", "limits": {"max-hold": "2h"}}',
    "no JSON at all [/red]",
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "box"), [("busy", BUSY), ("quiet", QUIET)])
def test_golden(
    on_screen: OnScreen, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], name: str, box: Snapshot
) -> None:
    monkeypatch.setattr(LogFeed, "poll", lambda _: [])
    app = console(box)

    async def script(pilot: Pilot[None]) -> None:
        app.world.kept.add(parse_event("gpu", text) for text in LOG)
        app._main().look_again()
        await pilot.pause()
        hold_against(f"{name}-{size[0]}x{size[1]}", text_of(app))

    on_screen(app, size, script)


def test_opens_on_the_worst_flag(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert isinstance(app.world.subject, FlagKey)
        assert app.world.subject.kind == "survivor"
        assert app.screen.focused is app.screen.query_one(Board).flags
        assert "   3977 carol" in text_of(app)  # the survivor's own row of the process table

    on_screen(app, (120, 40), script)


def test_opens_on_the_holder_where_nothing_is_wrong(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert app.world.subject == TicketKey("gpu", HOLDER.id)
        assert "nothing is wrong" in text_of(app)

    on_screen(app, (120, 40), script)


def test_the_selection_stays_on_its_ticket_while_rows_move(on_screen: OnScreen) -> None:
    feed = FakeFeed()
    app = console(replace(BUSY, flags=()), feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "down", "down")
        chosen = app.world.subject
        assert isinstance(chosen, TicketKey)
        assert chosen.id.startswith("0000000014")
        queue = BUSY.resources[0]
        first, second, third = queue.waiting
        moved = resource("gpu", replace(first, position=0, state="running"), replace(second, position=1), third)
        feed.on_snapshot(replace(BUSY, flags=(), resources=(moved,)))
        await pilot.pause()
        assert app.world.subject == chosen
        current = app.screen.query_one(Board).queue.current
        assert current is not None
        assert current.id == chosen.id

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize(
    ("keys", "subject"),
    [
        ("j down down", TicketKey("gpu", "0000000014-4014")),
        ("j J down", FlagKey("hot", "gpu", None, ())),
        ("J shift+tab shift+tab down", TicketKey("gpu", "0000000013-4013")),
    ],
)
def test_keys_that_come_at_once_go_where_they_would_one_by_one(
    on_screen: OnScreen, keys: str, subject: FlagKey | TicketKey
) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        for key in keys.split():  # as a slow line delivers them: no pause between them
            app.post_message(Key(key, key if len(key) == 1 else None))
        await pilot.pause(0.3)
        assert app.world.subject == subject

    on_screen(app, (120, 40), script)


def test_what_follows_the_filters_key_at_once_is_no_act(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(BUSY, operator)

    async def script(pilot: Pilot[None]) -> None:
        for key, char in (("slash", "/"), ("k", "k"), ("e", "e")):
            app.post_message(Key(key, char))
        await pilot.pause(0.3)
        assert not isinstance(app.screen, ActScreen)
        assert operator.planned == []

    on_screen(app, (120, 40), script)


def test_one_sentence_says_why_somebody_waits(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "down", "2")
        await pilot.pause()
        shown = " ".join(text_of(app).split())
        assert "eval-7 waits: nightly-build has held gpu for 1h30m and may for 55m55s more" in shown
        assert "its turn may come in 15m55s to 55m55s" in shown
        assert "+00:00" not in shown, "no raw instant"
        assert "Will it fit? Yes: its lane has needed up to 24.0 GiB" in shown

    on_screen(app, (200, 60), script)


def test_fold_and_subtree_sums(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "tab", "down", "enter")  # the second row: 5002 with two workers
        shown = text_of(app)
        row = next(line for line in shown.splitlines() if " 5002 " in line)
        assert "▸2" in row
        assert "119%" in row  # 96 + 12 + 11
        assert "5003" not in shown
        await pilot.press("enter")
        assert "5003" in text_of(app)

    on_screen(app, (120, 40), script)


def test_filter_and_escape(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"EVAL", "enter")
        await pilot.pause()
        shown = text_of(app)
        assert "filtered: eval" in shown
        assert "ci-7731" not in shown
        assert app.world.subject == TicketKey("gpu", "0000000013-4013")  # not what is hidden now
        await pilot.press("escape")
        await pilot.pause()
        assert "ci-7731" in text_of(app)

    on_screen(app, (120, 40), script)


def test_sort_by_lane(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("s", "s")
        lanes = [item.lane for item in app.world.tickets()]
        assert lanes == sorted(lanes, key=lambda lane: lane or "")
        assert "by lane" in text_of(app)

    on_screen(app, (120, 40), script)


def test_an_equal_snapshot_draws_nothing(on_screen: OnScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFeed, "poll", lambda _: [])
    feed = FakeFeed()
    app = console(BUSY, feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        for _ in range(250):  # graphs are filled
            app.world.history.add(BUSY)
        app._main().look_again()
        await pilot.pause()
        drawn: list[tuple[str | None, int]] = []

        def refresh(self: Panel, *regions: Region, **_: object) -> Panel:
            drawn.append((self.id, len(regions)))
            return self

        monkeypatch.setattr(Panel, "refresh", refresh)
        feed.on_snapshot(replace(BUSY, at=BUSY.at + 0.2))
        await pilot.pause(0.2)
        assert drawn == []
        feed.on_snapshot(replace(BUSY, readings=readings(tctl_celsius=109.0)))
        await pilot.pause(0.2)
        assert drawn == [("gauges", 2)]  # the line of the temperature and that of its graph

    on_screen(app, (120, 40), script)


def test_only_visible_rows_are_drawn(on_screen: OnScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = tuple(ticket(number, position=number) for number in range(1, 5001))
    app = console(replace(BUSY, flags=(), resources=(resource("gpu", HOLDER, *waiting),)))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        queue = app.screen.query_one(Board).queue
        drawn: list[str] = []
        draw = queue.draw

        def counted(item: Ticket, width: int, selected: bool) -> Sequence[Line]:
            drawn.append(item.id)
            return draw(item, width, selected)

        monkeypatch.setattr(queue, "draw", counted)
        await pilot.press("end")
        assert 0 < len(set(drawn)) < 60
        assert len(drawn) < 500, "once for each paint"
        assert "lane-5000" in text_of(app)

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (3, 3), (10, 3), (20, 5), (39, 9), (40, 10), (60, 18), (300, 100)])
def test_any_size_stands(on_screen: OnScreen, size: tuple[int, int]) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("tab", "k", "escape", "question_mark", "escape", "l", "escape")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert app.size == Size(80, 24)
        assert "nightly-build" in text_of(app)

    on_screen(app, size, script)


def test_the_summary_of_a_small_terminal(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        shown = text_of(app)
        for word in ("✖ 1 critical", "HELD", "survivor"):
            assert word in shown
        assert "Events" not in shown

    on_screen(app, (40, 10), script)


def test_ascii_has_nothing_else(on_screen: OnScreen) -> None:
    app = console(BUSY, glyphs=ASCII)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert text_of(app).isascii()
        await pilot.press("k")
        await pilot.pause(0.2)
        assert text_of(app).isascii()
        await pilot.press("escape", "question_mark")
        await pilot.pause(0.2)
        assert text_of(app).isascii()
        await pilot.press("escape", "ctrl+p")
        await pilot.pause(0.3)
        assert "End tree" in text_of(app)
        assert text_of(app).isascii()

    on_screen(app, (120, 40), script)


def test_the_last_release_of_a_held_resource_is_shown(on_screen: OnScreen) -> None:
    receipt = {"verdict": "dirty", "lane": "whisper", "at": "2030-01-02T02:59:00+00:00"}
    app = console(replace(BUSY, resources=(resource("gpu", HOLDER, last_receipt=receipt),)))

    async def script(pilot: Pilot[None]) -> None:
        for width in (120, 200):
            await pilot.resize_terminal(width, 40)
            await pilot.pause(0.2)
            assert "last release dirty 5m ago, whisper" in text_of(app)

    on_screen(app, (120, 40), script)


def test_who_ends_a_ticket_is_said_in_its_rows(on_screen: OnScreen) -> None:
    waiter = replace(ticket(13), being_ended_by="carol")
    app = console(replace(BUSY, resources=(resource("gpu", replace(HOLDER, being_ended_by="bob"), waiter),)))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        shown = text_of(app)
        assert shown.count("being ended by bob") == 2  # the resource's line, and the holder's row
        assert "being ended by carol" in shown

    on_screen(app, (120, 40), script)


def test_no_news_is_said(on_screen: OnScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        monkeypatch.setattr(app, "_heard", app._heard - 75)
        app._listen()
        await pilot.pause()
        assert "data 1m" in text_of(app)

    on_screen(app, (120, 40), script)


def test_recorded_roots_are_shown(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, roots=("HOLDTOP_SYS=/box/sys",)))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert "recorded sensors" in text_of(app)
        await pilot.press("question_mark", "pagedown", "pagedown", "pagedown")
        await pilot.pause(0.2)
        assert "HOLDTOP_SYS=/box/sys" in text_of(app)

    on_screen(app, (120, 40), script)


def test_other_entries_of_the_queue_are_shown_apart(on_screen: OnScreen) -> None:
    app = console(FOREIGN)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "down")
        shown = " ".join(text_of(app).split())
        assert "lane-x.4711 pid 4711, another tool's: no ticket of ours" in shown
        assert "not believed: two links" in shown
        assert "nobody waiting" in shown
        assert app.world.subject == TicketKey("gpu", "lane-x.4711")

    on_screen(app, (160, 45), script)


def test_a_move_of_the_state_is_said(on_screen: OnScreen) -> None:
    feed = FakeFeed()
    app = console(BUSY, feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        moved = resource("gpu", None, token_path="/var/lib/shared/gpu-token")
        feed.on_snapshot(replace(BUSY, resources=(moved,)))
        await pilot.pause(0.2)
        assert "its state is now /var/lib/shared/gpu-token; before, /srv/hold/gpu-token" in text_of(app)

    on_screen(app, (160, 45), script)


def test_the_mouse_selects_and_scrolls(on_screen: OnScreen) -> None:
    app = console(replace(BUSY, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.click("#queue", offset=(10, 4))  # title, head, holder, first waiter, second waiter
        assert app.world.subject == TicketKey("gpu", "0000000014-4014")
        queue = app.screen.query_one(Board).queue
        assert app.screen.focused is queue
        queue.post_message(MouseScrollUp(queue, 5, 4, 0, -1, 0, False, False, False))
        await pilot.pause()
        assert app.world.subject == TicketKey("gpu", HOLDER.id)

    on_screen(app, (120, 40), script)
