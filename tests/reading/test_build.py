"""``build``: the tree of a ticket, its memory, the ledger; each test departs from a healthy box by one thing."""

from __future__ import annotations

import shlex
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from holdtop.hold.view import QueueEntry, RecordedProcess
from holdtop.model.build import build, wanted
from holdtop.model.raw import Look, Uses
from holdtop.model.resources import split_command
from holdtop.model.values import Payload, Resource, Snapshot, Ticket
from tests.reading import views
from tests.reading.views import GIB, MIB, OTHER, TICKET, at, raw, record, stat, table, ticket, token, user, uses, view


def gpu(snapshot: Snapshot) -> Resource:
    return next(one for one in snapshot.resources if one.name == "gpu")


def holder(snapshot: Snapshot) -> Ticket:
    found = gpu(snapshot).holder
    assert found is not None
    return found


def payload(snapshot: Snapshot) -> Payload:
    found = holder(snapshot).payload
    assert found is not None
    return found


def test_the_holder_and_its_tree() -> None:
    snapshot = build(raw(), None)
    running = holder(snapshot)
    assert (running.id, running.position, running.state, running.keeper_pid) == (TICKET, 0, "running", 501)
    assert running.command == ("python3", "train.py", "--name", "a b")
    assert (running.held_seconds, running.waited_seconds) == (300.0, 300.0)
    assert running.limits["max-hold"] == "2100s"
    tree = payload(snapshot)
    assert [(p.pid, p.ppid, p.found_by) for p in tree.processes] == [(502, 501, "descent"), (503, 502, "descent")]
    assert (tree.root_pid, tree.process_count, tree.source) == (502, 2, "read")
    assert (tree.rss_bytes, tree.gtt_bytes, tree.vram_bytes) == (200 * MIB, 40 * GIB, 0)
    assert tree.processes[0].command == ("python3", "--flag")


def test_who_waits_in_which_order() -> None:
    tickets = (ticket(), ticket(601, 13), ticket(602, 14), ticket(603, 15))
    queue = gpu(build(raw(view(tickets=tickets)), None)).waiting
    assert [(one.id, one.position) for one in queue] == [
        ("0000000013-601", 1),
        ("0000000014-602", 2),
        ("0000000015-603", 3),
    ]
    assert {one.payload for one in queue} == {None}


def test_the_ledger_of_a_healthy_box() -> None:
    memory = build(raw(), None).memory
    assert memory.payload_bytes == 40 * GIB
    assert memory.other_bytes == 100 * MIB
    assert memory.unattributed_bytes == 14 * MIB
    assert (memory.survivor_bytes, memory.stray_bytes, memory.shared_bytes) == (0, 0, 0)
    assert memory.headroom_bytes == 60 * GIB - int(128 * GIB * 0.05), "RAM ends before GTT does"


def test_a_client_in_two_processes_is_counted_once() -> None:
    """A worker that inherited its parent's descriptor shows the same client again."""
    both = uses(user(502, 40 * GIB, client=7, descriptors=2), user(503, 40 * GIB, client=7), user(700, 100 * MIB))
    tree = payload(build(raw(uses=both), None))
    assert tree.gtt_bytes == 40 * GIB
    assert [process.gtt_bytes for process in tree.processes] == [40 * GIB, 0]


def test_shared_buffers_are_their_own_part() -> None:
    both = uses(user(502, 40 * GIB, gtt_shared_bytes=GIB), user(700, 2 * GIB, gtt_shared_bytes=GIB))
    memory = build(raw(uses=both), None).memory
    assert (memory.payload_bytes, memory.other_bytes, memory.shared_bytes) == (39 * GIB, GIB, GIB)


def test_another_cards_memory_is_not_in_this_cards_ledger() -> None:
    elsewhere = replace(user(700, 30 * GIB).clients[0], key=("0000:01:00.0", "drm-client-id 1"))
    other = replace(user(700, 0), clients=(elsewhere,))
    assert build(raw(uses=uses(user(502, 40 * GIB), other)), None).memory.other_bytes == 0


def test_clients_count_on_a_card_whose_address_is_not_known() -> None:
    """A partial recording, or a container that shows no ``uevent``: it is the only card that they can be on."""
    nameless = replace(views.BUSY, pci_address="unknown-card1")
    memory = build(raw(devices=(nameless,)), None).memory
    assert (memory.payload_bytes, memory.unattributed_bytes) == (40 * GIB, 14 * MIB)


def test_unknown_is_not_zero() -> None:
    """A client whose fdinfo names no memory: the sum with it is not known either."""
    assert payload(build(raw(uses=uses(user(502, None))), None)).gtt_bytes is None
    nothing_scanned = build(raw(uses=None), None)
    assert payload(nothing_scanned).gtt_bytes is None
    assert nothing_scanned.memory.payload_bytes is None


def test_a_process_younger_than_the_scan_is_unknown() -> None:
    young = stat(990, 502, start_ticks=1195)
    look = raw(table=table(young), uses=replace(uses(user(502, 40 * GIB)), at=990.0))
    known = {process.pid: process.gtt_bytes for process in payload(build(look, None)).processes}
    assert known == {502: 40 * GIB, 503: 0, 990: None}


def test_a_closed_payload_is_what_its_hold_says() -> None:
    """Another account's descriptors are closed: the record is heard, and marked."""
    said = (RecordedProcess(502, 502, "python3", None, 30 * GIB, 0), RecordedProcess(503, 503, "w", None, GIB, 0))
    closed = raw(view(records={TICKET: record(members=said)}), uses=uses(denied=(502, 503)))
    snapshot = build(closed, None)
    tree = payload(snapshot)
    assert (tree.source, tree.gtt_bytes) == ("record", 31 * GIB)
    assert {(process.memory_source, process.readable) for process in tree.processes} == {("record", False)}
    assert snapshot.memory.payload_bytes == 31 * GIB
    assert snapshot.memory.unreadable_processes == 2


def test_a_closed_payload_of_which_nothing_is_said_is_unknown() -> None:
    snapshot = build(raw(uses=uses(denied=(502, 503))), None)
    assert (payload(snapshot).gtt_bytes, snapshot.memory.payload_bytes) == (None, None)
    assert {process.memory_source for process in payload(snapshot).processes} == {None}


def test_a_member_that_left_the_tree_is_found_by_its_record() -> None:
    escaped = table(stat(503, 1, "worker"))
    found = {process.pid: process.found_by for process in payload(build(raw(table=escaped), None)).processes}
    assert found == {502: "descent", 503: "record"}


def test_a_recycled_pid_is_no_member() -> None:
    """Somebody else has the recorded pid now: another start time, outside the tree."""
    recycled = table(stat(503, 1, "stranger", start_ticks=999))
    assert [process.pid for process in payload(build(raw(table=recycled), None)).processes] == [502]


def test_a_record_by_somebody_else_is_not_heard() -> None:
    forged = record(uid=OTHER, members=(RecordedProcess(800, 800, "notebook"),))
    assert 800 not in {p.pid for p in payload(build(raw(view(records={TICKET: forged})), None)).processes}
    stale = record(nonce="another run", members=(RecordedProcess(800, 800, "notebook"),))
    assert 800 not in {p.pid for p in payload(build(raw(view(records={TICKET: stale})), None)).processes}


def test_a_recycled_keeper_brings_no_stranger_in() -> None:
    """The keeper is gone and a stranger, started after the payload, has its pid and a child."""
    strangers = table(stat(501, 1, "stranger", start_ticks=900), stat(910, 501), stat(502, 500))
    assert {p.pid for p in payload(build(raw(table=strangers), None)).processes} == {502, 503}


def test_cpu_is_a_rate_of_two_looks() -> None:
    first = build(raw(), None)
    assert {process.cpu_percent for process in payload(first).processes} == {None}
    later = table(stat(502, 501, cpu_ticks=301), at=1002.0)
    second = build(raw(table=later), first)
    assert [process.cpu_percent for process in payload(second).processes] == [50.0, 0.0]
    assert payload(build(raw(table=later), second)).processes[0].cpu_percent == 50.0, "the same sample again"


def test_ages_bear_no_clock_that_was_set() -> None:
    ahead = ticket(queued_at="2031-01-01T00:00:00+00:00")
    running = holder(build(raw(view(tickets=(ahead,), token=token(ahead))), None))
    assert running.waited_seconds is not None
    assert 0 <= running.waited_seconds <= 700
    old = record(taken_at="1970-01-01T00:00:00+00:00")
    assert holder(build(raw(view(records={TICKET: old})), None)).held_seconds == 700, "no older than its process"


def test_states_of_a_resource() -> None:
    dead = ticket(locked=False, identity_alive=False)
    cases = {
        "free": view(token=None, tickets=(), records={}),
        "held": view(),
        "ending": view(records={TICKET: record(state="ending")}),
        "ghost": view(tickets=(dead,), token=token(dead)),
        "unknown": view(token=None, tickets=(), records={}, problems=("/var/state: permission denied",)),
    }
    for state, queue in cases.items():
        assert gpu(build(raw(queue), None)).state == state
    far = ticket(locked=False, identity_alive=None, host="elsewhere")
    assert gpu(build(raw(view(tickets=(far,), token=token(far))), None)).state == "unknown"


def test_a_state_that_does_not_answer_is_unknown() -> None:
    resource = gpu(build(raw(looks_why="the state has not answered for 9 s"), None))
    assert (resource.state, resource.problems) == ("unknown", ("the state has not answered for 9 s",))


def test_a_place_that_does_not_resolve() -> None:
    snapshot = build(raw(looks=(Look("gpu", None, "HOME is not set"),)), None)
    assert (gpu(snapshot).state, gpu(snapshot).problems) == ("unknown", ("HOME is not set",))
    assert snapshot.memory.payload_bytes is None
    assert [flag.kind for flag in snapshot.flags] == [], "nobody is called a stray while no payload is known"


def test_a_shell_holder_and_its_tree() -> None:
    shell = token(kind="shell", pid=400, ticket=None, ticket_id=None, nonce=None, locked=None, lane="night")
    snapshot = build(raw(view(tickets=(), token=shell, records={})), None)
    running = holder(snapshot)
    assert (running.kind, running.id, running.lane, running.held_seconds) == (
        "shell",
        "/var/state/gpu-token",
        "night",
        300,
    )
    assert 502 in {process.pid for process in payload(snapshot).processes}


def test_a_garbled_token_is_held_by_nobody_known() -> None:
    empty = token(kind="garbled", ticket=None, ticket_id=None, nonce=None, why="it is empty")
    resource = gpu(build(raw(view(tickets=(), token=empty, records={})), None))
    assert (resource.state, resource.holder) == ("held", None)


def test_entries_that_are_no_tickets() -> None:
    entries = (QueueEntry("17.lane", 321, "not a ticket", True), QueueEntry("0000000001-7", None, "cut short", False))
    dead = ticket(602, 14, locked=False, identity_alive=False)
    resource = gpu(build(raw(view(entries=entries, tickets=(ticket(), dead))), None))
    assert [(entry.name, entry.pid) for entry in resource.foreign] == [("17.lane", 321)]
    assert [bad.name for bad in resource.not_tickets] == ["0000000001-7", dead.id]
    assert resource.waiting == (), "the dead do not wait"


def test_being_ended_by() -> None:
    assert holder(build(raw(view(stops={TICKET: "carol"})), None)).being_ended_by == "carol"
    assert holder(build(raw(view(claims={TICKET: "dave"}, stops={TICKET: "carol"})), None)).being_ended_by == "dave"


def test_a_ring_of_parents_ends() -> None:
    ring = table(stat(502, 503), stat(503, 502, "worker"))
    assert {process.pid for process in payload(build(raw(table=ring), None)).processes} == {502, 503}


def test_details_are_wanted_of_all_that_is_shown() -> None:
    pids = {pid for pid, _ in wanted(raw(view(survivors=(views.survivors((800, 800)),))))}
    assert pids == {502, 503, 700, 800}


def test_a_user_whose_pid_is_another_process_by_now() -> None:
    gone = Uses({800: replace(user(800, 9 * GIB), start_ticks=3)}, frozenset(), 1000.0)
    assert build(raw(uses=gone), None).leftovers == ()


def test_pools_are_never_added() -> None:
    """96 GiB of carve-out beside 15 GiB of GTT: VRAM is the pool, and headroom is of it alone."""
    carve_out = views.readings(
        gtt_used_bytes=GIB, gtt_total_bytes=15 * GIB, vram_used_bytes=90 * GIB, vram_total_bytes=96 * GIB
    )
    card = replace(views.CARD, readings=carve_out)
    memory = build(raw(devices=(card,), uses=uses()), None).memory
    assert (memory.headroom_bytes, memory.unattributed_bytes) == (6 * GIB, 90 * GIB)


def test_a_missing_reading_has_a_reason() -> None:
    snapshot = build(raw(devices=(), host_readings={}), None)
    assert {(r.value, r.why) for r in snapshot.readings.values()} == {(None, "no AMD GPU was found")}
    assert snapshot.taken_at == at("12:00:00")


def test_without_a_process_table_no_tree_is_known() -> None:
    snapshot = build(raw(table=None), None)
    assert (gpu(snapshot).state, holder(snapshot).payload) == ("held", None)
    assert snapshot.memory.payload_bytes is None
    assert [flag.kind for flag in snapshot.flags] == []


@given(st.lists(st.text("ab/=,. \t\n'\"\\#$é\x00", max_size=6), max_size=4).map(" ".join))
@example("a'b' c")
@example('a" "b')
@example("a\\ b")
def test_a_command_splits_as_a_shell_would(command: str) -> None:
    try:
        right = tuple(shlex.split(command))
    except ValueError:
        right = (command,)
    assert split_command(command) == right
