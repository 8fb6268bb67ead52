"""Runners and the state's own check in a snapshot: what is flagged, what is not known, and when it is over."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import holdtop
from holdtop.cli.status_text import Text
from holdtop.hold.view import QueueView
from holdtop.model.build import build
from holdtop.model.raw import Look, Runners, StateCheck
from holdtop.model.schema import to_mapping
from holdtop.model.standing import Standing
from holdtop.model.values import Finding, Runner, Snapshot
from holdtop.watch.looked import Unseen, looked_at
from tests.reading import views
from tests.reading.views import at, raw

UNIT = "holdtop-runner-one.service"
SCHEMA = Path(holdtop.__file__).parents[2] / "docs" / "status.schema.json"


def finding(kind: str, **changes: Any) -> Finding:
    return replace(Finding(kind, f"{kind} was seen", "jobs are lost", f"mend {kind}", UNIT), **changes)


def runner(*findings: Finding, **changes: Any) -> Runner:
    made = Runner(
        UNIT, "active", "running", "success", 0, "continue", "always", "mixed", "unknown",
        tuple(one.what for one in findings), since=at("11:00:00"), memory_high_bytes=9 << 30,
        memory_max_bytes=10 << 30, registration_why="no token", up=True, guarded=not findings, findings=findings,
    )  # fmt: skip
    return replace(made, **changes)


def look(*runners: Runner, why: str | None = None, **changes: Any) -> Snapshot:
    return build(raw(runners=Runners(runners, why), **changes), changes.pop("previous", None))


def flags(snapshot: Snapshot) -> list[tuple[str, str, str | None, str]]:
    return [(one.kind, one.severity, one.about, one.remedy) for one in snapshot.flags]


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ([], []),
        (["not-active", "failed"], [("runner-down", "critical", UNIT, "mend not-active")]),
        (["no-unit"], [("runner-down", "critical", UNIT, "mend no-unit")]),
        (["crash-loop"], [("runner-down", "critical", UNIT, "mend crash-loop")]),
        (["restart", "kill-mode"], [("runner-unguarded", "warning", UNIT, "mend restart")]),
        (
            ["restart", "not-active"],
            [
                ("runner-down", "critical", UNIT, "mend not-active"),
                ("runner-unguarded", "warning", UNIT, "mend restart"),
            ],
        ),
    ],
)
def test_a_runner_has_a_flag_for_what_is_lost(found: list[str], wanted: list[tuple[str, str, str, str]]) -> None:
    assert flags(look(runner(*map(finding, found)))) == wanted


def test_all_that_is_wrong_stands_in_one_flag_and_two_runners_have_two() -> None:
    two = runner(finding("restart"), unit="holdtop-runner-two.service")
    first, second = look(runner(finding("restart"), finding("oom-policy")), two).flags
    assert first.text == f"{UNIT}: restart was seen, oom-policy was seen: jobs are lost"
    assert second.about == "holdtop-runner-two.service"


STATE = {
    "old-tool": "split-state", "two-queues": "split-state", "half-named": "split-state", "elsewhere": "split-state",
    "writable-way": "state-permissions", "open-state": "state-permissions", "not-roots": "state-permissions",
    "writable-program": "state-permissions", "unknown-tool": None, "old-session": None, "incomplete": None,
    "closed-state": "state-permissions", "wrong-group": "state-permissions",
}  # fmt: skip


@pytest.mark.parametrize("kind", STATE)
def test_what_the_state_check_finds_is_flagged(kind: str) -> None:
    found = flags(look(state=StateCheck((finding(kind, about="/srv/x"),))))
    assert found == ([(STATE[kind], "critical", "/srv/x", f"mend {kind}")] if STATE[kind] else [])


def test_what_a_look_at_the_queue_says_already_is_not_said_twice() -> None:
    exposed = views.view(exposed={"/var/lib": "go-w"})
    other = QueueView("gpu", "/home/ann/GPU-QUEUE", "/home/ann/GPU-TOKEN", "home")
    every = (
        finding("writable-way", about="/var/lib"),
        finding("two-queues", about="/home/ann/GPU-QUEUE"),
        finding("writable-way", about="/var"),
    )
    snapshot = look(looks=(Look("gpu", exposed, elsewhere=(other,)),), state=StateCheck(every))
    assert sorted((one.kind, one.about or "") for one in snapshot.flags) == [
        ("split-state", ""),
        ("state-permissions", "/var"),
        ("state-permissions", "/var/lib"),
    ]


UNKNOWN = runner(active_state="unknown", up=None, guarded=None, why="the bus is silent")


def test_a_check_that_broke_off_resolves_nothing() -> None:
    standing = Standing()
    bad, broken = StateCheck((finding("not-roots", about="/srv/x"),)), StateCheck(why="Input/output error")
    heard = [
        [(one.state, one.flag.kind) for one in standing.compare(look(state=state))]
        for state in (bad, broken, bad, StateCheck())
    ]
    assert heard == [[("raised", "state-permissions")], [], [], [("resolved", "state-permissions")]]


def test_what_could_not_be_looked_at_is_neither_well_nor_ill() -> None:
    snapshot = look(UNKNOWN)
    assert snapshot.flags == ()
    assert f"runner {UNIT}: unknown: the bus is silent" in list(Text().table(snapshot))
    silent = look(why="timeout: the read has not returned for 9.0 s")
    assert "Runner unknown: timeout: the read has not returned for 9.0 s." in list(Text().sentences(silent))
    assert [line for line in Text().table(look()) if "runner" in line] == [], "there is none, and that is known"


@pytest.mark.parametrize(
    ("changes", "online"),
    [
        ({"registration": "offline", "registration_why": None}, "offline at its forge"),
        ({"registration_why": "Connection refused"}, "at its forge unknown: Connection refused"),
    ],
)
def test_a_runner_in_words(changes: dict[str, Any], online: str) -> None:
    snapshot = look(runner(finding("restart"), **changes))
    said = next(line for line in Text().table(snapshot) if line.startswith("runner"))
    assert said == (
        f"runner {UNIT}: active (running) since {at('11:00:00')}, 0 restarts, not guarded, "
        f"MemoryHigh 9.0 GiB, MemoryMax 10.0 GiB, {online}"
    )


def test_a_unit_that_is_not_there_has_neither_state_nor_limits() -> None:
    gone = runner(finding("no-unit"), active_state="inactive", up=False, guarded=None)
    assert f"runner {UNIT}: no-unit was seen" in list(Text().table(look(gone)))


@pytest.mark.parametrize("unseen", [look(UNKNOWN), look(runner(finding("not-active"), up=False), why="silent")])
def test_a_runner_is_not_back_because_nobody_could_look(unseen: Snapshot) -> None:
    standing, down = Standing(), look(runner(finding("not-active"), up=False))
    assert [one.state for one in standing.compare(down)] == ["raised"]
    assert list(standing.compare(replace(unseen, flags=()))) == []
    assert list(standing.compare(down)) == []
    assert [one.state for one in standing.compare(look(runner()))] == ["resolved"]


def test_that_nobody_could_look_is_said_once() -> None:
    unseen = Unseen()
    assert list(unseen.compare(look(UNKNOWN))) == [f"could not look at {UNIT}: the bus is silent"]
    assert list(unseen.compare(look(UNKNOWN))) == []
    assert list(unseen.compare(look(runner()))) == []
    assert len(list(unseen.compare(look(UNKNOWN)))) == 1
    every = (runner(registration="online"), replace(runner(), up=False), UNKNOWN)
    assert "; runners: 1 unknown, at their forges 1 unknown; " in looked_at(look(UNKNOWN))
    assert "; runners: 1 up, 1 down, 1 unknown, at their forges 1 online, 2 unknown; " in looked_at(look(*every))
    assert "runner" not in looked_at(look())


def test_one_that_is_taken_off_the_box_is_over() -> None:
    standing = Standing()
    assert [one.state for one in standing.compare(look(runner(finding("no-unit"))))] == ["raised"]
    assert [one.state for one in standing.compare(look())] == ["resolved"]


def test_the_schema_holds() -> None:
    said = to_mapping(look(runner(finding("restart")), UNKNOWN, why="old"))
    jsonschema.validate(said, json.loads(SCHEMA.read_text()), jsonschema.Draft202012Validator)
    assert said["runners"][0]["problems"] == ["restart was seen"]
    assert "findings" not in said["runners"][0]
    assert said["runners_why"] == "old"
