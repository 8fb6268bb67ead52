"""The pool's ledger: each part or the reason why it is not known, how old the look at descriptors is, and who has
which device open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdtop.cli.status_text import Text
from holdtop.hold.view import RecordedProcess
from holdtop.model.build import build
from holdtop.model.raw import Client, DeviceUser, Look, Raw
from holdtop.model.schema import to_mapping
from holdtop.model.values import Device, Snapshot
from tests.reading.views import (
    CARD,
    GIB,
    HOST,
    MIB,
    PDEV,
    TICKET,
    at,
    raw,
    readings,
    record,
    stat,
    table,
    ticket,
    token,
    user,
    uses,
    view,
)

PARTS = {"payload_bytes", "survivor_bytes", "stray_bytes", "shared_bytes", "unattributed_bytes", "other_bytes"}
NPU = Device("0000:c6:00.1", "npu", "npu", {})
SECOND = Device("0000:03:00.0", "gpu", "gpu", readings(vram_used_bytes=2 * GIB, vram_total_bytes=16 * GIB))


def card(**values: float | None) -> tuple[Device, ...]:
    return (replace(CARD, readings={**CARD.readings, **readings(**values)}),)


UNKNOWN: dict[str, tuple[dict[str, Any], set[str], str]] = {
    "no scan yet": ({"uses": None, "uses_why": "timeout"}, {*PARTS, "unreadable_processes"}, "timeout"),
    "hidden": (
        {"uses": replace(uses(), hidden=True)},
        {"unreadable_processes", "stray_bytes", "other_bytes"},
        "hidepid",
    ),
    "a closed stranger": ({"uses": uses(denied=(800,))}, {"stray_bytes", "other_bytes"}, "may not be looked into"),
    "a scan that hangs": ({"uses_why": "timeout: 31 s"}, {"unattributed_bytes"}, "timeout"),
    "no processes": ({"table": None}, PARTS, "no process was read"),
    "no queue": ({"looks": (Look("gpu", problem="gone"),)}, PARTS, "the state of the resource gpu was not read"),
    "no pool": (
        {"devices": card(gtt_total_bytes=None)},
        {*PARTS, "headroom_bytes"},
        "why not",
    ),
    "nothing says what is used": (
        {"devices": card(gtt_used_bytes=None)},
        {"unattributed_bytes", "headroom_bytes"},
        "why not",
    ),
    "no RAM": ({"host_readings": {**HOST, **readings(mem_available_bytes=None)}}, {"headroom_bytes"}, "why not"),
    "used is more than there is": (
        {"devices": card(gtt_used_bytes=125 * GIB)},
        {"headroom_bytes", "unattributed_bytes"},
        "gtt_used_bytes is more than gtt_total_bytes",
    ),
    "held is more than used": (
        {"devices": card(gtt_used_bytes=39 * GIB)},
        {"unattributed_bytes"},
        "processes hold more than the device says is used",
    ),
    "a closed payload": ({"uses": uses(denied=(502, 503))}, {"payload_bytes"}, "one of its processes"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_known_has_a_reason(case: str) -> None:
    changes, unknown, why = UNKNOWN[case]
    memory = build(raw(**changes), None).memory
    assert {name for name in (*PARTS, "headroom_bytes", "unreadable_processes") if getattr(memory, name) is None} == (
        unknown
    )
    assert set(memory.unavailable) == unknown
    assert any(why in said for said in memory.unavailable.values())
    said = said_of(build(raw(**changes), None), "memory")
    assert all(name.removesuffix("_bytes").replace("_", " ") in said for name in unknown)
    assert " unknown: " in said


def test_a_healthy_ledger_needs_no_reason() -> None:
    snapshot = build(raw(), None)
    assert snapshot.memory.unavailable == {}
    assert "unknown" not in said_of(snapshot, "memory")


def said_of(snapshot: Snapshot, label: str) -> str:
    return next(line for line in Text().table(snapshot) if line.startswith(f"  {label:<19}"))


def test_an_old_look_at_descriptors_shows_its_age() -> None:
    fresh, old = (build(raw(uses=uses(user(502, GIB), at=when)), None) for when in (996.0, 940.0))
    assert [to_mapping(one)["memory"]["age_seconds"] for one in (fresh, old)] == [4.0, 60.0]
    assert "ago" not in said_of(fresh, "memory")
    assert "descriptors last looked at 1m00s ago" in said_of(old, "memory")
    assert to_mapping(build(raw(uses=None), None))["memory"]["age_seconds"] is None


@pytest.mark.parametrize(("said_at", "words"), [("11:59:57", "as the hold says"), ("11:50:00", "as the hold said 10")])
def test_what_a_hold_says_has_an_age(said_at: str, words: str) -> None:
    quoted = record(members=(RecordedProcess(502, 502, "python3", None, 9 * GIB, 0),), at=at(said_at))
    snapshot = build(raw(view(records={TICKET: quoted}), uses=uses(denied=(502, 503))), None)
    (gpu,) = to_mapping(snapshot)["resources"]
    assert gpu["holder"]["payload"]["said_at"] == at(said_at)
    assert words in next(line for line in Text().table(snapshot) if line.startswith("gpu: HELD"))


def npu_user(pid: int, size: int | None, *, named: bool = True, gtt: int | None = None) -> DeviceUser:
    """``named``: the driver shows its clients; the first one did not."""
    client = Client((NPU.pci_address, f"drm-client-id {pid}"), npu=True, npu_bytes=size)
    own = (Client((PDEV, f"drm-client-id {pid}"), gtt, 0),) if gtt else ()
    resources = frozenset({"npu", "gpu"} if gtt else {"npu"})
    return DeviceUser(pid, pid, resources, ((client,) if named else ()) + own)


def with_npu(*users: DeviceUser, **changes: Any) -> Raw:
    free = replace(view(), resource="npu", tickets=(), token=None, records={})
    looks = (Look("gpu", view()), Look("npu", changes.pop("npu", free)))
    return raw(uses=uses(user(502, 40 * GIB), *users), looks=looks, devices=(CARD, NPU), **changes)


def test_users_of_each_device_with_what_they_hold_there() -> None:
    two = replace(
        user(800, 3 * GIB), clients=(*user(800, 3 * GIB).clients, Client((SECOND.pci_address, "c 8"), 0, GIB))
    )
    users = uses(user(502, 40 * GIB), two, npu_user(700, 64 * MIB), npu_user(400, None, named=False))
    said = {
        device["pci_address"]: [(one["pid"], one["gtt_bytes"], one["vram_bytes"], one["npu_bytes"]) for one in users]
        for device in to_mapping(build(raw(uses=users, devices=(CARD, SECOND, NPU)), None))["devices"]
        for users in [device["users"]]
    }
    assert said == {
        PDEV: [(502, 40 * GIB, 0, 0), (800, 3 * GIB, 0, 0)],
        SECOND.pci_address: [(800, 0, GIB, 0)],
        NPU.pci_address: [(400, 0, 0, None), (700, 0, 0, 64 * MIB)],
    }


def test_status_names_the_users_of_every_device_largest_first() -> None:
    crowd = [stat(pid, 400, f"job{pid}") for pid in range(900, 912)]
    users = [user(one.pid, index * MIB) for index, one in enumerate(crowd)]
    lines = list(Text().table(build(with_npu(*users, npu_user(700, None), table=table(*crowd)), None)))
    first, second = (line for line in lines if line.startswith("  users "))
    assert first.split(None, 1)[1].startswith("python3 502 (ann) GTT 40.0 GiB, job911 911 (unknown user) GTT 11 MiB")
    assert first.endswith("5 more")
    assert second.split(None, 1)[1] == "gnome-shell 700 (ann) unknown"
    assert f"device {NPU.pci_address} (npu)" in lines


@pytest.mark.parametrize(
    ("users", "flagged"),
    [
        ([npu_user(800, 300 * MIB)], ["pid 800 (notebook, ann) uses 300 MiB of the NPU without holding it"]),
        ([npu_user(800, 200 * MIB)], []),
        ([npu_user(800, None)], []),
        ([npu_user(700, 300 * MIB)], []),
        ([npu_user(502, 300 * MIB)], ["pid 502 (python3, ann) uses 300 MiB of the NPU without holding it"]),
    ],
    ids=["much", "little", "unsaid", "allowed", "under the other token"],
)
def test_a_stray_on_the_npu(users: list[DeviceUser], flagged: list[str]) -> None:
    snapshot = build(with_npu(*users), None)
    strays = [flag for flag in snapshot.flags if flag.kind == "stray"]
    assert [flag.text for flag in strays] == flagged
    assert all((flag.resource, flag.remedy.split(" --reason")[0]) == ("npu", remedy(flag.pids[0])) for flag in strays)


def remedy(pid: int) -> str:
    return f"holdtop kill --pid {pid} -r npu"


def test_who_holds_the_npus_token_is_no_stray_there() -> None:
    mine = ticket(800, 14)
    held = replace(view(), resource="npu", tickets=(mine,), token=token(mine), records={mine.id: record(mine)})
    tree = table(stat(502, 800))
    snapshot = build(with_npu(npu_user(502, 300 * MIB), npu=held, table=tree), None)
    assert not [flag for flag in snapshot.flags if flag.kind == "stray" and flag.resource == "npu"]
