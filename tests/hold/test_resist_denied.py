"""A member that runs as somebody else in earnest (a set-uid program): never signalled, never forgotten."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from holdtop.payload.process import Identity, is_alive
from tests.hold.lanes import NAP, Box, kill_both, sleepers, until
from tests.hold.test_accounts import ONE, OTHER, as_account, said, shared
from tests.hold.unkillable import finally_ended, set_uid_helper

__all__ = ["shared"]

BOUNDS = ("--grace", "0.5", "--survive-wait", "1.5")


@pytest.fixture
def working(shared: Box, request: pytest.FixtureRequest) -> Iterator[Identity]:
    """A hold of one account is over; of its payload a program of root's works on."""
    pid = shared.state.parent / "pid"
    pid.touch()
    pid.chmod(0o666)
    with set_uid_helper() as as_root:
        # Its pipes are not the hold's: whoever reads those to their end waits for the hold alone.
        # A child of the program's is dead and never reaped.
        program = f"true & echo $$ > {pid}; exec sleep {NAP}"
        script = f"exec >/dev/null 2>&1; {' '.join(as_root)} sh -c '{program}' & sleep {NAP}"
        options, looked_at = request.param
        lane = as_account(ONE, shared, "run", *options, *BOUNDS, "--lane", "one", "--", "sh", "-c", script)
        until(lambda: pid.read_text().endswith("\n"))
        with finally_ended(int(pid.read_text())) as (theirs,):
            if looked_at:
                held = status_of(shared, OTHER)
                assert held["state"] == "held", "the holder lives, whatever signals it may not be sent"
            if not options:
                lane.terminate()
            status, errors = said(lane)
            assert status == (124 if options else 143), "as without it"
            assert "Traceback" not in errors
            assert f"pid {theirs.pid} (sleep, uid 0) may not be signalled by this account" in errors
            assert "the token stays" in errors
            yield theirs
    assert not is_alive(theirs)


def status_of(box: Box, uid: int) -> dict[str, Any]:
    """The resource and its flags, as this account sees them."""
    looking = as_account(uid, box, "status", "-r", "gpu", "--json")
    output, errors = looking.communicate(timeout=30)
    assert looking.returncode in (1, 3), errors
    snapshot = json.loads(output)
    return {**snapshot["resources"][0], "flags": {flag["kind"]: flag for flag in snapshot["flags"]}}


@pytest.mark.parametrize("uid", [ONE, 0, OTHER])
def test_a_ghost_about_which_nothing_can_be_proved(shared: Box, uid: int) -> None:
    """All that is on record of it is dead. Its own account and root free it; any other waits for the bound first."""
    lane = as_account(ONE, shared, "run", "--lane", "one", "--", "sh", "-c", f"exec >/dev/null 2>&1; sleep {NAP}")
    started = shared.until_running()
    with finally_ended(started["root_pid"]) as (root,):
        kill_both(lane, started["keeper_pid"])
    for pid in sleepers():
        os.kill(pid, 9)
    assert not is_alive(root)
    before = time.monotonic()
    status, errors = said(as_account(uid, shared, "run", "--grace", "0.5", "--survive-wait", "3", "--", "true"))
    assert status == 0, errors
    assert "stale token" in errors
    if uid == OTHER:
        assert time.monotonic() - before >= 3
    ghost, own = shared.receipts()
    assert (ghost["ticket"], ghost["reason"], ghost["lane"]) == (started["ticket"], "recovered", "one")
    assert (ghost["verdict"], ghost["proof"], ghost["left"], ghost["released"]) == ("unknown", None, [], True)
    assert f"the last release ({started['ticket']}) was unknown" in errors
    assert own["verdict"] == "clean"
    assert shared.leftovers() == []
    for pipe in (lane.stdout, lane.stderr):
        assert pipe
        pipe.close()


@pytest.mark.parametrize(
    "working",
    [(["--max-hold", "1.5"], False), ([], True), ([], False)],
    indirect=True,
    ids=["max-hold", "TERM", "TERM before the first record"],
)
def test_a_set_uid_member_keeps_the_token_until_its_end(shared: Box, working: Identity) -> None:
    assert is_alive(working)
    assert shared.token.exists()
    (receipt,) = shared.receipts()
    assert (receipt["verdict"], receipt["released"]) == ("dirty", False)
    assert [(left["pid"], left["uid"], left["why"]) for left in receipt["left"]] == [(working.pid, 0, "not permitted")]
    assert any(event["event"] == "kept" for event in shared.events())
    for uid in (ONE, OTHER):
        seen = status_of(shared, uid)
        assert seen["state"] == "ghost", "not free"
        flag = seen["flags"]["ghost"]
        assert (flag["severity"], flag["pids"]) == ("critical", [working.pid])
        assert "root must" in flag["text"]
        assert flag["remedy"].startswith("holdtop recover")
        status, errors = said(as_account(uid, shared, "run", *BOUNDS, "-w", "3", "--", "true"))
        assert status == 121
        assert f"pids [{working.pid}] of the dead hold still run, and only root may end them" in errors
    freed = shared.verb("recover", "--yes", "--reason", "its program still works", "--grace", "0.2")
    assert freed.returncode in (5, 6)
    assert str(working.pid) in freed.stdout + freed.stderr
    assert is_alive(working), "root's powers are not the record's author's"
    os.kill(working.pid, 9)
    until(lambda: not is_alive(working))
    status, errors = said(as_account(OTHER, shared, "run", *BOUNDS, "--", "true"))
    assert status == 0, errors
    assert "stale token" in errors
    assert shared.leftovers() == []
