"""The dialog of an act, key by key."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from holdtop.console.screens.act import ActScreen
from holdtop.console.screens.main import MainScreen
from holdtop.errors import GoneError, RefusedError
from holdtop.model.values import Flag, Snapshot
from tests.console.boxes import BUSY, FLAGS, FOREIGN, HOLDER, resource
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeFeed, FakeOperator, console

STUCK = replace(
    BUSY,
    leftovers=(),
    flags=(Flag("over-deadline", "warning", "gpu", HOLDER.id, (), BUSY.taken_at, "5 min over its deadline", "end it"),),
)
NO_FLAGS = replace(BUSY, flags=())
SIZE = (100, 30)


async def settled(pilot: Pilot[None]) -> None:
    """Until the daemon thread of a plan or an act has told what it had to tell."""
    await pilot.pause(0.15)


def test_four_keys_end_ones_own_stuck_tree(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert [(plan.ticket, reason) for plan, reason in operator.executed] == [(HOLDER.id, "stuck")]
        shown = text_of(app)
        for words in ("asked", "terminated", "37.0 GiB of 38.0 GiB expected", "intent", "outcome"):
            assert words in shown
        await pilot.press("enter")
        assert isinstance(app.screen, MainScreen)

    on_screen(app, SIZE, script)


@pytest.mark.parametrize("keys", ["enter", "1 enter", "escape", "1 right left enter", "1 space"])
def test_cancel_is_the_default(on_screen: OnScreen, keys: str) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press(*keys.split())
        await settled(pilot)
        assert isinstance(app.screen, MainScreen)
        assert operator.executed == []

    on_screen(app, SIZE, script)


def test_a_reason_is_required_and_may_be_written(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("right", "enter")
        await settled(pilot)
        assert operator.executed == []
        assert "a reason is required" in text_of(app)
        await pilot.press("right", *"my own 1", "shift+tab", "enter")
        await settled(pilot)
        assert [reason for _, reason in operator.executed] == ["my own 1"]

    on_screen(app, SIZE, script)


def test_the_id_must_be_typed_where_the_plan_says_so(on_screen: OnScreen) -> None:
    operator = FakeOperator(needs_typing=True)
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert operator.executed == []
        assert f"type {HOLDER.id} to confirm" in text_of(app)
        app.screen.query_one("#typed").focus()
        await pilot.press(*HOLDER.id)
        app.screen.query_one("#go").focus()
        await pilot.press("enter")
        await settled(pilot)
        assert len(operator.executed) == 1

    on_screen(app, SIZE, script)


def test_the_dialog_shows_whom_and_whom_not(on_screen: OnScreen) -> None:
    app = console(STUCK)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        shown = text_of(app)
        for words in (
            "1 process will end",
            "5002 alice",
            "38.0 GiB",
            "Found only by marker or device",
            "5006 alice",
            "Will not be touched",
            "a tmux server of another lane",
        ):
            assert words in shown

    on_screen(app, SIZE, script)


def test_targets_stay_frozen_while_the_box_moves(on_screen: OnScreen) -> None:
    feed, operator = FakeFeed(), FakeOperator()
    app = console(STUCK, operator, feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        feed.on_snapshot(replace(BUSY, resources=(resource("gpu", None),), flags=()))
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert [plan.ticket for plan, _ in operator.executed] == [HOLDER.id]

    on_screen(app, SIZE, script)


def test_gone_is_said_and_nothing_done(on_screen: OnScreen) -> None:
    operator = FakeOperator(fail=GoneError("0000000012-4012 ended a moment ago"))
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        assert "already gone, nothing done: 0000000012-4012 ended" in text_of(app)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert operator.executed == []

    on_screen(app, SIZE, script)


@pytest.mark.parametrize("failure", [RefusedError("refused: not yours"), ZeroDivisionError("a fault of ours")])
def test_a_plan_that_fails_is_said(on_screen: OnScreen, failure: Exception) -> None:
    app = console(STUCK, FakeOperator(fail=failure))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        assert str(failure) in text_of(app)

    on_screen(app, SIZE, script)


@pytest.mark.parametrize("key", ["k", "e", "R"])
def test_read_only_refuses_at_the_key_until_armed(on_screen: OnScreen, key: str) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator, read_only=True)

    async def script(pilot: Pilot[None]) -> None:
        assert "READ-ONLY" in text_of(app)
        await pilot.press(key)
        await settled(pilot)
        assert "read-only: nothing is ended, evicted or freed; A arms the console" in text_of(app)
        assert operator.planned == []
        assert not isinstance(app.screen, ActScreen)
        await pilot.press("A")
        await settled(pilot)
        assert "READ-ONLY" not in text_of(app)
        await pilot.press(key)
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert len(operator.executed) == 1

    on_screen(app, SIZE, script)


def test_the_executor_refuses_whatever_the_screen_allowed(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        app.world.read_only = True
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert (operator.refused, operator.executed) == (1, [])
        assert "read-only: nothing was done" in text_of(app)

    on_screen(app, SIZE, script)


def _with(flag: Flag) -> Snapshot:
    return replace(BUSY, flags=(flag,))


@pytest.mark.parametrize(
    ("box", "keys", "planned"),
    [
        (BUSY, ("k",), ("kill", None, 3977, None)),  # the worst flag: a survivor
        (BUSY, ("j", "k"), ("kill", HOLDER.id, None, None)),
        (BUSY, ("j", "tab", "k"), ("kill", HOLDER.id, None, None)),  # the tree's root: the whole payload
        (BUSY, ("j", "tab", "down", "k"), ("kill", HOLDER.id, None, 5002)),  # an inner row: its subtree
        (BUSY, ("j", "down", "e"), ("evict", "0000000013-4013", None, None)),
        (FOREIGN, ("j", "down", "e"), ("evict", "lane-x.4711", None, None)),
        (BUSY, ("j", "R"), ("recover", "gpu", None, None)),
        (_with(FLAGS[1]), ("J", "R"), ("recover", "gpu", None, None)),
    ],
)
def test_what_is_selected_is_what_is_planned(
    on_screen: OnScreen,
    box: Snapshot,
    keys: tuple[str, ...],
    planned: tuple[str, str | None, int | None, int | None],
) -> None:
    operator = FakeOperator()
    app = console(box, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(*keys)
        await settled(pilot)
        assert operator.planned == [planned]

    on_screen(app, SIZE, script)


def test_the_dialog_names_what_ends(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        assert "[ End process ]" in text_of(app)
        await pilot.press("escape", "j", "k")
        await settled(pilot)
        assert "[ End tree ]" in text_of(app)

    on_screen(app, SIZE, script)


def test_the_dialog_is_as_high_as_what_it_says(on_screen: OnScreen) -> None:
    app = console(STUCK)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        for size, plan in (((100, 60), 11), ((100, 30), 11), ((40, 12), 4), ((40, 10), 3), ((100, 30), 11)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert app.screen.query_one("#plan").size.height == plan
            region = app.screen.query_one("#dialog").region
            assert region.height <= size[1]
            assert "[ Cancel ]" in text_of(app)

    on_screen(app, SIZE, script)


@pytest.mark.parametrize(("keys", "said"), [("j down k", "evict takes it out"), ("J e", "select a ticket")])
def test_what_cannot_be_meant_is_said(on_screen: OnScreen, keys: str, said: str) -> None:
    operator = FakeOperator()
    app = console(BUSY, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(*keys.split())
        await settled(pilot)
        assert said in text_of(app)
        assert operator.planned == []

    on_screen(app, SIZE, script)


def test_where_the_plan_has_no_room_it_is_read_first(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert "first read whom it hits: PgDn" in text_of(app)
        assert operator.executed == []
        await pilot.press(*["pagedown"] * 12, "enter")
        await settled(pilot)
        assert len(operator.executed) == 1

    on_screen(app, (40, 10), script)


@pytest.mark.parametrize("size", [(1, 1), (30, 8)])
def test_nothing_is_ended_on_a_terminal_that_cannot_show_it(on_screen: OnScreen, size: tuple[int, int]) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.resize_terminal(*size)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert isinstance(app.screen, ActScreen)
        assert operator.executed == []

    on_screen(app, SIZE, script)


def test_a_small_terminal_refuses_at_the_key(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        assert "too small to show whom this" in text_of(app)
        assert operator.planned == []

    on_screen(app, (39, 10), script)


@pytest.mark.parametrize("key", ["k", "e", "R"])
def test_nobody_acts_on_a_row_that_has_vanished(on_screen: OnScreen, key: str) -> None:
    feed, operator = FakeFeed(), FakeOperator()
    app = console(STUCK, operator, feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        feed.on_snapshot(replace(STUCK, flags=()))  # the ticket that the flag named is still there
        await settled(pilot)
        await pilot.press(key)
        await settled(pilot)
        assert "what was selected is gone, nothing done" in text_of(app)
        assert operator.planned == []

    on_screen(app, SIZE, script)


def test_the_mouse_presses_what_it_points_at(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("2")
        await pilot.click("#go")
        await settled(pilot)
        assert [reason for _, reason in operator.executed] == ["over its time"]

    on_screen(app, SIZE, script)


def test_leaving_waits_while_an_act_is_under_way(on_screen: OnScreen) -> None:
    operator = FakeOperator(hold=threading.Event())
    app = console(STUCK, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("1", "right", "enter", "escape", "q", "ctrl+q", "ctrl+c")
        await settled(pilot)
        assert "it is under way and cannot be taken back" in text_of(app)
        assert app.is_running
        assert operator.hold is not None
        operator.hold.set()
        await settled(pilot)
        assert "37.0 GiB of 38.0 GiB expected" in text_of(app)

    on_screen(app, SIZE, script)
