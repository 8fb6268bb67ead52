"""Device memory before, during and after a hold: what each hold publishes of itself, and what its receipt says."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from holdtop.payload.custody import MemoryUse
from holdtop.payload.metering import Level, Looked, Meter, Owners
from holdtop.payload.process import Identity
from holdtop.sources import users
from holdtop.sources.roots import Roots
from tests.hold.lanes import NAP, Box, ended, until
from tests.hold.sensors import GIB, Sensors
from tests.reading.machines import fdinfo

#: A payload that uses so many GiB by its own descriptor, and says so in the overlay before it sleeps.
USER = """
mkdir -p "$HOLDTOP_PROC_OVERLAY/$$/fd" "$HOLDTOP_PROC_OVERLAY/$$/fdinfo"
ln -s /dev/dri/renderD128 "$HOLDTOP_PROC_OVERLAY/$$/fd/7"
printf '%s' "$FDINFO" > "$HOLDTOP_PROC_OVERLAY/$$/fdinfo/7"
exec sleep "$0"
"""


@pytest.fixture
def card(sensors: Sensors) -> Sensors:
    sensors.card()
    return sensors


def memory(state: Box) -> Mapping[str, Any]:
    """Of the newest receipt, with its verdict."""
    newest = state.receipts()[-1]
    return {"verdict": newest["verdict"], **(newest["memory"] or {})}


def record(state: Box) -> dict[str, Any]:
    [path] = (state.queue / ".record").glob("[0-9]*.json")  # and none that is being written
    said: dict[str, Any] = json.loads(path.read_text())
    return said


def test_memory_that_came_back_is_clean(state: Box, card: Sensors) -> None:
    card.use(2)
    lane = state.run("sleep", "4", env=card.environ)
    state.until_running()
    time.sleep(1.5)
    card.use(50)
    time.sleep(1.5)
    card.use(2.1)
    assert ended(lane)[0] == 0
    said = memory(state)
    assert (said["verdict"], said["state"], said["pool"]) == ("clean", "back", "gtt")
    assert (said["before_bytes"], said["peak_bytes"], said["after_bytes"]) == (2 * GIB, 48 * GIB, int(2.1 * GIB))
    assert len(state.receipts()) == 1


def test_memory_that_comes_back_late_is_settling_first(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    time.sleep(1)
    card.use(60)
    until(lambda: not state.token.exists(), 20)
    assert memory(state)["verdict"] == "settling"
    assert lane.poll() is None, "the hold stays for the rest of its receipt"
    card.use(0.1)
    assert ended(lane)[0] == 0
    assert [one["verdict"] for one in state.receipts()] == ["settling", "clean"]
    first, second = state.receipts()
    assert first["held_seconds"] == second["held_seconds"]
    assert [event["verdict"] for event in state.events() if event["event"] == "settled"] == ["clean"]
    assert state.leftovers() == []


def test_memory_that_never_comes_back_is_dirt_of_nobodys(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    time.sleep(1)
    card.use(60)
    assert ended(lane)[0] == 0
    # Where even root may not look into every process, somebody may hold it.
    verdict, what = ("unknown", "unknown") if users.scan(Roots()).denied else ("dirty", "left")
    assert [one["verdict"] for one in state.receipts()] == ["settling", verdict]
    assert memory(state)["state"] == what
    _, errors = ended(state.run("true", env=card.environ))
    assert f"was {verdict}: 60.0 GiB more device memory in use than before it" in errors


def test_memory_that_somebody_else_took_meanwhile_is_not_this_holds(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    time.sleep(1)
    mine = card.overlay / str(os.getpid())
    (mine / "fd").mkdir(parents=True)
    (mine / "fdinfo").mkdir()
    (mine / "fd/7").symlink_to("/dev/dri/renderD128")
    (mine / "fdinfo/7").write_text(fdinfo(9, resident_gtt="60 GiB"))
    card.use(60)
    assert ended(lane)[0] == 0
    verdict = "unknown" if users.scan(Roots()).denied else "clean"
    assert [one["verdict"] for one in state.receipts()] == ["settling", verdict]


def test_whoever_takes_next_ends_the_settling(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    waiter = state.run("sleep", "3", env=card.environ)
    time.sleep(1)
    card.use(60)
    assert ended(lane)[0] == 0
    assert [one["verdict"] for one in state.receipts()] == ["settling"]
    assert waiter.poll() is None
    status, errors = ended(waiter)
    assert status == 0
    assert "was settling: 60.0 GiB more device memory in use" in errors
    assert memory(state)["before_bytes"] == 60 * GIB, "read again at its own start"
    assert memory(state)["verdict"] == "clean"


def test_a_signal_ends_the_settling(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    time.sleep(1)
    card.use(60)
    until(lambda: not state.token.exists(), 20)
    asked = time.monotonic()
    lane.terminate()
    assert ended(lane)[0] == 0, "the payload had ended by itself"
    assert time.monotonic() - asked < 6
    assert [one["verdict"] for one in state.receipts()] == ["settling"]


@pytest.mark.parametrize("killed", ["running", "settling"])
def test_a_killed_meter_is_no_clean_bill(state: Box, card: Sensors, killed: str) -> None:
    """What was before, and the peak, are known to nobody; and a payload that had ended keeps its own status."""
    card.use(2)
    lane = state.run("sh", "-c", "sleep 2; exit 7", options=["--grace", "0.3"], env=card.environ)
    keeper = state.until_running()["keeper_pid"]
    time.sleep(1)
    card.use(50)
    if killed == "settling":
        until(lambda: not state.token.exists(), 20)
        os.kill(keeper, signal.SIGKILL)
        assert ended(lane)[0] == 7
        assert [one["verdict"] for one in state.receipts()] == ["settling"]
        return
    os.kill(keeper, signal.SIGKILL)
    assert ended(lane)[0] == 125
    said = memory(state)
    assert (said["verdict"], said["before_bytes"], said["peak_bytes"]) == ("unknown", None, None)
    assert said["after_bytes"] == 50 * GIB


def test_a_receipt_that_came_later_is_not_overtaken(state: Box, card: Sensors) -> None:
    """A hold that is over before anybody looks again: the last receipt stays the last hold's."""
    lane = state.run("sleep", "2", env=card.environ)
    state.until_running()
    time.sleep(1)
    card.use(60)
    until(lambda: not state.token.exists(), 20)
    assert ended(state.run("true", env={**card.environ, "HOLDTOP_SYS": "/nonexistent"}))[0] == 0
    assert ended(lane)[0] == 0
    assert state.receipts()[-1]["ticket"] != state.receipts()[0]["ticket"]


def test_a_receipt_with_any_number_stops_nobody(state: Box, card: Sensors) -> None:
    assert ended(state.run("true", env=card.environ))[0] == 0
    said = state.receipts()[-1]
    said |= {"verdict": "dirty", "memory": {"before_bytes": 1, "after_bytes": 10**400}}
    with (state.queue / ".receipts.jsonl").open("a") as file:
        file.write(json.dumps(said) + "\n")
    assert ended(state.run("true", env=card.environ))[0] == 0


def test_a_level_that_hangs_holds_nobody_up_and_is_unknown(state: Box, card: Sensors) -> None:
    card.gtt.unlink()
    os.mkfifo(card.gtt)
    began = time.monotonic()
    assert ended(state.run("true", env=card.environ))[0] == 0
    assert time.monotonic() - began < 8
    said = memory(state)
    assert (said["verdict"], said["state"]) == ("unknown", "unknown")
    assert "did not answer" in said["why"]


def test_a_level_that_cannot_be_read_is_unknown_with_its_reason(state: Box, card: Sensors) -> None:
    card.gtt.unlink()
    assert ended(state.run("true", env=card.environ))[0] == 0
    said = memory(state)
    assert (said["verdict"], said["before_bytes"], said["after_bytes"]) == ("unknown", None, None)
    assert "mem_info_gtt_used is not there" in said["why"]


def test_without_a_card_nothing_is_said_of_memory(state: Box, sensors: Sensors) -> None:
    assert ended(state.run("true", env=sensors.environ))[0] == 0
    assert [(one["verdict"], one["memory"]) for one in state.receipts()] == [("clean", None)]


def test_another_resources_receipt_is_not_about_the_gpu(state: Box, card: Sensors) -> None:
    lane = state.run("sleep", "2", options=["-r", "gpu,npu"], env=card.environ)
    state.until_running()
    assert ended(lane)[0] == 0
    npus = [json.loads(line) for line in (state.state / "npu-queue/.receipts.jsonl").read_text().splitlines()]
    assert (memory(state)["state"], [one["memory"] for one in npus]) == ("back", [None])


def test_a_hold_publishes_what_its_members_use(state: Box, card: Sensors, tmp_path: Path) -> None:
    environ = {**card.environ, "FDINFO": fdinfo(7, resident_gtt="40 GiB", resident_vram="1 MiB")}
    lane = state.run("sh", "-c", USER, NAP, options=["--grace", "1"], env=environ)
    state.until_running()
    root = state.until_running()["root_pid"]

    def published() -> dict[str, Any] | None:
        found = {one["pid"]: one for one in record(state)["members"]}
        return found[root] if "gtt_bytes" in found.get(root, {}) else None

    said = until(published, 20)
    assert (said["gtt_bytes"], said["vram_bytes"]) == (40 * GIB, 1 << 20)
    lane.terminate()
    ended(lane)
    assert memory(state)["peak_bytes"] == 40 * GIB


class Fake:
    """A gauge of a quiet device, all of whose memory these own."""

    resource, slack_bytes = "gpu", GIB // 2

    def __init__(self, owners: Owners) -> None:
        self.owners = lambda: owners

    def level(self) -> Level:
        return Level("0000:c5:00.0", "gtt", 0, "")

    def look(self, members: object) -> Looked:
        return Looked()


@pytest.mark.parametrize(
    ("held_gib", "unreadable", "right"),
    [
        (0, 0, "left"),
        (10, 0, "left"),
        (60, 0, "back"),
        (59.9, 0, "back"),
        (0, 1, "unknown"),
        (60, 1, "unknown"),
    ],
)
def test_whose_the_rest_is(held_gib: float, unreadable: int, right: str) -> None:
    use = MemoryUse("gpu", "gtt", 2 * GIB, 58 * GIB, 60 * GIB, "falling")
    assert Meter(Fake(Owners(int(held_gib * GIB), "closed" * unreadable))).judge(use).state == right


def meter(*levels: Level, members: tuple[Identity, ...] = (), together: int | None = None) -> Meter:
    """One that has read these, the first before the payload, and looked at the members once."""
    gauge = Fake(Owners(0))
    made = Meter(gauge, members)
    remaining = list(levels)
    gauge.level = lambda: remaining.pop(0)  # type: ignore[method-assign]
    gauge.look = lambda members: Looked(together=together)  # type: ignore[method-assign]
    for _ in levels:
        assert made._take_level(gauge)
    if members:
        made._look(gauge)
    made._level_at = math.inf
    return made


def level(gib: float, card: str = "0000:c5:00.0", pool: Literal["gtt", "vram"] = "gtt") -> Level:
    return Level(card, pool, int(gib * GIB), "")


def test_another_cards_level_says_nothing() -> None:
    for other in (level(1, "0000:01:00.0"), level(1, pool="vram")):
        use = meter(level(60), other).after()
        assert use is not None
        assert (use.state, use.before_bytes, use.after_bytes) == ("unknown", 60 * GIB, None)
        assert "another one" in use.why


def test_a_peak_of_members_that_are_closed_is_not_zero() -> None:
    """The level may fall meanwhile; a rise of it is what it is."""
    me = Identity(1, 1)
    for levels, together, right in (
        ((level(40), level(20)), None, None),
        ((level(40), level(20)), 0, 0),
        ((level(40), level(50)), None, 10 * GIB),
    ):
        use = meter(*levels, members=(me,), together=together).after()
        assert use is not None
        assert use.peak_bytes == right


def test_a_peak_is_the_payloads_own_where_it_could_be_read() -> None:
    """A stray that grew meanwhile is in the level's rise: 55.7 GiB were said of a payload that had 41.3."""
    me = Identity(1, 1)
    whole = (level(2), level(58))
    for together, right in (
        (41 * GIB, (41 * GIB, "payload")),
        (0, (56 * GIB, "level")),  # nothing of its own: somebody has it for the payload
        (None, (56 * GIB, "level")),  # one is closed, or does not say: it may have the rest
    ):
        use = meter(*whole, members=(me,), together=together).after()
        assert use is not None
        assert (use.peak_bytes, use.peak_source) == right


def test_the_members_are_looked_at_when_the_level_has_risen() -> None:
    """Between two looks a payload may come and go, and only the rise would tell of it."""
    made = meter(level(2), level(2.4), members=(Identity(1, 1),), together=0)
    gauge = Fake(Owners(0))
    assert not made._look_is_due(gauge)
    gauge.level = lambda: level(30)  # type: ignore[method-assign]
    made._take_level(gauge)
    assert made._look_is_due(gauge)
    made._look(gauge)
    made._take_level(gauge)
    assert not made._look_is_due(gauge)


def test_what_was_in_nobodys_hands_before_is_not_this_holds() -> None:
    use = MemoryUse("gpu", "gtt", 43 * GIB, GIB, 44 * GIB, "falling")
    assert Meter(Fake(Owners(int(43.8 * GIB)))).judge(use).state == "back"


def test_a_lane_with_a_past_is_told_when_and_whether(state: Box, card: Sensors) -> None:
    for _ in range(3):
        environ = {**card.environ, "FDINFO": fdinfo(7, resident_gtt="40 GiB"), "LANE": "eval"}
        assert ended(state.run("sh", "-c", USER, "3", options=["--lane", "eval"], env=environ))[0] == 0
    assert [one["memory"]["peak_bytes"] for one in state.receipts()] == [40 * GIB] * 3
    holder = state.run("sleep", NAP, options=["--max-hold", "60", "--grace", "1"], env=card.environ)
    state.until_running()
    waiter = state.run("sh", "-c", USER, "3", options=["--lane", "eval"], env=card.environ)
    until(lambda: len(state.tickets()) == 2)
    [eval_lane] = json.loads(state.verb("status", "--json", env=card.environ).stdout)["resources"][0]["waiting"]
    assert (eval_lane["will_it_fit"]["need_bytes"], eval_lane["will_it_fit"]["fits"]) == (40 * GIB, True)
    assert eval_lane["expected_start"]["low"] < eval_lane["expected_start"]["high"]
    said = state.verb("status", "--plain", env=card.environ).stdout
    assert ", expected in 0s to " in said
    assert "had 40.0 GiB at most so far, which fits" in said
    for lane in (waiter, holder):
        lane.terminate()
        ended(lane)
