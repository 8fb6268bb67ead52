"""Where a payload is put, what that catches, and what is in force when it cannot be had."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdtop.hold import record, recovery
from holdtop.hold import ticket as tickets
from holdtop.hold.files import Dir
from holdtop.hold.view import Record, RecordedCgroup
from holdtop.payload.cgroup import Cgroup
from holdtop.payload.containment import NoScopes, prepare
from holdtop.payload.launch import unprotect
from tests.hold.groups import frozen, group, holdtops_in, inside
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, kill_both, sleepers, until
from tests.hold.test_accounts import ONE, as_account, said, shared

__all__ = ["shared"]

#: Leaves the tree, clears its environment, renames itself and ignores what can be ignored.
ESCAPEE = f"env -i setsid -f bash -c 'trap \"\" TERM; exec -a kworker/u8:3 sleep {NAP}'"
#: Each link is a new session and a new process; only something atomic, or the kernel's own word, ends it.
CHAIN = """
import os, sys, time
while True:
    time.sleep(float(sys.argv[1]))
    if os.fork():
        os._exit(0)
    os.setsid()
"""


def test_a_payload_lives_in_a_cgroup_below_the_holds_own(state: Box, home: Cgroup) -> None:
    lane = state.run("sleep", NAP, **inside(home))
    started = state.until_running()
    (name,) = holdtops_in(home)
    below = Cgroup(f"{home.path}/{name}", f"{home.directory}/{name}")
    assert below.procs() == {started["root_pid"]}
    assert home.procs() == {lane.pid, started["keeper_pid"], started["root_pid"]}
    published = json.loads((state.queue / ".record" / f"{started['ticket']}.json").read_text())
    assert published["containment"] == ["cgroup", "subreaper", "marker"]
    assert published["cgroups"] == [{"path": below.path, "inode": below.inode(), "sole": True}]
    lane.terminate()
    assert ended(lane)[0] == 143
    assert holdtops_in(home) == []


@pytest.mark.parametrize("contain", ["cgroup", "subreaper"])
@pytest.mark.parametrize("pause", ["0.0002", "0.002", "0.02"])
def test_a_chain_of_forks_faster_than_a_scan_ends(state: Box, home: Cgroup, contain: str, pause: str) -> None:
    own_python = [sys.executable, "-c", CHAIN, pause]
    lane = state.run(*own_python, options=["--grace", "0", "--contain", contain], **inside(home))
    assert ended(lane)[0] == 0
    assert home.procs() == set()
    (receipt,) = state.receipts()
    assert receipt["verdict"] == "clean"


def test_groups_that_the_payload_makes_are_emptied_and_removed(state: Box, home: Cgroup) -> None:
    script = f"""
        here={home.directory}/$(basename $(sed -n 's/^0:://p' /proc/self/cgroup))
        mkdir -p "$here/one/two"; setsid -f sh -c "echo \\$\\$ > $here/one/two/cgroup.procs; exec sleep {NAP}"
        while [ -z "$(cat $here/one/two/cgroup.procs)" ]; do sleep 0.01; done"""
    assert ended(state.run("sh", "-c", script, **inside(home)))[0] == 0
    assert sleepers() == []
    assert holdtops_in(home) == []


@pytest.mark.parametrize("frozen_by_itself", [False, True])
def test_a_payload_that_leaves_its_cgroup_ends_all_the_same(state: Box, home: Cgroup, frozen_by_itself: bool) -> None:
    """Root's payload may move itself anywhere; a group it moved to has to be empty before anything is proven."""
    with group() as elsewhere:
        move = f"echo $$ > {elsewhere.directory}/cgroup.procs"
        freeze = f"(sleep 0.2; echo 1 > {elsewhere.directory}/cgroup.freeze) &" if frozen_by_itself else ""
        lane = state.run("sh", "-c", f"{move}; {freeze} exec sleep {NAP}", options=["--grace", "1"], **inside(home))
        until(lambda: elsewhere.procs() and sleepers())
        until(lambda: not frozen_by_itself or frozen(elsewhere))
        lane.terminate()
        assert ended(lane)[0] == 143
        assert sleepers() == []
        end = next(event for event in state.events() if event["event"] == "ended")
        assert end["proof"] == "ECHILD, populated 0"


def test_a_stranger_in_a_cgroup_where_a_member_went_is_left_alone_and_denies_the_proof(
    state: Box, home: Cgroup
) -> None:
    with group() as elsewhere, subprocess.Popen(["sleep", "600"], **inside(elsewhere)) as stranger:
        move = f"echo $$ > {elsewhere.directory}/cgroup.procs; exec sleep {NAP}"
        lane = state.run("sh", "-c", move, options=["--contain", "subreaper"], **inside(home))
        until(lambda: len(elsewhere.procs()) == 2)
        lane.terminate()
        assert ended(lane)[0] == 143
        assert sleepers() == []
        assert stranger.poll() is None
        (receipt,) = state.receipts()
        assert (receipt["proof"], receipt["verdict"]) == (None, "unknown")
        stranger.kill()


def test_a_stranger_that_cannot_be_seen_is_left_alone_as_well(state: Box, home: Cgroup) -> None:
    """From inside a pid namespace, whoever lives outside of it is a 0 in the cgroup where a member went."""
    hidden = ["unshare", "-pf", "--mount-proc", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh"]
    with group() as elsewhere, subprocess.Popen(["sleep", NAP], **inside(elsewhere)) as stranger:
        deaf = f"trap '' TERM; echo 0 > {elsewhere.directory}/cgroup.procs; exec sleep 600"
        run = [*HOLDTOP, "run", "--state-dir", str(state.state), "--max-hold", "3", "--grace", "1", "--"]
        outer = subprocess.run(
            [*hidden, *run, "sh", "-c", deaf], capture_output=True, timeout=30, check=False, **inside(home)
        )
        survived = stranger.poll() is None
        stranger.kill()
    assert outer.returncode == 124, outer.stderr
    assert survived


def test_a_frozen_payload_is_thawed_to_hear_term(state: Box, home: Cgroup, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    script = f"trap 'echo > {heard}; exit 5' TERM; echo > {tmp_path}/ready; while :; do sleep 0.05; done"
    lane = state.run("sh", "-c", script, **inside(home))
    until((tmp_path / "ready").exists)
    (name,) = holdtops_in(home)
    below = Cgroup(name, f"{home.directory}/{name}")
    below.freeze(True)
    until(lambda: frozen(below))
    lane.terminate()
    assert ended(lane)[0] == 143
    assert heard.exists()


def test_what_a_doubly_killed_hold_left_is_known_by_its_cgroup(state: Box, home: Cgroup) -> None:
    """A daemon without environment, made after the last record was written, is nobody's without it."""
    lane = state.run("sh", "-c", f"{ESCAPEE}; exec sleep 600", stderr=subprocess.DEVNULL, **inside(home))
    started = state.until_running()
    until(sleepers)
    kill_both(lane, started["keeper_pid"])
    (escapee,) = sleepers()
    holder = json.loads(state.verb("status", "--json").stdout)["resources"][0]["holder"]
    assert holder["containment"] == ["cgroup", "subreaper", "marker"]
    ways = {process["pid"]: process["found_by"] for process in holder["payload"]["processes"]}
    assert ways[escapee] == "cgroup"
    status, errors = ended(state.run("true", options=["--grace", "0.3"], **inside(home)))
    assert (status, sleepers()) == (0, [])
    assert "took over the stale token" in errors
    assert home.procs() == set()
    assert holdtops_in(home) == []
    assert state.leftovers() == []


def test_a_threaded_cgroup_lists_its_processes_as_well() -> None:
    """Below a domain of its own, since it has to be empty when it becomes threaded; here that is the root."""
    root = Cgroup.at("/")
    if root is None or not root.writable:
        pytest.skip("needs root: makes a threaded cgroup")
    made = root.make(f"test-threaded-{os.getpid()}")
    try:
        Path(f"{made.directory}/cgroup.type").write_text("threaded")
        with subprocess.Popen(["sleep", NAP], **inside(made)) as sleeper:
            assert made.procs() == {sleeper.pid}
            sleeper.kill()
    finally:
        until(lambda: not made.populated())
        made.remove()


def test_empty_cgroups_of_killed_holds_are_swept_and_living_ones_are_not(home: Cgroup) -> None:
    dead, empty_part = home.make("holdtop-dead"), home.make("holdtop-alive")
    part = empty_part.make("a-part-of-it")
    with subprocess.Popen(["sleep", "600"], **inside(empty_part)) as sleeper:
        program = "from holdtop.payload.containment import *; prepare('auto', 'next', NoScopes())"
        subprocess.run([sys.executable, "-c", program], check=True, **inside(home))
        assert not os.path.exists(dead.directory)
        assert os.path.exists(part.directory)
        sleeper.kill()


def test_a_cgroup_swept_away_while_it_was_empty_is_made_again(home: Cgroup) -> None:
    place = prepare("cgroup", f"test-{os.getpid()}", NoScopes())
    assert place.cgroup
    place.cgroup.remove()
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        place.put(sleeper.pid)
        assert place.cgroup.procs() == {sleeper.pid}
        sleeper.kill()
    place.remove()
    assert not os.path.exists(place.cgroup.directory)


def test_no_record_of_another_author_or_of_another_cgroup_is_believed(tmp_path: Path, home: Cgroup) -> None:
    lines = tickets.describe(tickets.Wish("gpu", "lane", "cmd"), sequence=1)
    ticket = tickets.parse(tickets.encode(lines), uid=os.getuid(), name=lines["id"], locked=False)

    def believed(uid: int, inode: int, path: str = home.path, sole: bool = True) -> tuple[Cgroup, ...]:
        said = RecordedCgroup(path, inode, sole)
        told = Record(ticket.id, ticket.nonce, uid, "running", 1, 2, 3, None, None, {}, (), (), None, (said,))
        return recovery.recorded_cgroups(told, ticket)

    assert believed(os.getuid(), home.inode()) == (home,)
    assert believed(os.getuid() + 1, home.inode()) == ()
    assert believed(os.getuid(), home.inode() + 1) == ()
    assert believed(os.getuid(), home.inode(), f"/nowhere/..{home.path}") == ()
    assert believed(os.getuid(), home.inode(), sole=False) == ()
    os.chown(home.directory, ONE, -1)
    assert believed(os.getuid(), home.inode()) == (), "what its owner alone may kill is not the author's to name"


@pytest.mark.parametrize(
    "text", ['[{"path": 5, "inode": 1}]', '[{"path": "x/y", "inode": 1}]', "7", '[{"path": "/\\u0000"}]']
)
def test_cgroups_that_cannot_be_are_dropped(state: Box, text: str) -> None:
    (state.queue / ".record").mkdir(parents=True)
    path = state.queue / ".record" / "0000000001-77.json"
    path.write_text(f'{{"ticket": "0000000001-77", "cgroups": {text}}}')
    with Dir.root(str(state.queue)) as queue:
        found = record.read(queue, "0000000001-77")
    assert found
    assert found.cgroups == ()


@pytest.mark.parametrize("delegated", [True, False])
def test_an_ordinary_account_has_what_was_delegated_to_it(shared: Box, delegated: bool) -> None:
    with group(ONE if delegated else None) as place:
        lane = as_account(ONE, shared, "run", "--contain", "cgroup", "--", "sleep", NAP, **inside(place))
        if delegated:
            started = shared.until_running()
            published = json.loads((shared.queue / ".record" / f"{started['ticket']}.json").read_text())
            assert published["containment"][0] == "cgroup"
            lane.terminate()
        status, errors = said(lane)
    assert status == (143 if delegated else 125)
    assert delegated or ("--contain cgroup" in errors and "Delegate=yes" in errors and "not run" in errors)
    assert sleepers() == []
    assert shared.leftovers() == []


def test_without_delegation_auto_says_what_is_in_force(shared: Box) -> None:
    with group() as place:
        lane = as_account(ONE, shared, "run", "--", "true", **inside(place))
        status, errors = said(lane)
    assert status == 0
    assert "containment subreaper, marker" in errors


def test_a_place_that_refuses_at_the_start_runs_nothing_or_says_so(state: Box, home: Cgroup) -> None:
    """A group that takes no process is no reason to run uncontained when a cgroup was asked for."""
    place = prepare("cgroup", f"refuses-{os.getpid()}", NoScopes())
    assert place.cgroup
    Path(place.cgroup.directory).rmdir()
    place.cgroup = Cgroup("/gone", "/proc/nowhere")
    with pytest.raises(OSError, match="No such file"):
        place.put(os.getpid())
    place.mode, place.cgroup = "auto", Cgroup("/gone", "/proc/nowhere")
    place.put(os.getpid())
    assert place.why
    assert place.means == ("subreaper", "marker")


def test_a_score_of_the_starters_own_stays_and_protection_goes(state: Box, tmp_path: Path) -> None:
    lane = state.run("cat", "/proc/self/oom_score_adj", stdout=subprocess.PIPE, preexec_fn=lambda: _score("300"))
    assert lane.communicate()[0] == b"300\n"
    fake = tmp_path / "77"
    fake.mkdir()
    for before, after in (("-900\n", "0"), ("-1\n", "0"), ("0\n", "0\n"), ("300\n", "300\n")):
        (fake / "oom_score_adj").write_text(before)
        assert unprotect(77, str(tmp_path)) is None
        assert (fake / "oom_score_adj").read_text() == after
    assert "oom_score_adj" in (unprotect(78, str(tmp_path)) or "")


def _score(score: str) -> None:
    Path("/proc/self/oom_score_adj").write_text(score)
