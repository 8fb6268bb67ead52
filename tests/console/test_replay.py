"""The console on a recording: the same screens, another clock, and nobody to act."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from holdtop.console.app import Console
from holdtop.console.keys import markdown, table
from holdtop.console.replaying.app import Replay, Still
from holdtop.console.replaying.keys import TIME_KEYS, live_only, replay_table
from holdtop.console.replaying.moments import Moments
from holdtop.console.replaying.player import Player
from holdtop.console.replaying.screens import ChangesScreen, ReplayScreen, SeekScreen
from holdtop.console.screens.act import ActScreen
from holdtop.console.screens.main import MainScreen
from holdtop.errors import ConfigError
from holdtop.model.values import Snapshot
from holdtop.recorder import memory as memory_module
from holdtop.recorder.memory import Memory
from holdtop.recorder.recording import Recording, Told
from holdtop.recorder.ring import Bounds
from tests.console.boxes import EVIL, hostile
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeFeed, console
from tests.console.terminals import ENTER_SCREEN, terminal
from tests.hold.lanes import until as wait_until
from tests.recorder.scenes import STORY, at, record

LOOKS = (*STORY, *(at(second, STORY[-1]) for second in range(5, 30)))


def replay(path: Path, looks: Iterable[Snapshot] = LOOKS, troubles: Sequence[str] = ()) -> Replay:
    record(path / "recording", looks)
    setup = replace(console(None)._setup, keys=replay_table({}), troubles=tuple(troubles))
    return Replay(replace(setup, feed=lambda _: Still()), Player(Recording(str(path / "recording"))))


def second(app: Replay) -> int | None:
    """Of the minute of the look that is shown."""
    return int(app.world.snapshot.taken_at[17:19]) if app.world.snapshot else None


async def until(pilot: Pilot[None], true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, text_of(pilot.app)  # type: ignore[arg-type]
        await pilot.pause(0.02)
    await pilot.pause()


async def press(pilot: Pilot[None], app: Replay, key: str, shows: int) -> None:
    await pilot.press(key)
    await until(pilot, lambda: second(app) == shows)


def test_it_begins_at_the_end_and_steps_both_ways(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await press(pilot, app, "left_square_bracket", 28)
        await press(pilot, app, "left_square_bracket", 27)
        await press(pilot, app, "right_square_bracket", 28)
        head = text_of(app).splitlines()[0]
        assert "RECORDING 02:14:28" in head
        assert "2030-01-02 · 29 of 30, paused" in head
        assert " old " not in head

    on_screen(app, (120, 40), script)


def test_bookmarks_are_gone_through_and_said(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        for shown in (4, 3, 2, 1):
            await press(pilot, app, "left_curly_bracket", shown)
        assert "taken: nightly-build holds gpu" in text_of(app)
        await pilot.press("left_curly_bracket")
        await pilot.pause()
        assert "nothing is marked before this" in text_of(app)
        await press(pilot, app, "right_curly_bracket", 2)
        assert "survivor" in text_of(app)

    on_screen(app, (120, 40), script)


def test_what_had_not_happened_yet_is_not_shown(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        assert "nothing is wrong" in text_of(app)
        await press(pilot, app, "left_curly_bracket", 4)
        await press(pilot, app, "left_square_bracket", 3)
        assert app.world.history.last("tctl_celsius", 10) == [41.0, 95.5, 95.5, 95.5]
        assert "1 critical" in text_of(app).splitlines()[0]

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize(
    ("typed", "shows"), [("02:14:03", 3), ("start", 0), ("-20s", 9), ("2030-01-02T02:14:07+00:00", 7)]
)
def test_it_goes_to_an_instant(on_screen: OnScreen, tmp_path: Path, typed: str, shows: int) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await pilot.press("G", *typed, "enter")
        await until(pilot, lambda: second(app) == shows)
        assert not isinstance(app.screen, SeekScreen)

    on_screen(app, (120, 40), script)


def test_what_is_no_instant_is_said_and_asked_again(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await pilot.press("G", *"noon", "enter")
        await pilot.pause()
        assert isinstance(app.screen, SeekScreen)
        assert "'noon' is no instant" in text_of(app)
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, SeekScreen)

    on_screen(app, (120, 40), script)


def test_it_plays_at_its_speed_and_stops_at_the_end(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await pilot.press("V")  # ten times: three seconds for all of it
        await pilot.press("P")
        await until(pilot, lambda: (second(app) or 0) in range(1, 25))
        assert "playing 10x" in text_of(app).splitlines()[0]
        await until(pilot, lambda: second(app) == 29)
        await until(pilot, lambda: "paused" in text_of(app).splitlines()[0])

    on_screen(app, (120, 40), script)


def test_playing_goes_on_where_the_clock_was_set_back(tmp_path: Path) -> None:
    record(tmp_path / "r", [*STORY, *(replace(one, at=one.at + 5) for one in STORY)])
    player = Player(Recording(str(tmp_path / "r")))
    assert player.last == 9
    player.go(0)
    player.faster()
    player.start()
    player.play()
    wait_until(lambda: not player.playing, 20)
    assert player.position == 9
    player.stop()


def test_the_page_of_acts_has_those_of_then(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)
    act = {"kind": "intent", "act": "aa", "verb": "kill", "uid": 1000, "reason": "hung", "at": STORY[2].taken_at}
    app._player._moments = Moments(Acted(str(tmp_path / "recording"), act, 2))

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await pilot.press("4")
        await until(pilot, lambda: "hung" in text_of(app))
        assert "all chains whole" not in text_of(app), "nobody looked"
        for shown in (4, 3, 2, 1):
            await press(pilot, app, "left_curly_bracket", shown)
        assert "hung" not in text_of(app), "not yet"

    on_screen(app, (120, 40), script)


class Acted(Recording):
    """With one act more."""

    def __init__(self, path: str, act: Mapping[str, object], position: int) -> None:
        super().__init__(path)
        self.told = (*self.told, Told(position, act=act))


def test_what_changed_between_two_instants(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await pilot.press("G", *"start", "enter")
        await until(pilot, lambda: second(app) == 0)
        await pilot.press("M")
        await press(pilot, app, "right_square_bracket", 1)
        await pilot.press("D")
        await pilot.pause()
        assert isinstance(app.screen, ChangesScreen)
        shown = text_of(app)
        assert "2030-01-02T02:14:00+00:00 to 2030-01-02T02:14:01+00:00" in shown
        assert "~ gpu: free, then held by nightly-build" in shown
        assert "+ pid 5002 (python3, alice), GTT 38.0G" in shown
        await pilot.press("escape")

    on_screen(app, (120, 40), script)


def test_nothing_can_be_ended_in_it_and_nothing_armed(on_screen: OnScreen, tmp_path: Path) -> None:
    app = replay(tmp_path, STORY[:3])

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 2)
        await pilot.press("A")
        await pilot.pause()
        assert app.world.read_only
        assert "nothing in it can be ended" in text_of(app)
        await pilot.press("j", "k")
        await until(pilot, lambda: not isinstance(app.screen, ActScreen) or "this is a recording" in text_of(app))
        assert "this is a recording" in text_of(app)

    on_screen(app, (120, 40), script)


def test_a_hostile_recording_draws_nothing_of_its_own(on_screen: OnScreen, tmp_path: Path) -> None:
    looks = [at(number, hostile(text)) for number, text in enumerate(EVIL)]
    app = replay(tmp_path, [at(-1, STORY[0]), *looks], troubles=EVIL)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == len(EVIL) - 1)
        for number in reversed(range(len(EVIL))):
            for key in ("D", "escape", "left_square_bracket"):
                shown = text_of(app).replace("\n", "")
                assert shown.isprintable()
                assert not {"\u202e", "\u2069", "\u200d"} & set(shown)
                await pilot.press(key)
            await until(pilot, lambda now=number: second(app) != now)  # type: ignore[misc]
        await pilot.press("question_mark")
        await pilot.pause()
        assert text_of(app).replace("\n", "").isprintable()

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (1, 1)])
def test_small_terminals(on_screen: OnScreen, tmp_path: Path, size: tuple[int, int]) -> None:
    app = replay(tmp_path)

    async def script(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: second(app) == 29)
        await press(pilot, app, "left_square_bracket", 28)
        if size[0] > 1:
            assert "REC" in text_of(app)
            assert "02:14:28" in text_of(app)

    on_screen(app, size, script)


def test_the_documentation_has_the_keys_of_time_travel() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recording.md").read_text()
    assert markdown(TIME_KEYS) in page
    assert all(f"`{key.action}`" in page for key in TIME_KEYS)


def test_a_key_of_time_travel_can_be_remapped_and_a_live_console_bears_it() -> None:
    remapped = {"seek": "ctrl+g", "kill": "K"}
    assert {key.action: key.keys for key in replay_table(remapped)}["seek"] == "ctrl+g"
    assert {key.action: key.keys for key in table(live_only(remapped))}["kill"] == "K"
    with pytest.raises(ConfigError, match=r"keys\.sek is no action"):
        table(live_only({"sek": "x"}))


def test_the_verb_on_a_real_terminal_ends_with_the_damage_as_its_status(tmp_path: Path) -> None:
    record(tmp_path / "r", LOOKS)
    for cut, status in ((0, 0), (5, 1)):
        (fine,) = (tmp_path / "r").glob("fine-*.rec")
        fine.write_bytes(fine.read_bytes()[: fine.stat().st_size - cut])
        with terminal("-m", "holdtop", "replay", str(tmp_path / "r")) as opened:
            opened.until(ENTER_SCREEN, f"02:14:{29 - status}".encode())
            opened.type(b"[")
            opened.until(f"02:14:{28 - status}".encode())
            opened.type(b"q")
            assert opened.ended_within(10.0) == status
        assert (b"damaged at byte" in opened.written) == bool(cut)


def live(tape: Callable[[], Recording] | None, feed: FakeFeed | None = None) -> Console:
    setup = console(STORY[4], feed=feed)._setup
    return Console(replace(setup, tape=tape, time_keys=replay_table({})))


def memory() -> Memory:
    found = Memory()
    for look in LOOKS:
        found.take(look)
    return found


def then(app: Console) -> int | None:
    """Of the minute of the look on the open screen."""
    screen = app.screen
    snapshot = screen._world.snapshot if isinstance(screen, MainScreen) else None
    return int(snapshot.taken_at[17:19]) if snapshot else None


def test_a_live_console_goes_back_in_time_and_returns(on_screen: OnScreen) -> None:
    feed = FakeFeed()
    app = live(memory().recording, feed)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen) and then(app) == 28)
        assert "RECORDING 02:14:28" in text_of(app)
        assert "Esc: now" in text_of(app)
        await pilot.press("left_curly_bracket")
        await until(pilot, lambda: then(app) == 4)
        feed.on_snapshot(at(50, STORY[4]))  # the present goes on below
        await until(pilot, lambda: app.world.snapshot and app.world.snapshot.taken_at.endswith("14:50+00:00"))
        assert "RECORDING 02:14:04" in text_of(app)
        await pilot.press("A")
        await pilot.pause()
        assert not app.world.read_only, "armed or not, the live screen is not touched from here"
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, ReplayScreen)
        assert "RECORDING" not in text_of(app)

    on_screen(app, (120, 40), script)


def test_past_the_newest_look_is_the_present(on_screen: OnScreen) -> None:
    app = live(memory().recording)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: isinstance(app.screen, ReplayScreen) and then(app) == 28)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: then(app) == 29)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: not isinstance(app.screen, ReplayScreen))

    on_screen(app, (120, 40), script)


def test_where_nothing_is_recorded_it_is_said(on_screen: OnScreen) -> None:
    for app in (live(None), live(Memory().recording)):

        async def script(pilot: Pilot[None]) -> None:
            await pilot.press("left_square_bracket")
            await until(pilot, lambda: "nothing is recorded" in text_of(app))  # noqa: B023

        on_screen(app, (120, 40), script)


def test_a_console_prefers_the_watchs_recording_of_this_very_box(tmp_path: Path) -> None:
    """That one reaches further back."""
    longer = [*(at(second, STORY[0]) for second in range(-30, 0)), *LOOKS]
    record(tmp_path / "watch", longer)
    record(tmp_path / "another", [replace(look, host="another") for look in longer])
    (tmp_path / "empty").mkdir()
    seen = memory()
    paths = [str(tmp_path / name) for name in ("missing", "empty", "another", "watch")]
    assert len(seen.recording(paths).instants) == len(longer)
    assert len(seen.recording(paths[:3]).instants) == len(LOOKS)
    seen.take(replace(LOOKS[-1], at=LOOKS[-1].at + 3600))
    assert len(seen.recording(paths).instants) == len(LOOKS) + 1, "what is old is not preferred to what was seen"


def test_a_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "BOUNDS", Bounds("memory", 1.0, 100, 1 << 20))
    seen = Memory()
    for number in range(500):
        seen.take(at(number, STORY[4]))
    recording = seen.recording()
    assert 100 <= len(recording.instants) < 170
    assert recording.snapshot(0).taken_at == at(500 - len(recording.instants), STORY[4]).taken_at
