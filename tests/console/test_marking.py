"""Several survivors and strays in one dialog: marked by hand, or named by one flag; each is an act of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from holdtop.model.values import Flag, Snapshot
from tests.console.boxes import BUSY, HOLDER, NOW, SURVIVOR, resource
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeFeed, FakeOperator, console
from tests.console.test_acting import settled

SIZE = (120, 40)
PIDS = (3977, 3978, 3979)
LEFT = tuple(replace(SURVIVOR, pid=pid, start_ticks=pid) for pid in PIDS)


def stray(pid: int) -> Flag:
    return Flag("stray", "warning", "gpu", None, (pid,), NOW, f"pid {pid} uses the GPU", f"holdtop kill --pid {pid}")


#: Three strays with a flag each, and three survivors that one flag names.
STRAYS = replace(BUSY, leftovers=LEFT, flags=tuple(map(stray, PIDS)))
NAMED = replace(BUSY, leftovers=LEFT, flags=(replace(BUSY.flags[0], pids=PIDS),))
GHOST = replace(BUSY, flags=(), resources=(resource("gpu", HOLDER, state="ghost"),))
GHOST_FLAG = Flag("ghost", "warning", "gpu", HOLDER.id, (), NOW, "the hold is dead", "holdtop recover -r gpu")


def kills(*pids: int) -> list[tuple[str, None, int, None]]:
    return [("kill", None, pid, None) for pid in pids]


@pytest.mark.parametrize(
    ("box", "keys", "pids"),
    [
        (NAMED, "k", PIDS),
        (STRAYS, "space space up up space space space k", (3979,)),
        (NAMED, "shift+tab down space j k", (3978,)),  # in the table of processes; whatever is selected then
        (STRAYS, "space space escape k", PIDS[2:]),
    ],
)
def test_what_is_marked_is_planned(on_screen: OnScreen, box: Snapshot, keys: str, pids: tuple[int, ...]) -> None:
    operator = FakeOperator()

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(*keys.split())
        await settled(pilot)
        assert operator.planned == kills(*pids)

    on_screen(console(box, operator), SIZE, script)


def test_marks_are_seen_and_one_dialog_ends_them_all(on_screen: OnScreen) -> None:
    operator = FakeOperator(gone=(3978,))
    app = console(STRAYS, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("space", "space", "space")
        await settled(pilot)
        assert text_of(app).count("\n◆▲ stray") == 3
        assert "3 processes marked, k ends all of them" in text_of(app)
        await pilot.press("k")
        await settled(pilot)
        shown = text_of(app)
        assert "[ End 2 processes ]" in shown
        assert "pid 3978 is already gone" in shown
        assert "76.0 GiB" in shown
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert {plan.targets[0].pid for plan, _ in operator.executed} == {3977, 3979}
        shown = text_of(app)
        for pid in ("3977", "3979"):
            assert shown.count(f" {pid} asked → terminated") == 1
            assert f"pid {pid}: ended, stuck" in shown
        assert shown.count(" intent ") == shown.count(" outcome ") == 2
        assert "74.0 GiB of 76.0 GiB expected" in shown

    on_screen(app, SIZE, script)


def test_marks_stay_with_processes_and_go_with_them(on_screen: OnScreen) -> None:
    feed, operator = FakeFeed(), FakeOperator()
    app = console(STRAYS, operator, feed=feed)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("space", "space")
        again = replace(LEFT[0], start_ticks=1)  # the pid is another process now
        feed.on_snapshot(replace(STRAYS, leftovers=(again, *LEFT[1:]), flags=tuple(map(stray, reversed(PIDS)))))
        await settled(pilot)
        await pilot.press("k")
        await settled(pilot)
        assert operator.planned == kills(3978)

    on_screen(app, SIZE, script)


def test_many_that_need_it_are_confirmed_by_their_number(on_screen: OnScreen) -> None:
    operator = FakeOperator(needs_typing=True)
    app = console(NAMED, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("k")
        await settled(pilot)
        await pilot.press("1", "right", "enter")
        await settled(pilot)
        assert "type 3 processes to confirm" in text_of(app)
        app.screen.query_one("#typed").focus()
        await pilot.press("3", "space", *"processes")
        app.screen.query_one("#go").focus()
        await pilot.press("enter")
        await settled(pilot)
        assert len(operator.executed) == 3

    on_screen(app, SIZE, script)


@pytest.mark.parametrize(("key", "box"), [("k", GHOST), ("k", replace(GHOST, flags=(GHOST_FLAG,))), ("R", GHOST)])
def test_a_ghost_is_recovered_by_either_key(on_screen: OnScreen, key: str, box: Snapshot) -> None:
    operator = FakeOperator()
    app = console(box, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(key)
        await settled(pilot)
        assert operator.planned == [("recover", "gpu", None, None)]
        assert "[ Recover ]" in text_of(app)

    on_screen(app, SIZE, script)


def test_what_is_no_leftover_cannot_be_marked(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "space")
        await settled(pilot)
        assert "only survivors and strays can be marked" in text_of(app)
        await pilot.press("tab", "space")
        await settled(pilot)
        assert app.world.marked == frozenset()

    on_screen(app, SIZE, script)
