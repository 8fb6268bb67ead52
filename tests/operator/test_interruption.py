"""An act that is cut short leaves its two records, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from holdtop.operator import execute, plan_kill
from holdtop.operator.values import Step
from holdtop.payload.process import ProcessTable
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, until
from tests.operator.box import audited, kinds, shown

#: A payload that takes as long as its hold lets it.
DEAF = ("sh", "-c", f"trap '' TERM; sleep {NAP} & wait; wait")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_to_the_verb_leaves_intent_and_outcome(state: Box, number: signal.Signals) -> None:
    lane = state.run(*DEAF, options=["--grace", "3"])
    started = state.until_running()
    words = [*HOLDTOP, "kill", "--state-dir", str(state.state), started["ticket"], "--reason", "r", "--yes"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verb:
        until(lambda: kinds(state) == ["intent"])
        time.sleep(0.2)
        verb.send_signal(number)
        _, errors = verb.communicate(timeout=10)
    assert verb.returncode == 128 + number, errors
    assert "goes on" in errors
    assert kinds(state) == ["intent", "outcome"]
    assert audited(state)[1]["text"].startswith("interrupted: ")
    assert state.verb("audit", "verify").returncode == 0
    assert ended(lane)[0] == 130


CONSOLE = """
import sys, threading, time
from holdtop.operator import execute, plan_kill
from holdtop.sampler import look_once
from holdtop.operator.select import find_ticket
state, lane = sys.argv[1:]
snapshot = look_once(sensors=False, resources=["gpu"], state_dir=state)
plan = plan_kill(snapshot, find_ticket(snapshot, lane), state_dir=state)
asked = threading.Event()
act = lambda: execute(plan, reason="r", progress=lambda step: asked.set())
threading.Thread(target=act, daemon=True).start()
assert asked.wait(10)
"""


def test_a_process_that_leaves_while_its_thread_acts_ends_the_record(state: Box) -> None:
    lane = state.run(*DEAF, options=["--grace", "3", "--lane", "deaf"])
    state.until_running()
    done = subprocess.run([sys.executable, "-c", CONSOLE, str(state.state), "deaf"], check=True, timeout=30)
    assert done.returncode == 0
    assert kinds(state) == ["intent", "outcome"]
    assert audited(state)[1]["text"].startswith("interrupted: ")
    assert ended(lane)[0] == 130


def test_who_stops_listening_does_not_stop_the_act(state: Box) -> None:
    lane = state.run("sleep", NAP)
    started = state.until_running()
    words = [*HOLDTOP, "kill", "--state-dir", str(state.state), started["ticket"], "--reason", "r", "--yes"]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(words, stdout=writer, stderr=writer, check=False, timeout=30)
    os.close(writer)
    assert done.returncode == 0
    assert [(record["kind"], record.get("status")) for record in audited(state)] == [("intent", None), ("outcome", 0)]
    assert ended(lane)[0] == 130


def test_a_part_is_ended_in_the_holds_own_grace_and_claims_no_ticket(state: Box) -> None:
    script = f"sh -c 'trap \"\" TERM; sleep {NAP} & wait; wait' & wait; exit 7"
    lane = state.run("sh", "-c", script, options=["--grace", "1s"])
    root = state.until_running()["root_pid"]
    until(lambda: len(list(ProcessTable().descendants(root))) == 2)
    inner = ProcessTable().children[root][0]
    plan = plan_kill(shown(state), subtree=inner, state_dir=str(state.state))
    claims: list[list[str]] = []

    def look(_step: Step) -> None:
        claims.append(os.listdir(state.queue / ".claim") if (state.queue / ".claim").exists() else [])

    began = time.monotonic()
    assert execute(plan, reason="r", progress=look).status == 0
    assert 0.9 < time.monotonic() - began < 6
    assert claims
    assert not any(claims)
    assert ended(lane)[0] == 7
