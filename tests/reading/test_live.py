"""Real processes of real holds on a card that is not here: descriptors are laid over ``/proc`` in a mount namespace.

Who may look into whom is the kernel's own word; the card's totals are a synthetic tree.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdtop.sources import users
from holdtop.sources.roots import Roots
from tests.hold.lanes import NAP, Box, until
from tests.hold.sensors import GIB, Sensors
from tests.hold.test_accounts import ONE, OTHER, as_account, said, shared
from tests.operator.test_kill import descendants
from tests.reading.machines import fdinfo, laid, lay, shown

__all__ = ["shared"]

pytestmark = pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare: binds over /proc")
#: A payload of two processes.
PAIR = ("sh", "-c", f"sleep {NAP} & sleep {NAP}; :")


@pytest.fixture
def card(shared: Box) -> Sensors:
    """Where every account can read it."""
    sensors = Sensors(shared.state.parent)
    sensors.card()
    return sensors


@pytest.fixture
def facts(shared: Box) -> Path:
    """What the processes of the test are to show, by pid."""
    path = shared.state.parent / "laid"
    path.mkdir()
    return path


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", NAP]) as process:
        yield process
        process.kill()


def within(*prefix: str, card: Sensors) -> Callable[..., subprocess.Popen[str]]:
    """For ``as_account``: the command after that prefix, on a box with that card."""

    def start(command: list[str], **kwargs: Any) -> subprocess.Popen[str]:
        return subprocess.Popen([*prefix, "env", f"HOLDTOP_SYS={card.sys}", *command], **kwargs)

    return start


def status(box: Box, card: Sensors, facts: Path, uid: int = 0) -> dict[str, Any]:
    reader = as_account(uid, box, "status", "--json", popen=within(*laid(facts), card=card))
    out, errors = reader.communicate(timeout=30)
    assert not errors
    found: dict[str, Any] = json.loads(out)
    return found


def holder(snapshot: Mapping[str, Any]) -> Mapping[str, Any]:
    (gpu,) = (one for one in snapshot["resources"] if one["name"] == "gpu")
    found: Mapping[str, Any] = gpu["holder"]
    return found


def sizes(snapshot: Mapping[str, Any], name: str) -> dict[int, tuple[int | None, str | None]]:
    """By pid: the bytes of GTT of the processes of that part, and who says so."""
    processes = holder(snapshot)["payload"]["processes"] if name == "payload" else snapshot[name]
    return {one["pid"]: (one["gtt_bytes"], one["memory_source"]) for one in processes}


def kinds(snapshot: Mapping[str, Any]) -> set[str]:
    return {flag["kind"] for flag in snapshot["flags"]}


def test_memory_goes_to_the_ticket_that_holds_it(
    shared: Box, card: Sensors, facts: Path, stranger: subprocess.Popen[bytes]
) -> None:
    """A client that two of its processes share counts once; a user outside of the hold is a stray."""
    lane = as_account(ONE, shared, "run", "--", *PAIR)
    root = shared.until_running()["root_pid"]
    first, second = until(lambda: both if len(both := descendants(root)) == 2 else None)
    shared_one = fdinfo(7, resident_gtt="40 GiB")
    shown(facts, str(first), {0: "", 3: shared_one, 4: shared_one})
    shown(facts, str(second), {3: shared_one, 5: fdinfo(8, resident_gtt="1 GiB")})
    shown(facts, str(stranger.pid), {3: fdinfo(9, resident_gtt="5 GiB")})
    card.use(46)
    snapshot = status(shared, card, facts)
    lane.terminate()
    said(lane)
    assert sizes(snapshot, "payload") == {
        root: (0, "fdinfo"),
        first: (40 * GIB, "fdinfo"),
        second: (GIB, "fdinfo"),
    }
    assert sizes(snapshot, "leftovers") == {stranger.pid: (5 * GIB, "fdinfo")}
    parts = ("payload_bytes", "stray_bytes", "survivor_bytes", "unattributed_bytes")
    assert [snapshot["memory"][part] // GIB for part in parts] == [41, 5, 0, 0]
    assert "stray" in kinds(snapshot)


def test_another_accounts_process_is_not_known_and_not_zero(shared: Box, card: Sensors, facts: Path) -> None:
    """An ordinary account looks; the hold has no card to read and says nothing of itself."""
    lane = as_account(ONE, shared, "run", "--", "sleep", NAP)
    root = shared.until_running()["root_pid"]
    card.use(40)
    snapshot = status(shared, card, facts, OTHER)
    lane.terminate()
    said(lane)
    assert sizes(snapshot, "payload") == {root: (None, None)}
    assert snapshot["memory"]["payload_bytes"] is None
    assert snapshot["memory"]["unreadable_processes"] >= 1
    assert "stranded-memory" not in kinds(snapshot)


def test_what_a_hold_says_of_its_own_is_shown_as_that(shared: Box, card: Sensors, facts: Path) -> None:
    """To another account, which may not look: the hold looks at its own members and publishes them."""
    alone = ("unshare", "--mount", "--propagation", "private")
    lane = as_account(ONE, shared, "run", "--", "sleep", NAP, popen=within(*alone, card=card))
    started = shared.until_running()
    root = started["root_pid"]
    shown(facts, str(root), {3: fdinfo(7, resident_gtt="40 GiB")})
    lay(facts, started["keeper_pid"])
    card.use(40)
    nothing = facts / "nothing"
    nothing.mkdir()

    def published() -> dict[str, Any] | None:
        found = status(shared, card, nothing, OTHER)
        return found if sizes(found, "payload")[root][0] else None

    snapshot = until(published, 30)
    lane.terminate()
    said(lane)
    assert sizes(snapshot, "payload") == {root: (40 * GIB, "record")}
    assert snapshot["memory"]["payload_bytes"] == 40 * GIB
    assert snapshot["memory"]["unattributed_bytes"] == 0


@pytest.mark.parametrize("closed", [False, True])
def test_memory_is_stranded_only_where_everybody_was_looked_into(
    shared: Box, card: Sensors, facts: Path, closed: bool
) -> None:
    """Where not even root may look into a process of the box, it is shown with nothing open."""
    for pid in users.scan(Roots()).denied:
        shown(facts, str(pid), {0: ""})
    card.use(43)
    snapshot = status(shared, card, facts, OTHER if closed else 0)
    assert snapshot["memory"]["unattributed_bytes"] == 43 * GIB
    assert (snapshot["memory"]["unreadable_processes"] > 0) is closed
    assert ("stranded-memory" in kinds(snapshot)) is not closed
    assert ("unreadable" in kinds(snapshot)) is closed
