"""When it may be somebody's turn and whether it will fit, in words of this place, never as raw instants."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdtop.console.view.expect import fit_words, start_words, why_waiting
from holdtop.console.view.glyphs import UNICODE
from holdtop.console.view.ticket import ticket_lines
from holdtop.model.values import ExpectedStart, WillItFit
from tests.console.boxes import GIB, HOLDER, resource, ticket

#: Two hours ahead of UTC, an evening.
NOW = "2030-01-02T21:00:00+02:00"
GPU = resource("gpu", HOLDER)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        ("2030-01-02T21:05:00+02:00", "2030-01-02T21:40:00+02:00", "in 5m00s to 40m00s, between 21:05 and 21:40"),
        ("2030-01-02T19:05:00+00:00", "2030-01-02T19:40:00+00:00", "in 5m00s to 40m00s, between 21:05 and 21:40"),
        ("2030-01-02T21:00:00+02:00", "2030-01-02T21:40:00+02:00", "at once or within 40m00s, by 21:40"),
        ("2030-01-02T21:40:00+02:00", "2030-01-02T21:40:20+02:00", "in about 40m20s, at 21:40"),
        (
            "2030-01-02T23:00:00+02:00",
            "2030-01-03T01:00:00+02:00",
            "in 2h00m to 4h00m, between 23:00 and tomorrow 01:00",
        ),
        (
            "2030-01-04T21:00:00+02:00",
            "2030-01-05T21:00:00+02:00",
            "in 2d00h to 3d00h, between Fri 21:00 and Sat 21:00",
        ),
        ("2030-01-12T21:00:00+02:00", "2030-02-02T21:00:00+02:00", "in 10d00h to 31d00h, between 12 Jan and 2 Feb"),
        ("2030-01-02T20:00:00+02:00", "2030-01-02T20:50:00+02:00", "at any moment"),
    ],
)
def test_a_range_in_local_words(low: str, high: str, words: str) -> None:
    assert start_words(ticket(1, expected_start=ExpectedStart(low, high)), NOW) == f"its turn may come {words}"


@pytest.mark.parametrize("expected", [None, ExpectedStart("soon", "later"), ExpectedStart("2030-01-02T21:00:00", "")])
def test_no_history_is_said(expected: ExpectedStart | None) -> None:
    assert start_words(ticket(1, expected_start=expected), NOW) == "no history yet to say when"


def test_the_whole_sentence() -> None:
    said = why_waiting(ticket(3, position=3), GPU, "2030-01-02T03:30:00+00:00")
    assert said == (
        "lane-3 waits: nightly-build has held gpu for 1h30m and may for 30m00s more; "
        "2 are ahead of it in line; no history yet to say when."
    )
    late = why_waiting(ticket(3, position=2), GPU, "2030-01-02T05:30:00+00:00")
    assert "has held gpu for 1h30m and is over its time; 1 is ahead of it in line" in late
    unlimited = resource("gpu", replace(HOLDER, deadline_at=None, held_seconds=None))
    assert "nightly-build has held gpu; it is next in line" in why_waiting(ticket(3), unlimited, NOW)
    assert "gpu is ghost and nobody is known to hold it" in why_waiting(
        ticket(3), resource("gpu", None, state="ghost"), NOW
    )


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (None, "Will it fit? No history yet: no hold of its lane has said what it needed."),
        (WillItFit(4 * GIB, 8 * GIB, True), "Yes: its lane has needed up to 4.0 GiB, and 8.0 GiB are free once"),
        (WillItFit(9 * GIB, 8 * GIB, False), "No: its lane has needed up to 9.0 GiB, and 8.0 GiB are free once"),
        (WillItFit(9 * GIB, None, None), "Unknown: its lane has needed up to 9.0 GiB, and how much will be free"),
    ],
)
def test_whether_it_fits(fit: WillItFit | None, words: str) -> None:
    assert words in fit_words(ticket(1, will_it_fit=fit))


def test_a_dead_hold_is_not_said_to_hold() -> None:
    ghost = resource("gpu", HOLDER, state="ghost")
    said = " ".join(span.text for row in ticket_lines(HOLDER, ghost, NOW, 120, UNICODE) for span in row.spans)
    assert "nightly-build took gpu 1h30m ago; its hold is dead and its token remains." in said
    assert "has held" not in said
