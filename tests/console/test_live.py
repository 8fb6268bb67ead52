"""The real program on real holds in a real terminal: four keys, and what the kernel and the disk say afterwards."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.console.terminals import ENTER_SCREEN, Terminal, terminal
from tests.hold.lanes import NAP, Box, ended, sleepers, until

STUBBORN = f"trap '' TERM; (trap '' TERM; sleep {NAP}) & while :; do sleep {NAP}; done"


@pytest.fixture
def lanes(tmp_path: Path) -> Box:
    state = tmp_path / "state"
    state.mkdir(mode=0o2770)
    return Box(state)


@pytest.fixture
def stuck(lanes: Box) -> Iterator[Box]:
    """A lane that does not end by itself, with another one behind it."""
    holder = lanes.run("sh", "-c", STUBBORN, options=("--lane", "stuck-lane", "--grace", "1s"))
    lanes.until_running()
    waiter = lanes.run("true", options=("--lane", "next-lane"))
    until(lambda: len(lanes.tickets()) == 2)
    yield lanes
    for lane in (holder, waiter):
        if lane.poll() is None:
            lane.send_signal(signal.SIGTERM)
        ended(lane)


def audit(lanes: Box) -> list[dict[str, Any]]:
    files = sorted((lanes.queue / ".audit").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def opened(lanes: Box, *options: str) -> Any:
    return terminal("-m", "holdtop", "--state-dir", str(lanes.state), *options)


def shows(screen: Terminal, *words: bytes) -> None:
    screen.until(ENTER_SCREEN, *words)


def test_k_ends_the_tree_and_leaves_two_records(stuck: Box) -> None:
    with opened(stuck) as screen:
        shows(screen, b"stuck-lane", b"next-lane")
        screen.type(b"k")
        screen.until(b"will end")
        screen.type(b"1\x1b[C\r")
        screen.until(b"outcome", seconds=30)
        until(lambda: not sleepers())
        screen.type(b"\r")
        screen.read(0.5)
        screen.type(b"4")
        screen.until(b"all chains whole", b"done:")
        screen.type(b"q")
        assert screen.ended_within(2.0) == 0
    records = audit(stuck)
    assert [record["kind"] for record in records] == ["intent", "outcome"]
    assert {record["reason"] for record in records} == {"stuck"}
    assert [event["status"] for event in stuck.events() if event["event"] == "released"][:1] == [130]
    until(lambda: stuck.tickets() == [] and not stuck.token.exists())


def test_e_evicts_the_waiter_and_touches_nobody_else(stuck: Box) -> None:
    before = sleepers()
    waiting = stuck.tickets()[1]
    with opened(stuck) as screen:
        shows(screen, b"next-lane")
        screen.type(b"j\x1b[B")
        screen.until(b"next-lane waits")
        screen.type(b"e")
        screen.until(b"a reason is required")
        screen.type(b"1\x1b[C\r")
        screen.until(b"outcome", seconds=30)
    until(lambda: waiting not in stuck.tickets())
    assert [record["kind"] for record in audit(stuck)] == ["intent", "outcome"]
    assert sleepers() == before
    assert stuck.token.exists()


def test_the_page_of_a_ticket_follows_its_own_log(lanes: Box, tmp_path: Path) -> None:
    log = tmp_path / "payload.log"
    holder = lanes.run("sh", "-c", f"echo first of it; sleep {NAP}", options=("--lane", "writer", "--log", str(log)))
    lanes.until_running()
    with opened(lanes) as screen:
        shows(screen, b"writer")
        screen.type(b"2")
        screen.until(str(log).encode(), b"first of it")
        with log.open("a") as file:
            file.write("another of it\n")
        screen.until(b"another of it")
        screen.type(b"3\t\x1b[B")  # and it is among the logs
        screen.until(b"payload.log, the newest last")
    holder.send_signal(signal.SIGTERM)
    ended(holder)


def test_read_only_ends_nothing(stuck: Box) -> None:
    before = sleepers()
    with opened(stuck, "--read-only") as screen:
        shows(screen, b"READ-ONLY", b"next-lane")
        screen.type(b"k")
        screen.until(b"read-only: nothing is ended")
        screen.type(b"1\x1b[C\r")
        screen.read(0.5)
    assert sleepers() == before
    assert "outcome" not in [record["kind"] for record in audit(stuck)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_end_of_the_console_touches_a_hold(stuck: Box, number: signal.Signals) -> None:
    before = sleepers()
    with opened(stuck) as screen:
        shows(screen, b"stuck-lane")
        screen.process.send_signal(number)
        screen.ended_within(2.0)
    assert sleepers() == before
    assert len(stuck.tickets()) == 2
    assert stuck.token.exists()


def test_a_bad_start_is_one_line(lanes: Box) -> None:
    for options, said in (
        (("--theme", "drak"), b"did you mean 'dark'?"),
        (("--refresh", "fast"), b"is no duration"),
        (("-r", "GPU"), b"is no resource"),
    ):
        with opened(lanes, *options) as screen:
            assert screen.ended_within(10.0) == 2
            assert said in screen.written
            assert screen.written.count(b"\n") == 1
            assert ENTER_SCREEN not in screen.written


@pytest.mark.parametrize("burst", [b"k\r", b"ex\r", b"stty -a | head -5\r", b"k\r1\r"])
def test_keys_typed_blindly_end_nobody(stuck: Box, burst: bytes) -> None:
    before = sleepers()
    with opened(stuck) as screen:
        shows(screen, b"stuck-lane", b"next-lane")
        screen.type(burst)
        screen.read(1.0)
        screen.type(b"1\r")
        screen.read(1.0)
        assert audit(stuck) == []
    assert sleepers() == before
    assert len(stuck.tickets()) == 2


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_leaving_while_an_act_is_under_way_leaves_its_outcome(stuck: Box, signum: signal.Signals) -> None:
    with opened(stuck) as screen:
        shows(screen, b"stuck-lane", b"next-lane")
        screen.type(b"k")
        screen.until(b"will end")
        screen.type(b"1\x1b[C\r")
        until(lambda: len(audit(stuck)) == 1)
        screen.process.send_signal(signum)
        screen.ended_within(3.0)
    assert [record["kind"] for record in audit(stuck)] == ["intent", "outcome"]
