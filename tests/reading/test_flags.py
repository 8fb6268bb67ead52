"""Flags: each stands for its cause, none on a healthy box, and each carries a command that mends it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from holdtop.hold.view import QueueView
from holdtop.model import flags
from holdtop.model.build import build
from holdtop.model.raw import Details, Look, Raw, Reset
from holdtop.model.values import Flag, Severity
from tests.reading import views
from tests.reading.views import (
    GIB,
    HOST,
    ME,
    MIB,
    NOW,
    OTHER,
    PDEV,
    TICKET,
    at,
    raw,
    record,
    stat,
    table,
    ticket,
    token,
    user,
    uses,
    view,
)

DEAD = ticket(locked=False, identity_alive=False)
#: A hold of which only the payload is left, re-parented to init.
GHOST = view(tickets=(DEAD,), token=token(DEAD))
ORPHANS = table(stat(502, 1), gone=(500, 501, 600))
FREE = view(token=None, tickets=(ticket(600, 13),), records={})


def stranded(queue: QueueView | None = None, **changes: Any) -> Raw:
    """40 GiB in use, nobody holds the token, and (as long as nothing is changed) nobody uses the device."""
    free = queue or view(token=None, tickets=(), records={})
    return raw(free, **{"devices": (views.BUSY,), "uses": uses(), **changes})


def details(uid: int) -> dict[tuple[int, int], Details]:
    return {one.identity: Details((one.name,), uid, "x") for one in views.PROCESSES}


@dataclass(frozen=True)
class Case:
    look: Raw
    #: Of each flag: kind, severity, pids.
    flags: list[tuple[str, Severity, tuple[int, ...]]]
    says: tuple[str, ...] = field(default=())


CASES: dict[str, Case] = {
    "healthy": Case(raw(), []),
    "healthy and free": Case(raw(view(token=None, tickets=(), records={}), uses=uses(user(700, MIB))), []),
    "healthy, about to be taken": Case(
        raw(view(token=None, tickets=(ticket(queued_at=at("11:59:55")),), records={}), uses=uses()), []
    ),
    "healthy, just released": Case(raw(replace(FREE, receipts=({"at": at("11:59:55")},)), uses=uses()), []),
    "healthy, ending in its grace": Case(
        raw(view(records={TICKET: record(state="ending", deadline_at=at("11:59:40"))})), []
    ),
    "survivor": Case(
        raw(
            view(survivors=(views.survivors((800, 800), why="spared"),)), uses=uses(user(502, GIB), user(800, 3 * GIB))
        ),
        [("survivor", "warning", (800,))],
        ("lane9", "3.0 GiB", "pid 800 (notebook, ann)"),
    ),
    "unkillable": Case(
        raw(view(survivors=(views.survivors((800, 800)),))),
        [("survivor", "critical", (800,)), ("unkillable", "critical", (800,))],
    ),
    "survivor asleep in the kernel": Case(
        raw(view(survivors=(views.survivors((800, 800), why=""),)), table=table(stat(800, 1, state="D"))),
        [("survivor", "critical", (800,)), ("unkillable", "critical", (800,))],
        ("no signal reaches it", "state D"),
    ),
    "survivor that died": Case(raw(view(survivors=(views.survivors((800, 800)),)), table=table(gone=(800,))), []),
    "survivor whose pid was recycled": Case(raw(view(survivors=(views.survivors((800, 3)),))), []),
    "ghost with leftovers of ours": Case(
        raw(GHOST, table=ORPHANS), [("ghost", "warning", (502, 503))], ("lane12", "pid 502")
    ),
    "ghost with leftovers not ours": Case(
        raw(GHOST, table=ORPHANS, details=details(OTHER)), [("ghost", "critical", (502, 503))], ("not ours to signal",)
    ),
    "ghost with leftovers, seen by root": Case(
        raw(GHOST, table=ORPHANS, details=details(OTHER), uid=0), [("ghost", "warning", (502, 503))]
    ),
    "ghost with nothing left": Case(
        raw(GHOST, table=table(gone=(500, 501, 502, 503, 600)), uses=uses()),
        [("ghost", "warning", ())],
        ("nothing is known to be left",),
    ),
    "empty token": Case(
        raw(
            view(
                token=token(kind="garbled", ticket=None, ticket_id=None, nonce=None, why="it is empty"),
                tickets=(),
                records={},
            ),
            uses=uses(),
        ),
        [("ghost", "warning", ())],
        ("it is empty", "counts as held"),
    ),
    "shell token whose holder is gone": Case(
        raw(
            view(token=token(kind="shell", pid=999, ticket=None, ticket_id=None, nonce=None), tickets=(), records={}),
            uses=uses(),
        ),
        [("ghost", "warning", ())],
    ),
    "shell token, holder gone, device in use": Case(
        raw(view(token=token(kind="shell", pid=999, ticket=None, ticket_id=None, nonce=None), tickets=(), records={})),
        [("stray", "warning", (502,))],
    ),
    "shell token in a container": Case(
        raw(
            view(token=token(kind="shell", pid=999, ticket=None, ticket_id=None, nonce=None), tickets=(), records={}),
            uses=uses(),
            initial_pidns=False,
        ),
        [],
    ),
    "stray": Case(
        raw(uses=uses(user(502, 40 * GIB), user(800, 300 * MIB))),
        [("stray", "warning", (800,))],
        ("300 MiB", "notebook"),
    ),
    "user below the limit": Case(raw(uses=uses(user(502, 40 * GIB), user(800, 255 * MIB))), []),
    "compositor": Case(raw(uses=uses(user(502, 40 * GIB), user(700, GIB))), []),
    "over its deadline": Case(
        raw(view(records={TICKET: record(deadline_at=at("11:59:30"))})),
        [("over-deadline", "warning", ())],
        ("lane12", "30 s ago"),
    ),
    "ending for too long": Case(
        raw(view(records={TICKET: record(state="ending", deadline_at=at("11:58:00"))})),
        [("over-deadline", "warning", ())],
    ),
    "half a place": Case(
        raw(looks=(Look("gpu", None, "GPU_QUEUE_DIR is set but GPU_TOKEN_FILE is not", half_named=True),)),
        [("split-state", "critical", ())],
        ("GPU_TOKEN_FILE is not",),
    ),
    "two queues alive": Case(
        raw(looks=(Look("gpu", view(), elsewhere=(view(rule="home", queue_path="/home/ann/GPU-QUEUE"),)),)),
        [("split-state", "critical", ())],
        ("/home/ann/GPU-QUEUE", "/var/state/gpu-queue"),
    ),
    "unreadable": Case(
        raw(uses=uses(denied=(900, 901))),
        [("unreadable", "info", ())],
        ("40.1 GiB", "2 could not"),
    ),
    "dead ticket": Case(
        raw(view(tickets=(ticket(), ticket(601, 14, locked=False, identity_alive=False)))),
        [("dead-ticket", "info", ())],
    ),
    "a dead ticket that ran": Case(
        raw(
            view(
                tickets=(ticket(), ticket(601, 14, locked=False, identity_alive=False)),
                records={TICKET: record(), "0000000014-601": record(ticket(601, 14))},
            )
        ),
        [("dead-ticket", "info", ())],
        ("(pid 601) died, its token is gone",),
    ),
    "many dead tickets": Case(
        raw(
            view(
                tickets=(
                    ticket(),
                    *(ticket(3001 + n, 14 + n, locked=False, identity_alive=False) for n in range(2000)),
                )
            )
        ),
        [("dead-ticket", "info", ())],
        ("2000 tickets", "0000000014-3001, 0000000015-3002, 0000000016-3003, …"),
    ),
    "token vanished": Case(raw(view(token=None)), [("lost-token", "critical", ())], ("is gone",)),
    "token of another": Case(
        raw(view(token=token(ticket(600, 13)))), [("lost-token", "critical", ())], ("is lane13's",)
    ),
    "token just being taken": Case(raw(view(token=None, records={TICKET: record(taken_at=NOW)})), []),
    "stalled queue": Case(raw(FREE, uses=uses()), [("stalled-queue", "critical", ())], ("lane13", "600 s")),
    "queue stalled by a survivor, as was asked for": Case(
        raw(
            replace(
                FREE,
                tickets=(ticket(600, 13, limits={"after-survivor": "wait"}),),
                survivors=(views.survivors((800, 800)),),
            ),
            uses=uses(),
        ),
        [("survivor", "critical", (800,)), ("unkillable", "critical", (800,))],
    ),
    "stranded memory": Case(
        stranded(),
        [("stranded-memory", "critical", ())],
        ("40.1 GiB of device memory are in use, and no process that could be seen",),
    ),
    "memory that a driver may still free": Case(
        stranded(view(token=None, tickets=(), records={}, receipts=({"at": at("11:59:55")},))), []
    ),
    "memory without an owner, seen from a container": Case(stranded(initial_pidns=False), [("unreadable", "info", ())]),
    "memory of a user who does not tell": Case(stranded(uses=uses(user(700, None))), []),
    "memory that somebody closed to us may hold": Case(
        stranded(uses=uses(denied=(900,))), [("unreadable", "info", ())]
    ),
    "closed memory that KFD tells of": Case(
        stranded(uses=replace(uses(denied=(700,)), kfd={700: {views.PDEV: 40 * GIB}})), []
    ),
    "memory of a dead process that KFD still lists": Case(
        stranded(uses=replace(uses(), kfd={990: {views.PDEV: 40 * GIB}})), [("stranded-memory", "critical", ())]
    ),
    "low memory": Case(
        raw(host_readings={**HOST, **views.readings(mem_available_bytes=6 * GIB)}),
        [("low-memory", "warning", ())],
        ("6.0 GiB of 128.0 GiB",),
    ),
    "hot": Case(raw(host_readings={**HOST, **views.readings(tctl_celsius=95.0)}), [("hot", "warning", ())]),
    "low, but for what the GPU gives back": Case(
        raw(host_readings={**HOST, **views.readings(mem_available_bytes=6 * GIB, gpu_reclaimable_bytes=GIB)}), []
    ),
    "reset": Case(
        raw(resets=(Reset(PDEV, "none", 990.0, 77, "code"),)),
        [("gpu-reset", "warning", (77,))],
        (f"card {PDEV} was reset and has recovered; the kernel blames pid 77 (code)",),
    ),
    "reset, long ago": Case(raw(resets=(Reset(PDEV, "none", 399.0), Reset(PDEV, "devcoredump", 399.0))), []),
    "wedged, however long ago": Case(
        raw(resets=(Reset(PDEV, "rebind,bus-reset", 1.0),)), [("gpu-reset", "warning", ())], ("by rebind,bus-reset",)
    ),
    "a dump that is still there": Case(
        raw(resets=(Reset(PDEV, "devcoredump"),)), [("gpu-reset", "warning", ())], ("has left a dump",)
    ),
    "a dump of some other device": Case(raw(resets=(Reset("0000:00:14.3", "devcoredump"),)), []),
    "unknown is neither hot nor low": Case(
        raw(host_readings=views.readings(tctl_celsius=None, mem_available_bytes=None, mem_total_bytes=None)), []
    ),
    "stamp from the future": Case(
        raw(view(tickets=(ticket(), ticket(600, 13, queued_at=at("13:00:00"))))),
        [("clock-skew", "info", ())],
        ("3600 s ahead",),
    ),
    "stamp from before the start": Case(
        raw(view(tickets=(ticket(), ticket(600, 13, queued_at=at("01:00:00"))))), [("clock-skew", "info", ())]
    ),
    "session over": Case(
        raw(table=table(stat(500, 1, "holdtop", session=77))), [("starter-gone", "info", ())], ("lane12",)
    ),
    "session leader of its own": Case(raw(table=table(stat(500, 1, "holdtop", session=500))), []),
}


@pytest.mark.parametrize("name", CASES)
def test_flags(name: str) -> None:
    case = CASES[name]
    snapshot = build(case.look, None)
    assert [(flag.kind, flag.severity, flag.pids) for flag in snapshot.flags] == case.flags
    text = " ".join(flag.text for flag in snapshot.flags)
    for part in case.says:
        assert part in text
    for flag in snapshot.flags:
        assert shlex.split(flag.remedy), "a remedy is a command"
        assert flag.since == NOW


def _one(look: Raw) -> Flag:
    (flag,) = build(look, None).flags
    return flag


def test_a_remedy_names_this_very_state() -> None:
    apart = replace(GHOST, rule="flag", token_path="/tmp/a b/gpu-token")
    look = raw(apart, table=table(gone=(500, 501, 502, 503, 600)), uses=uses())
    assert shlex.split(_one(look).remedy) == ["holdtop", "recover", "--state-dir", "/tmp/a b", "--reason", "REASON"]


def test_since_is_kept_while_a_flag_stands() -> None:
    first = build(raw(view(token=None), taken_at=at("11:59:00")), None)
    second = build(raw(view(token=None)), first)
    assert [flag.since for flag in second.flags] == [at("11:59:00")]
    assert build(raw(), second).flags == ()
    again = build(raw(view(token=None)), build(raw(), second))
    assert [flag.since for flag in again.flags] == [NOW], "it went away in between"


def test_worst_first() -> None:
    hot = {**HOST, **views.readings(tctl_celsius=99.0)}
    dead = ticket(601, 14, locked=False, identity_alive=False)
    flags = build(raw(view(token=None, tickets=(ticket(), dead)), host_readings=hot), None).flags
    assert [flag.severity for flag in flags] == ["critical", "warning", "info"]


def test_among_equals_a_process_comes_before_a_name() -> None:
    """A ghost that has left nothing waits behind a process that has memory."""
    dead = table(gone=(500, 501, 502, 503, 600))
    flags = build(raw(GHOST, table=dead, uses=uses(user(800, 9 * GIB))), None).flags
    assert [flag.kind for flag in flags if flag.severity == "warning"] == ["stray", "ghost"]


def test_a_stalled_queue_was_free_before() -> None:
    """Between a shell holder's release and the next take there is no receipt: one look proves nothing."""
    held = build(raw(), None)
    assert build(raw(FREE, uses=uses()), held).flags == ()
    assert [flag.kind for flag in build(raw(FREE, uses=uses()), build(raw(FREE, uses=uses()), held)).flags] == [
        "stalled-queue"
    ]


def test_memory_that_was_allocated_after_the_scan_has_no_owner_yet() -> None:
    """The gauges are read every second, the owners every few: only a scan that is newer than the memory tells."""
    idle = build(stranded(devices=(views.CARD_IDLE,)), None)
    first = build(stranded(at=1001.0, devices=(views.read_at(views.BUSY, 1001.0),)), idle)
    second = build(stranded(at=1002.0, devices=(views.read_at(views.BUSY, 1002.0),)), first)
    late = 1001.0 + flags.SETTLING
    third = build(stranded(at=late, devices=(views.read_at(views.BUSY, late),)), second)
    scanned = build(stranded(at=late, devices=(views.read_at(views.BUSY, late),), uses=uses(at=late - 0.5)), third)
    kinds = [[flag.kind for flag in snapshot.flags] for snapshot in (idle, first, second, third, scanned)]
    assert kinds == [[], [], [], [], ["stranded-memory"]]
    assert build(stranded(devices=(views.CARD_IDLE,), at=1104.0, uses=uses(at=1103.5)), scanned).flags == ()


def test_a_stray_of_this_account_is_flagged_whoever_looks() -> None:
    assert _one(raw(uses=uses(user(502, 40 * GIB), user(800, GIB)), uid=ME)).pids == (800,)
