"""How a ticket may be named, and that what could not be read is never said to be gone."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from holdtop.errors import GoneError, RefusedError, UsageError
from holdtop.model.build import build
from holdtop.model.values import Snapshot
from holdtop.operator.select import find_ticket
from tests.hold.lanes import Box
from tests.reading import views

HOLDER, WAITER = "0000000012-500", "0000000013-600"


def snapshot() -> Snapshot:
    return build(views.raw(), None)


@pytest.mark.parametrize(
    "named", [HOLDER, "0000000012", "12", "500", "lane12", "-500", "2-500", "0000000012-", "0000000012-5"]
)
def test_what_names_a_ticket(named: str) -> None:
    assert find_ticket(snapshot(), named) == HOLDER


@pytest.mark.parametrize("named", ["0", "00", "000", "2", "1", "50", "", "500 ", "0000000012-6", "ne12"])
def test_what_names_none(named: str) -> None:
    with pytest.raises(GoneError, match="ended, or mistyped"):
        find_ticket(snapshot(), named)


def test_a_part_of_two_is_neither() -> None:
    with pytest.raises(UsageError, match=f"{HOLDER}, {WAITER}"):
        find_ticket(snapshot(), "00000000")


@pytest.mark.parametrize("named", ["12", "500", "lane12", "2-500"])
def test_a_running_ticket_is_evicted_by_its_whole_id_only(named: str) -> None:
    with pytest.raises(RefusedError, match=f"{HOLDER} is running"):
        find_ticket(snapshot(), named, evict=True)
    assert find_ticket(snapshot(), HOLDER, evict=True) == HOLDER
    assert find_ticket(snapshot(), "13", evict=True) == WAITER


def test_what_could_not_be_read_is_not_gone() -> None:
    look = views.raw(replace(views.view(tickets=(), token=None, records={}), problems=("/q: Permission denied",)))
    with pytest.raises(RefusedError, match="/q: Permission denied"):
        find_ticket(build(look, None), HOLDER)


@pytest.mark.parametrize("words", [("kill", "7"), ("kill", "--pid", "{pid}"), ("evict", "lane7"), ("recover",)])
def test_a_state_that_cannot_be_read_is_a_refusal_naming_the_path(
    state: Box, bystander: subprocess.Popen[bytes], words: tuple[str, ...]
) -> None:
    state.queue.write_text("no directory")
    state.token.mkdir()
    done = state.verb(*(word.format(pid=bystander.pid) for word in words), "--reason", "r", "--yes")
    assert done.returncode == 6, done
    assert str(state.state) in done.stderr
    assert "gone" not in done.stderr
    assert bystander.poll() is None
