"""The pages: one place to change them, the same world on each, and honest words where nothing is known."""

from __future__ import annotations

import re
import threading
import time
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from holdtop.console.app import Console
from holdtop.console.events import parse_event
from holdtop.console.feeds import Acts
from holdtop.console.keys import KEYS, PAGES
from holdtop.console.screens.act import ActScreen
from holdtop.console.view.glyphs import ASCII
from holdtop.console.view.receipts import summary
from holdtop.console.view.subject import TicketKey
from holdtop.model.values import Finding, Runner, Snapshot
from tests.console.boxes import BUSY, EVIL, GIB, hostile
from tests.console.conftest import OnScreen, text_of
from tests.console.fakes import FakeOperator, console

RECEIPTS = tuple(
    {
        "at": f"2030-01-0{1 + number % 2}T01:{number}0:00+00:00",
        "ticket": f"{number:010}-39{number:02}",
        "lane": ("nightly-build", "eval-7")[number % 2],
        "command": "./eval.sh",
        "reason": "exit",
        "status": number,
        "held_seconds": 600.0 * (number + 1),
        "verdict": ("clean", "dirty")[number % 2],
        "memory": {"peak_bytes": (10 + number) * GIB},
    }
    for number in range(6)
)
BOX = replace(BUSY, resources=(replace(BUSY.resources[0], receipts=RECEIPTS), BUSY.resources[1]))
INTENT = {
    "kind": "intent", "act": "aa", "verb": "kill", "uid": 1000, "at": "2030-01-02T02:00:00+00:00",
    "resource": "gpu", "lane": "eval-7", "ticket": "0000000010-3970", "reason": "hung", "targets": [{"pid": 3970}],
}  # fmt: skip
OUTCOME = {"kind": "outcome", "act": "aa", "uid": 1000, "at": INTENT["at"], "status": 5, "text": "1 survived KILL"}
REFUSAL = {"kind": "refused", "act": "ab", "uid": 1001, "verb": "kill", "asked": "1", "why": "pid 1 is no target"}
RUNNER = Runner(
    "ci-runner.service", "failed", "failed", "oom-kill", 7, "stop", "no", "process", "offline", ("it does not restart",)
)


def with_acts(box: Snapshot, acts: Acts, operator: FakeOperator | None = None) -> Console:
    app = console(box, operator)
    app._acts._read = lambda: acts
    return app


@pytest.mark.parametrize(("key", "page"), [(key.shown, key.action) for key in KEYS[:5]])
def test_a_key_opens_a_page_and_escape_the_first_one(on_screen: OnScreen, key: str, page: str) -> None:
    app = console(BOX)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(key)
        label = next(known.label for known in KEYS if known.action == page)
        assert f"▌{key} {label}" in text_of(app).splitlines()[1]
        await pilot.press("slash", "escape")  # closes the field, and no more than that
        assert f"▌{key} {label}" in text_of(app)
        await pilot.press("escape")
        assert "▌1 Now" in text_of(app)

    on_screen(app, (80, 24), script)


def test_a_click_on_a_tab_opens_its_page(on_screen: OnScreen) -> None:
    app = console(BOX)

    async def script(pilot: Pilot[None]) -> None:
        at = text_of(app).splitlines()[1].index("Audit")
        await pilot.click("#tabs", offset=(at + 1, 0))
        await pilot.pause()
        assert app.world.page == "audit"

    on_screen(app, (80, 24), script)


def test_a_digit_in_the_dialog_is_a_reason_and_no_page(on_screen: OnScreen) -> None:
    operator = FakeOperator()
    app = console(replace(BOX, flags=()), operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("2", "k")
        await pilot.pause(0.2)
        assert isinstance(app.screen, ActScreen)
        await pilot.press("3", "right", "enter")
        await pilot.pause(0.3)
        assert [reason for _, reason in operator.executed] == ["wrong job"]
        assert app.world.page == "ticket"

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize("page", ["3", "4", "5"])
@pytest.mark.parametrize("key", ["k", "e", "R"])
def test_nothing_is_ended_from_a_page_that_does_not_show_it(on_screen: OnScreen, page: str, key: str) -> None:
    operator = FakeOperator()
    app = console(BOX, operator)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press(page, key)
        await pilot.pause(0.2)
        assert not isinstance(app.screen, ActScreen)
        assert operator.planned == []
        assert "on the page Now or Ticket" in text_of(app)

    on_screen(app, (120, 40), script)


def test_the_page_of_a_ticket(on_screen: OnScreen) -> None:
    app = console(BOX)

    async def script(pilot: Pilot[None]) -> None:
        app.world.kept.add([parse_event("gpu", '{"event": "queued", "ticket": "0000000013-4013", "lane": "eval-7"}')])
        await pilot.press("2")  # the worst flag names a ticket that is gone: the holder is meant
        await pilot.pause()
        shown = text_of(app)
        assert app.world.subject == TicketKey("gpu", "0000000012-4012")
        assert "nightly-build has held gpu for 1h30m and may for 55m55s more; it had waited 30s." in shown
        assert "pt_data_worker" in shown
        assert "grace 10s, max-hold 2h30m" in shown
        assert "waits in line" not in shown
        await pilot.press("down")
        await pilot.pause()
        shown = text_of(app)
        assert "eval-7 waits: nightly-build has held gpu" in shown
        assert "waits in line" in shown
        assert "3 holds, 20m to 1h00m, up to ~15.0G" in shown

    on_screen(app, (120, 40), script)


def test_a_lane_without_a_past_says_so(on_screen: OnScreen) -> None:
    app = console(replace(BOX, flags=()))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("j", "down", "down", "enter")  # Enter on a ticket opens its page
        await pilot.pause()
        shown = " ".join(text_of(app).split())
        assert "no history yet to say when" in shown
        assert "Will it fit? No history yet" in shown
        assert "This lane's past no history yet" in shown

    on_screen(app, (120, 40), script)


def test_acts_with_their_outcomes_and_the_state_of_the_chain(on_screen: OnScreen) -> None:
    acts = Acts((INTENT, OUTCOME, REFUSAL, {**INTENT, "act": "ac"}), ("1000.jsonl:3: it was changed",), {1000: "alice"})
    app = with_acts(BOX, acts)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await pilot.pause(0.5)
        shown = text_of(app)
        assert "the record is not whole: 1000.jsonl:3: it was changed" in shown
        assert "gpu eval-7 10-3970 by alice: hung" in shown
        assert "incomplete: 1 survived KILL" in shown
        assert "no outcome yet" in shown
        assert "refused: pid 1 is no target" in shown
        assert shown.index("no outcome yet") < shown.index("1 survived KILL"), "the newest first"
        ago = [row.split()[1] for row in shown.split("Releases")[1].splitlines()[2:8]]
        assert ago == ["1h14m", "1h34m", "1h54m", "1d01h", "1d01h", "1d02h"]

    on_screen(app, (120, 40), script)


def test_a_peak_is_the_payloads_own_where_one_was_read() -> None:
    """As in ``holdtop history``, and as for whether it will fit."""
    own = {**RECEIPTS[0], "memory": {"peak_bytes": 11 * GIB, "peak_source": "payload"}}
    level = {**RECEIPTS[1], "memory": {"peak_bytes": 50 * GIB, "peak_source": "level"}}
    assert summary([own, level]).endswith("up to 11.0G")
    assert summary([level]).endswith("up to ~50.0G")
    assert summary([]) == "no history yet"


def test_enter_tells_all_of_an_act_and_reads_it_again(on_screen: OnScreen) -> None:
    """Opened while it was under way: its outcome, each fate and the receipt come without another key."""
    fates = [{"pid": 3970, "fate": "killed", "text": "serve was killed"}, {"pid": 3971, "fate": "left", "text": "[/x]"}]
    targets = [{"pid": 3970, "name": "serve", "uid": 1000, "found_by": "descent"}, {"pid": 3971, "name": EVIL[2]}]
    records = [{**INTENT, "targets": targets, "seq": 7, "hash": "ab12", "how": "the hold is asked"}]
    may_read = threading.Event()
    receipt = {**RECEIPTS[1], "ticket": INTENT["ticket"]}
    app = console(replace(BOX, resources=(replace(BOX.resources[0], receipts=(receipt,)),)))

    def read() -> Acts:
        assert may_read.wait(30)
        return Acts(tuple(records), (), {1000: "alice"})

    app._acts._read = read

    async def shows(pilot: Pilot[None], *words: str) -> None:
        end = time.monotonic() + 30
        while not all(word in text_of(app) for word in words):
            assert time.monotonic() < end, text_of(app)
            await pilot.pause(0.05)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("4")
        await shows(pilot, "reading the audit")
        may_read.set()
        await shows(pilot, "hung", "all chains whole")
        may_read.clear()
        await pilot.press("enter")
        await shows(pilot, "reading the audit", "no outcome yet", "not on record")
        records.append({**OUTCOME, "fates": fates, "returned_bytes": 3 * GIB})
        may_read.set()
        await shows(
            pilot, "alice (uid 1000)", "kill gpu eval-7 0000000010-3970", "the hold is asked", "1 survived KILL",
            "3.0 GiB came back", "killed", "left", "dirty: exit", "held 20m", "peak 11.0 GiB", "intent #7 hash ab12",
        )  # fmt: skip
        assert "\x1b" not in text_of(app)
        await pilot.press("escape")
        assert app.world.page == "audit"

    on_screen(app, (120, 50), script)


def test_the_audit_is_read_only_while_it_is_shown(on_screen: OnScreen) -> None:
    reads: list[None] = []
    app = console(BOX)

    def read() -> Acts:
        reads.append(None)
        return Acts(trouble="no such queue")

    app._acts._read = read

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await pilot.pause(0.3)
        assert reads == []
        await pilot.press("4")
        await pilot.pause(0.5)
        assert "cannot be read: no such queue" in text_of(app)

    on_screen(app, (120, 40), script)


def test_runners_that_nobody_looked_for_are_not_said_to_be_absent(on_screen: OnScreen) -> None:
    app = console(replace(BOX, runners_why="nobody looked"))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        shown = text_of(app)
        assert "Nothing is known of CI runners on this box: nobody looked" in shown
        assert "That does not mean that there are none" in shown

    on_screen(app, (120, 40), script)


def test_a_runner_in_trouble(on_screen: OnScreen) -> None:
    app = console(replace(BOX, runners=(RUNNER,)))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        shown = text_of(app)
        assert "✖ ci-runner.service" in shown
        assert "Runners 1 unit, 1 in trouble" in shown
        assert "failed/failed oom-kill · offline · restarts 7" in shown
        assert "it does not restart" in shown

    on_screen(app, (120, 40), script)


def test_a_runner_shows_its_remedy_its_limits_or_why_nothing_is_known(on_screen: OnScreen) -> None:
    mend = Finding("restart", "it does not restart", "it stays dead", "holdtop runner install --name a")
    well = Runner("b.service", "active", "running", "success", 0, "continue", "always", "mixed", "unknown", ())
    runners = (
        replace(RUNNER, findings=(mend,), since="2030-01-02T02:04:05+00:00"),
        replace(well, memory_high_bytes=9 * GIB, memory_max_bytes=10 * GIB, up=True, guarded=True),
        replace(well, unit="c.service", active_state="unknown", why="the bus is silent"),
    )
    app = console(replace(BOX, runners=runners))

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        shown = text_of(app)
        assert "failed/failed 1h00m oom-kill · offline" in shown
        assert "holdtop runner install --name a" in shown
        assert "OOM continue, Restart always, Kill mixed" in shown
        assert "slowed from 9.0G on, at most 10.0G; its manager: system" in shown
        assert "the bus is silent" in shown

    on_screen(app, (120, 40), script)


def test_a_box_without_runners_says_so(on_screen: OnScreen) -> None:
    app = console(BOX)

    async def script(pilot: Pilot[None]) -> None:
        await pilot.press("5")
        assert "No CI runner of holdtop's is installed" in text_of(app)

    on_screen(app, (120, 40), script)


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (40, 10), (80, 24), (200, 60)])
def test_every_page_stands_at_any_size(on_screen: OnScreen, size: tuple[int, int]) -> None:
    app = with_acts(BOX, Acts((INTENT, OUTCOME)))

    async def script(pilot: Pilot[None]) -> None:
        for page in "12345":
            await pilot.press(page, "tab", "down", "pageup", "tab")
            await pilot.pause(0.1)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert "5 Runners" in text_of(app)

    on_screen(app, size, script)


@pytest.mark.parametrize("text", EVIL)
def test_foreign_text_is_harmless_on_every_page(on_screen: OnScreen, text: str) -> None:
    box = hostile(text)
    receipt = dict.fromkeys((*RECEIPTS[0], "memory"), text)
    gpu = replace(box.resources[0], receipts=(receipt, {**receipt, "held_seconds": 1e300, "status": 10**30}))
    runner = replace(RUNNER, unit=text, active_state=text, sub_state=text, result=text, problems=(text,))
    record = dict.fromkeys(INTENT, text) | {"targets": text, "uid": True}
    acts = Acts((record, {**record, "targets": [{"pid": text}, text]}), (text,), {}, "")
    app = with_acts(replace(box, resources=(gpu,), runners=(runner,)), acts)

    async def script(pilot: Pilot[None]) -> None:
        for page in "2345":
            await pilot.press(page)
            await pilot.pause(0.3)
            shown = text_of(app)
            assert not [char for char in shown if not char.isprintable() and char != "\n"]
            assert all("\x1b" not in row for row in shown.splitlines())
        assert app.is_running

    on_screen(app, (120, 40), script)


def test_every_page_has_a_tab_and_a_key() -> None:
    assert [key.call for key in KEYS if key.call.startswith("screen.page")] == [f"screen.page('{p}')" for p in PAGES]


def test_every_page_in_ascii(on_screen: OnScreen) -> None:
    app = console(replace(BOX, runners=(RUNNER, replace(RUNNER, active_state="active", problems=()))), glyphs=ASCII)
    app._acts._read = lambda: Acts((INTENT, OUTCOME, {**REFUSAL, "kind": "outcome", "status": 0}))

    async def script(pilot: Pilot[None]) -> None:
        for page in "12345":
            await pilot.press(page)
            await pilot.pause(0.4)
            assert text_of(app).isascii()

    on_screen(app, (120, 40), script)


def test_a_filter_hides_no_flag_and_says_no_untruth(on_screen: OnScreen) -> None:
    app = console(BUSY)

    async def script(pilot: Pilot[None]) -> None:
        before = text_of(app)
        waiting = next(line for line in before.splitlines() if " waiting" in line)
        await pilot.press("slash", *"zz", "enter")
        await pilot.pause()
        shown = text_of(app)
        assert all(flag.kind in shown for flag in BUSY.flags[:2])
        assert "No row matches the filter." in shown
        assert "nobody waits" not in shown
        count = re.search(r"(\d+) waiting", waiting)
        assert count
        assert f"{count[1]} waiting, filtered: zz" in shown

    on_screen(app, (120, 40), script)
