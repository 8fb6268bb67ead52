"""Buffers that several clients hold, several cards, and figures that do not count all: nothing is counted twice, and
nothing is said of what nobody can know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from holdtop.cli.status_text import Text
from holdtop.hold.view import RecordedProcess
from holdtop.model.attribution import attribute, placed, split
from holdtop.model.build import build
from holdtop.model.flags import SETTLING
from holdtop.model.memory import value
from holdtop.model.raw import Client, DeviceUser, Raw, Reset
from holdtop.model.values import Device, Snapshot
from holdtop.sampler.devices import resets
from holdtop.sources.cards import Card
from tests.reading.views import (
    CARD,
    GIB,
    MIB,
    PDEV,
    TICKET,
    raw,
    read_at,
    readings,
    record,
    stat,
    table,
    user,
    uses,
    view,
)

DGPU = Device("0000:03:00.0", "gpu", "gpu", readings(vram_used_bytes=10 * GIB, vram_total_bytes=16 * GIB))


def on(device: str, gtt: int | None, vram: int | None, shared: int = 0) -> Client:
    return Client((device, f"{device} {gtt} {vram}"), gtt, vram, gtt_shared_bytes=shared)


def used(size: int) -> Device:
    return replace(CARD, readings={**CARD.readings, **readings(gtt_used_bytes=size)})


@pytest.mark.parametrize(
    ("shares", "once", "more"),
    [
        ([6, 6], 6, 0),
        ([6, 6, 6, 6], 6, 6),  # one buffer of all four, or two of two each
        ([6, 2], 6, 0),  # who else has it is closed to us
        ([], 0, 0),
    ],
)
def test_what_is_shared_is_counted_once_and_how_much_more_it_may_be(shares: list[int], once: int, more: int) -> None:
    clients = [Client((PDEV, str(n)), size * GIB, 0, size * GIB) for n, size in enumerate(shares)]
    assert split(clients, "gtt") == (0, once * GIB, more * GIB)


def test_where_many_share_nobody_knows_what_is_nobodys() -> None:
    """Twenty with one buffer of 6 GiB, or with ten: 44 GiB of 50 are nobody's, or none."""
    many = [user(pid, 6 * GIB, gtt_shared_bytes=6 * GIB) for pid in range(900, 920)]
    crowd = table(*(stat(pid, 400, "worker") for pid in range(900, 920)))
    memory = build(raw(uses=uses(*many), devices=(used(50 * GIB),), table=crowd), None).memory
    assert (memory.stray_bytes, memory.unattributed_bytes) == (6 * GIB, None)
    assert "up to 44.0 GiB more" in memory.unavailable["unattributed_bytes"]
    tight = build(raw(uses=uses(*many), devices=(used(6 * GIB),), table=crowd), None).memory
    assert (tight.stray_bytes, tight.unattributed_bytes) == (6 * GIB, 0), "there is no room for more"


def test_a_payload_that_shares_with_itself_is_counted_once_everywhere() -> None:
    sharing = [user(pid, 6 * GIB, gtt_shared_bytes=6 * GIB) for pid in (502, 503)]
    snapshot = build(raw(uses=uses(*sharing), devices=(used(6 * GIB),)), None)
    (gpu,) = snapshot.resources
    assert gpu.holder is not None
    assert gpu.holder.payload is not None
    assert gpu.holder.payload.gtt_bytes == snapshot.memory.payload_bytes == 6 * GIB
    assert (snapshot.memory.shared_bytes, snapshot.memory.unattributed_bytes) == (0, 0)
    closed, elsewhere = uses(*sharing, denied=(700,)), uses(*sharing)
    for scan, initial in ((closed, True), (elsewhere, False), (replace(elsewhere, hidden=True), True)):
        memory = build(raw(uses=scan, devices=(used(6 * GIB),), initial_pidns=initial), None).memory
        assert (memory.payload_bytes, memory.shared_bytes) == (0, 6 * GIB), "who else has it is closed to us"


def two_cards(*clients: Client, **changes: Any) -> Snapshot:
    payload = DeviceUser(502, 502, frozenset({"gpu"}), clients)
    return build(raw(uses=uses(payload), devices=(used(41 * GIB), DGPU), **changes), None)


def test_another_cards_memory_erases_nothing_that_is_known() -> None:
    silent_on_apu = DeviceUser(800, 800, frozenset({"gpu"}), (on(PDEV, None, None), on(DGPU.pci_address, 0, 9 * GIB)))
    snapshot = build(raw(uses=uses(silent_on_apu), devices=(used(41 * GIB), DGPU)), None)
    (there,) = snapshot.users[DGPU.pci_address]
    assert (there.gtt_bytes, there.vram_bytes) == (0, 9 * GIB)
    (stray,) = [flag for flag in snapshot.flags if flag.kind == "stray"]
    assert "uses at least 9.0 GiB of the GPU" in stray.text


def test_a_payload_that_is_silent_on_another_card_is_known_on_this_one() -> None:
    both = on(PDEV, 40 * GIB, 0), on(DGPU.pci_address, None, None)
    assert two_cards(*both).memory.payload_bytes == 40 * GIB
    other_way = on(PDEV, None, None), on(DGPU.pci_address, 0, 9 * GIB)
    memory = two_cards(*other_way).memory
    assert (memory.payload_bytes, memory.unavailable["payload_bytes"]) == (
        None,
        "of one of its processes the memory is not known",
    )


def test_a_holds_word_of_all_cards_is_not_taken_for_one_cards() -> None:
    said = record(members=(RecordedProcess(502, 502, "python3", None, 7 * GIB, 9 * GIB),))
    closed = raw(view(records={TICKET: said}), uses=uses(denied=(502, 503)), table=table(gone=(503,)))
    assert build(closed, None).memory.payload_bytes == 7 * GIB
    memory = build(replace(closed, devices=(*closed.devices, DGPU)), None).memory
    assert (memory.payload_bytes, memory.unavailable["payload_bytes"]) == (
        None,
        "what a hold says of its processes is of all cards together",
    )
    assert memory.unattributed_bytes == value(closed.devices[0].readings, "gtt_used_bytes"), "nothing is taken off it"


def test_a_client_that_names_no_card_belongs_to_the_only_one() -> None:
    unnamed = replace(user(800, GIB), clients=(Client(("amdgpu", "pasid 3"), GIB, 0),))
    (alone,) = placed(uses(unnamed), (CARD,)).users[800].clients
    assert alone.of(PDEV)
    memory = two_cards(Client(("amdgpu", "pasid 3"), GIB, 0)).memory
    assert memory.unavailable["unattributed_bytes"] == "a process does not say on which card it holds memory"
    nameless = replace(CARD, pci_address="unknown-card1")
    assert placed(uses(user(800, GIB)), (nameless,)).users[800].clients[0].of("unknown-card1")
    assert not placed(uses(user(800, GIB)), (nameless, DGPU)).users[800].clients[0].of("unknown-card1")


def test_kfd_stands_in_for_nothing_that_its_hold_says() -> None:
    """It does not count what was asked for as GTT, or pinned."""
    said = record(members=(RecordedProcess(502, 502, "python3", None, 20 * GIB, 0),))
    part = replace(uses(denied=(502,)), kfd={502: {PDEV: GIB}})
    queue = view(records={TICKET: said})
    snapshot = build(raw(queue, uses=part, devices=(used(22 * GIB),), table=table(gone=(503,))), None)
    assert (snapshot.memory.payload_bytes, snapshot.memory.unattributed_bytes) == (20 * GIB, 2 * GIB)
    (gpu,) = snapshot.resources
    assert gpu.holder is not None
    assert gpu.holder.payload is not None
    (process,) = gpu.holder.payload.processes
    assert (process.gtt_bytes, process.memory_source) == (20 * GIB, "record")


def test_kfds_part_of_a_users_memory_is_no_proof_that_the_rest_is_nobodys() -> None:
    silent = replace(user(800, None), clients=())
    part = replace(uses(silent), kfd={800: {PDEV: GIB}})
    assert attribute(part, {800: stat(800, 1)}, [CARD])[800].whole is False
    snapshot = build(raw(uses=part, devices=(used(43 * GIB),)), None)
    flags = [flag.kind for flag in snapshot.flags]
    assert "notebook 800 (ann) at least GTT 1.0 GiB" in "\n".join(Text().table(snapshot))
    assert "stranded-memory" not in flags
    assert "stray" in flags


def test_a_user_that_does_not_say_makes_strays_unknown() -> None:
    memory = build(raw(uses=uses(user(800, None))), None).memory
    assert (memory.stray_bytes, memory.other_bytes) == (None, None)
    assert memory.unavailable["stray_bytes"] == "a process that uses the device does not say how much"


def test_memory_is_stranded_when_a_driver_has_had_time_to_free_it() -> None:
    def look(at: float, previous: Snapshot | None) -> Snapshot:
        return build(stranded(at), previous)

    def stranded(at: float) -> Raw:
        made = raw(uses=uses(user(700, 100 * MIB), at=at), devices=(read_at(used(43 * GIB), at),), table=table(at=at))
        return replace(made, at=at)

    healthy = build(raw(), None)
    first = look(1010.0, healthy)
    soon, late = look(1012.0, first), look(1010.0 + SETTLING, first)
    assert [[flag.kind for flag in one.flags] for one in (first, soon, late)] == [[], [], ["stranded-memory"]]
    alone = look(1010.0, None)
    again, sure = look(1012.0, alone), look(1010.0 + SETTLING, alone)
    texts = [flag.text.rpartition("; ")[2] for one in (alone, again, sure) for flag in one.flags]
    hedged = "if they still are in 10 s, only a reboot frees them"
    assert texts == [hedged, hedged, "only a reboot frees them"], "what a first look has flagged stays flagged"


def test_a_dump_is_told_of_when_what_was_heard_is_over() -> None:
    card = Card("0000:c5:00.0", "apu", "", "", dumped=True)
    for heard, right in (
        ({}, ["devcoredump"]),
        ({card.pci_address: Reset(card.pci_address, "none", 1000.0)}, ["none"]),
        ({card.pci_address: Reset(card.pci_address, "none", 100.0)}, ["devcoredump"]),
        ({card.pci_address: Reset(card.pci_address, "rebind", 100.0)}, ["rebind"]),
    ):
        assert [one.how for one in resets(heard, [card], 1001.0)] == right
