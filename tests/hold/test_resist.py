"""Ends that resist: what KILL does not end blocks for the bound, and is told to everybody until it is dead."""

from __future__ import annotations

import contextlib
import datetime
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.process import Identity, is_alive, read_stat
from tests.hold.lanes import NAP, Box, ended, identity, kill_both, until
from tests.hold.unkillable import Freezer, freezer, frozen_files

STEADY = ("--grace", "0.5", "--survive-wait", "1.5")


def flags(state: Box) -> dict[str, tuple[str, list[int]]]:
    """What ``holdtop status`` flags: kind -> severity and pids."""
    said = json.loads(state.verb("status", "-r", "gpu", "--json").stdout)
    return {flag["kind"]: (flag["severity"], flag["pids"]) for flag in said["flags"]}


def recorded(state: Box) -> list[int]:
    """Pids of the lasting records."""
    return [process["pid"] for one in state.documents(".survivors") for process in one["processes"]]


def at(event: dict[str, Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(event["at"])


@contextlib.contextmanager
def survivor(state: Box, *options: str) -> Iterator[tuple[Freezer, Identity]]:
    """A hold that is over, and a frozen process of it that KILL did not end."""
    with freezer() as ice:
        lane = state.run("sleep", NAP, options=[*STEADY, "--lane", "first", *options], stderr=subprocess.DEVNULL)
        root = identity(state.until_running()["root_pid"])
        ice.freeze(root.pid)
        lane.terminate()
        assert lane.wait(20) == 143
        yield ice, root


def test_what_kill_cannot_end_blocks_for_the_bound_and_is_told_until_the_thaw(state: Box) -> None:
    with survivor(state) as (ice, root):
        assert is_alive(root)
        stat = read_stat(root.pid)
        assert stat
        assert stat.state == "D"
        ending, ended_, released = (
            next(e for e in state.events() if e["event"] == name) for name in ("ending", "ended", "released")
        )
        assert (at(released) - at(ending)).total_seconds() >= 2.0 - 0.001, "grace and survive wait"
        assert [(left["pid"], left["why"]) for left in ended_["left"]] == [(root.pid, "unkillable")]
        assert ended_["status"] == 143, "a status is never changed by survivors"
        assert state.leftovers() == [], "the token went after the bound"
        assert recorded(state) == [root.pid]
        both = flags(state)
        assert both["survivor"] == both["unkillable"] == ("critical", [root.pid])
        for lane in ("second", "third"):
            status, errors = ended(state.run("true", options=["--lane", lane]))
            assert status == 0
            assert f"::warning::previous holder left pid={root.pid} " in errors, f"{lane} is not told"
            assert errors.count("previous holder left") == 1
        ice.thaw()
        until(lambda: not is_alive(root))
        assert not {"survivor", "unkillable"} & flags(state).keys()
    status, errors = ended(state.run("true"))
    assert status == 0
    assert "previous holder" not in errors
    assert recorded(state) == []


def test_a_sleep_in_the_kernel_is_bounded_as_well(state: Box, tmp_path: Path) -> None:
    with frozen_files(tmp_path) as files:
        lane = state.run("touch", f"{files.path}/x", options=[*STEADY, "--max-hold", "1"], stderr=subprocess.DEVNULL)
        root = identity(state.until_running()["root_pid"])
        assert lane.wait(20) == 124
        stat = read_stat(root.pid)
        assert stat
        assert stat.identity == root
        assert stat.state == "D"
        assert flags(state)["unkillable"] == ("critical", [root.pid])
        killed = state.verb("kill", "--pid", str(root.pid), "--yes", "--reason", "again", "--grace", "0.2")
        assert killed.returncode == 5, "it returns, and says that something is left"
        assert f"pid {root.pid}: left" in killed.stderr
        files.thaw()
        until(lambda: not is_alive(root))
        assert not {"survivor", "unkillable"} & flags(state).keys()


def test_a_taker_may_refuse_while_a_survivor_lives(state: Box, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    refuse = ["--after-survivor", "refuse"]
    with survivor(state) as (ice, root):
        released = next(e for e in state.events() if e["event"] == "released")
        status, errors = ended(state.run("touch", str(ran), options=refuse))
        assert status == 125
        for part in (str(root.pid), "lane first", "holdtop kill --pid", "--after-survivor warn", "not run"):
            assert part in errors
        told = re.search(r"whose token went at (\S+),", errors)
        assert told
        between = at({"at": told[1]}) - at(released)
        assert abs(between.total_seconds()) < 60
        assert not ran.exists()
        assert state.leftovers() == []
        assert not any(e["event"] == "taken" for e in state.events() if e["ticket"] != released["ticket"])
        ice.thaw()
        until(lambda: not is_alive(root))
    assert ended(state.run("touch", str(ran), options=refuse))[0] == 0
    assert ran.exists()


def test_a_taker_may_wait_for_a_survivors_death(state: Box, tmp_path: Path) -> None:
    order = tmp_path / "order"
    with survivor(state) as (ice, root):
        status, errors = ended(state.run("true", options=["--after-survivor", "wait", "-w", "1.5"]))
        assert status == 121
        assert f"-w limit is over: pids [{root.pid}] of lane first" in errors
        waiters = []
        for name in ("one", "two"):
            options = ["--after-survivor", "wait", "--lane", name]
            waiters.append(state.run("sh", "-c", f"echo {name} >> {order}", options=options))
            until(lambda name=name: any(f"-{waiters[-1].pid}" in ticket for ticket in state.tickets()))  # type: ignore[misc]
        passing, errors = ended(state.run("true"))
        assert passing == 0, "whoever does not wait for the survivor goes first after a while"
        assert "going first" in errors
        # That was longer than a head that does not take is waited for.
        assert not order.exists()
        assert not any(e["event"] == "taken" for e in state.events() if e["ticket"] in state.tickets())
        ice.thaw()
        until(lambda: not is_alive(root))
        said = [ended(waiter) for waiter in waiters]
    assert [status for status, _ in said] == [0, 0]
    assert order.read_text().split() == ["one", "two"]
    assert "going first" not in said[1][1], "of two that wait for the survivor none is ahead of its turn"
    assert said[0][1].count(f"waiting until they are dead: pids [{root.pid}] of lane first") == 1
    assert state.leftovers() == []


@pytest.mark.parametrize("policy", ["wait", "refuse"])
def test_a_ghosts_unkillable_leftover_counts_as_a_survivor(state: Box, policy: str) -> None:
    """It is recorded and the ghost freed, once; then the free token is decided about."""
    with freezer() as ice:
        lane = state.run("sleep", NAP, stderr=subprocess.DEVNULL)
        started = state.until_running()
        root = identity(started["root_pid"])
        ice.freeze(root.pid)
        kill_both(lane, started["keeper_pid"])
        options = [*STEADY, "--after-survivor", policy, "-w", "8"]
        status, errors = ended(state.run("true", options=options))
        assert status == (121 if policy == "wait" else 125)
        assert f"pids [{root.pid}]" in errors
        assert state.leftovers() == [], "the ghost's token and ticket are gone"
        assert recorded(state) == [root.pid]
        assert [e["ticket"] for e in state.events() if e["event"] == "recovered"] == [started["ticket"]]
        assert flags(state)["unkillable"] == ("critical", [root.pid])
