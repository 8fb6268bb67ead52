"""What is expected of a waiting ticket: from the receipts of its lane's holds, and nothing without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.hold.view import QueueView
from holdtop.model import past
from holdtop.model.build import build
from holdtop.model.lanes import lanes
from holdtop.model.past import Archive, Past, Run, run_of
from holdtop.model.values import Snapshot, Ticket
from tests.reading.views import GIB, at, raw, record, ticket, uses, view

COMMAND = ("python3", "train.py", "--name", "a b")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def receipt(number: int, lane: str, seconds: object, peak: object = None, **more: object) -> dict[str, object]:
    said = {"ticket": f"{number:010d}-9", "lane": lane, "held_seconds": seconds, "memory": {"peak_bytes": peak}}
    return {"command": "python3 train.py --name 'a b'", **said, **more}


def waiting(receipts: Sequence[Mapping[str, object]], seen: QueueView | None = None) -> list[Ticket]:
    seen = seen or view(records={ticket().id: record(deadline_at=None)})
    snapshot: Snapshot = build(raw(replace(seen, receipts=tuple(receipts)), uses=uses()), None)
    return list(snapshot.resources[0].waiting)


def starts(tickets: list[Ticket]) -> list[tuple[str, str] | None]:
    return [(t.expected_start.low[11:19], t.expected_start.high[11:19]) if t.expected_start else None for t in tickets]


# At 12:00 ``lane12`` holds since 11:55, and lanes 13 and 14 wait (``views.view``).
HOLDER = [receipt(n, "lane12", seconds) for n, seconds in enumerate((200, 420, 600))]
NEXT = [receipt(10 + n, "lane13", seconds, n * GIB) for n, seconds in enumerate((60, 120, 60))]


def test_without_a_past_nothing_is_expected() -> None:
    first, *_ = waiting([])
    assert (first.expected_start, first.will_it_fit) == (None, None)
    first, *_ = waiting([*HOLDER[:2], *NEXT])
    assert first.expected_start is None, "two say nothing"


def test_a_range_of_what_was_seen() -> None:
    tickets = waiting([*HOLDER, *NEXT])
    # The holder's 300 s are more than the shortest of its past; the next one's own past follows.
    assert starts(tickets)[:1] == [("12:02:00", "12:05:00")]


def test_each_waits_for_all_before_it() -> None:
    seen = view(tickets=(ticket(), ticket(600, 13), ticket(601, 14)))
    assert starts(waiting([*HOLDER, *NEXT], seen)) == [("12:02:00", "12:05:00"), ("12:03:00", "12:07:00")]
    assert starts(waiting(HOLDER, seen)) == [("12:02:00", "12:05:00"), None], "of lane13 nothing is known"


def test_a_deadline_bounds_what_nobody_knows() -> None:
    seen = view(records={ticket().id: record(deadline_at=at("12:10:00"))})
    assert starts(waiting([], seen))[:1] == [("12:00:00", "12:10:00")]
    early = view(records={ticket().id: record(deadline_at=at("12:03:00"))})
    assert starts(waiting(HOLDER, early))[:1] == [("12:02:00", "12:03:00")]


def test_a_limit_bounds_a_hold_that_has_not_begun() -> None:
    limited = ticket(600, 13, limits={"max-hold": "5m"})
    seen = view(tickets=(ticket(), limited, ticket(601, 14)))
    assert starts(waiting(HOLDER, seen)) == [("12:02:00", "12:05:00"), ("12:02:00", "12:10:00")]
    long = [receipt(20 + n, "lane13", 7200) for n in range(3)]
    assert starts(waiting([*HOLDER, *long], seen))[1] == ("12:07:00", "12:10:00"), "its limit ends it"


def test_a_hold_beyond_all_its_past_has_no_end_to_expect() -> None:
    assert starts(waiting([receipt(n, "lane12", 10) for n in range(5)]))[:1] == [None]


def test_will_it_fit_is_the_largest_peak_against_what_comes_free() -> None:
    first, *_ = waiting([*HOLDER, *NEXT])
    assert first.will_it_fit is not None
    assert first.will_it_fit.need_bytes == 2 * GIB
    whole = build(raw(view(), uses=uses()), None).memory
    assert whole.headroom_bytes is not None
    assert whole.payload_bytes is not None
    assert first.will_it_fit.headroom_bytes == whole.headroom_bytes + whole.payload_bytes
    assert first.will_it_fit.fits is True
    huge = [receipt(30, "lane13", 60, 500 * GIB)]
    [fit, *_] = [one.will_it_fit for one in waiting([*HOLDER, *huge])]
    assert fit is not None
    assert fit.fits is False


def test_the_same_command_counts_before_the_lane() -> None:
    others = [receipt(n, "a", 1000, command="make test") for n in range(9)]
    alike = [receipt(20 + n, "a", 60) for n in range(3)]
    assert Archive([*others, *alike]).past("a", COMMAND).seconds == (60, 60, 60)
    assert Archive([*others, *alike[:2]]).past("a", COMMAND).seconds == (*[1000] * 9, 60, 60)


@pytest.mark.parametrize("odd", [-1, 1e300, float("nan"), float("inf"), True, "60", None, [60]])
def test_an_odd_number_counts_for_nothing(odd: object) -> None:
    assert Archive([receipt(1, "a", odd, odd)]).past("a", COMMAND) == Archive([]).past("a", COMMAND)


@given(st.lists(st.dictionaries(st.sampled_from(["ticket", "lane", "command", "held_seconds", "memory"]), JSON)))
def test_any_receipts(receipts: list[Any]) -> None:
    for said in (receipts, [{**one, "lane": "lane13"} for one in receipts]):
        one = Archive(said).past("lane13", ())
        assert all(isinstance(value, float | int) for value in (*one.seconds, *one.peaks))
        lanes(Archive(said))
    waiting([*receipts, *({**said, "lane": "lane12"} for said in receipts)])


def test_the_payloads_own_peak_counts_before_what_the_level_rose_by() -> None:
    """A hold beside a stray of 14 GiB was said to need all that the level rose by."""
    own, level = {"peak_bytes": 41 * GIB, "peak_source": "payload"}, {"peak_bytes": 55 * GIB, "peak_source": "level"}
    both = [receipt(n, "a", 60, memory=memory) for n, memory in enumerate((level, own, level))]
    assert Archive(both).past("a", COMMAND) == Past((60, 60, 60), (41 * GIB,), "payload")
    unsaid = Archive([both[0], receipt(3, "a", 60, 56 * GIB)]).past("a", COMMAND)
    assert unsaid == Past((60, 60), (55 * GIB, 56 * GIB), "level"), "older receipts do not say whose"
    first, *_ = waiting([{**one, "lane": "lane13"} for one in both])
    assert first.will_it_fit is not None
    assert (first.will_it_fit.need_bytes, first.will_it_fit.need_source) == (41 * GIB, "payload")


def test_a_lanes_figures_are_values_that_were_seen() -> None:
    runs = [receipt(n, "a", n, n * GIB, waited_seconds=10 * n, command=f"make {n % 2}") for n in range(1, 11)]
    other = receipt(11, "b", None, reason="max-hold", status=124, verdict="clean")
    b, a = lanes(Archive([*runs, other]))
    assert (b.name, b.whole.runs, b.whole.held_median_seconds, b.whole.peak_bytes) == ("b", 1, None, None)
    assert (b.whole.last.reason, b.whole.last.status) == ("max-hold", 124)
    assert (a.whole.runs, a.whole.held_median_seconds, a.whole.held_p90_seconds) == (10, 5, 9)
    assert (a.whole.waited_median_seconds, a.whole.waited_p90_seconds) == (50, 90)
    assert (a.whole.peak_bytes, a.whole.peak_source) == (10 * GIB, "level")
    assert [(command, some.runs, some.last.ticket) for command, some in a.commands.items()] == [
        ("make 0", 5, "0000000010-9"),
        ("make 1", 5, "0000000009-9"),
    ]


def test_receipts_are_gone_through_once_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each waiting ticket went through all of them."""
    parsed: list[Mapping[str, object]] = []

    def counted(said: Mapping[str, object]) -> Run:
        parsed.append(said)
        return run_of(said)

    monkeypatch.setattr(past, "run_of", counted)
    crowd = view(tickets=(ticket(), *(ticket(600 + n, 13 + n % 5) for n in range(500))))
    assert len(waiting([*HOLDER, *NEXT], crowd)) == 500
    assert len(parsed) == len([*HOLDER, *NEXT])
