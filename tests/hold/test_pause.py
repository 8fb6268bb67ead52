"""A hot payload is paused as a whole, goes on when it is cool, and ends in every way that it ends in otherwise."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import read_stat
from tests.hold.groups import frozen, own
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, kill_both, sleepers, until
from tests.hold.sensors import Sensors
from tests.hold.typist import Typist, hold

#: One member that has stopped itself, one in a session of its own, and a root that answers to TERM.
TREE = f"""
trap 'echo heard > "$0"; exit 0' TERM
setsid -f sh -c 'echo $$ > "$0.self"; kill -STOP $$; exec sleep {NAP}' "$0"
setsid -f sleep {NAP}
echo $$ > "$0.root"
sleep {NAP} & wait
"""
HOT, WARM, COOL = 91, 87, 80
PAUSE = ["--tctl-pause", "90"]


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """Our own child, in our group and session, with the command line of a member."""
    process = subprocess.Popen(["sleep", NAP])
    yield process
    process.kill()
    process.wait()


def state_of(pid: int) -> str:
    stat = read_stat(pid)
    return stat.state if stat else "gone"


def group_of(pid: int) -> Cgroup:
    found = Cgroup.of(pid)
    assert found
    return found


class Lane:
    """A hold on the tree above, running."""

    def __init__(self, state: Box, sensors: Sensors, out: Path, contain: str, *options: str) -> None:
        if contain == "cgroup":
            own()
        self.state, self.sensors, self.out = state, sensors, out
        self.contain = contain
        self.sensors.heat(COOL)
        words = ["--contain", contain, "--grace", "20", *PAUSE, *options]
        self.process = state.run("sh", "-c", TREE, str(out), options=words, env=sensors.environ)
        self.started = state.until_running()
        self.self_stopped = int(until(lambda: self._said("self")))
        self.root = int(until(lambda: self._said("root")))
        until(lambda: state_of(self.self_stopped) == "T")
        until(lambda: len(self.sleeps()) == 2)

    def _said(self, name: str) -> str:
        path = Path(f"{self.out}.{name}")
        return path.read_text().strip() if path.exists() else ""

    def sleeps(self) -> list[int]:
        """The sleeps below the root and beside it: in its group, or below the keeper."""
        above = (self.root, self.started["keeper_pid"])
        return [pid for pid in sleepers() if (stat := read_stat(pid)) and stat.name == "sleep" and stat.ppid in above]

    def paused(self) -> bool:
        if self.contain == "cgroup":
            return frozen(group_of(self.root))
        return all(state_of(pid) == "T" for pid in (self.root, *self.sleeps()))

    def running(self) -> bool:
        if self.contain == "cgroup" and frozen(group_of(self.root)):
            return False
        return all(state_of(pid) == "S" for pid in (self.root, *self.sleeps()))

    def pause(self) -> None:
        self.sensors.heat(HOT)
        until(self.paused)
        until(lambda: self.record()["state"] == "paused")

    def record(self) -> dict[str, Any]:
        path = self.state.queue / ".record" / f"{self.started['ticket']}.json"
        return dict(json.loads(path.read_text()))

    def event(self, name: str) -> dict[str, Any]:
        """The only one of that name."""
        (event,) = until(lambda: [event for event in self.state.events() if event["event"] == name])
        return event

    def nothing_is_left(self, status: int, heard: bool = True) -> str:
        found, errors = ended(self.process, 60)
        assert found == status, errors
        assert self.out.exists() is heard, "TERM is heard, also by who was paused"
        assert self.state.leftovers() == []
        assert state_of(self.self_stopped) == "gone"
        return errors


@pytest.fixture(params=["cgroup", "subreaper"])
def lane(request: pytest.FixtureRequest, state: Box, sensors: Sensors, tmp_path: Path) -> Lane:
    return Lane(state, sensors, tmp_path / "out", request.param)


def test_a_hot_payload_is_paused_and_goes_on_when_it_is_cool(lane: Lane, bystander: subprocess.Popen[bytes]) -> None:
    lane.pause()
    assert state_of(bystander.pid) == "S"
    event = lane.event("paused")
    assert (event["limit"], event["threshold"], event["value"]) == ("tctl-pause", 90, HOT)
    status = lane.state.verb("status", "--json", env=lane.sensors.environ).stdout
    (gpu,) = (resource for resource in json.loads(status)["resources"] if resource["name"] == "gpu")
    assert gpu["holder"]["state"] == "paused"
    assert "paused" in lane.state.verb("status", env=lane.sensors.environ).stdout
    lane.sensors.heat(WARM)
    time.sleep(5)
    assert lane.paused(), "below the threshold is not cool"
    lane.sensors.heat(COOL)
    until(lane.running)
    until(lambda: lane.record()["state"] == "running")
    event = lane.event("resumed")
    assert (event["limit"], event["threshold"], event["value"]) == ("tctl-pause", 90, COOL)
    assert state_of(lane.self_stopped) == "T", "whoever had stopped itself is left alone"
    lane.process.terminate()
    errors = lane.nothing_is_left(143)
    assert errors.count("the payload is paused") == 1
    assert errors.count("the payload goes on") == 1
    assert "tctl-pause 90C (" in errors
    assert str(lane.sensors.chip / "temp2_input") in errors
    assert "not suspended" not in errors, "our own STOP is no stop of the payload's"


def test_term_is_heard_by_a_paused_payload(lane: Lane) -> None:
    lane.pause()
    lane.process.terminate()
    lane.nothing_is_left(143)


def test_heat_ends_a_paused_payload(state: Box, sensors: Sensors, tmp_path: Path) -> None:
    lane = Lane(state, sensors, tmp_path / "out", "subreaper", "--tctl-abort", "95")
    lane.pause()
    sensors.heat(96)
    assert "is at or above --tctl-abort 95" in lane.nothing_is_left(123)


def test_a_pause_counts_in_max_hold(state: Box, sensors: Sensors, tmp_path: Path) -> None:
    lane = Lane(state, sensors, tmp_path / "out", "subreaper", "--max-hold", "12")
    lane.pause()
    lane.nothing_is_left(124)


@pytest.mark.parametrize("who", ["keeper", "supervisor"])
def test_who_inherits_a_paused_payload_ends_it_all_the_same(lane: Lane, who: str) -> None:
    lane.pause()
    os.kill(lane.started["keeper_pid"] if who == "keeper" else lane.process.pid, signal.SIGKILL)
    if who == "keeper":
        lane.nothing_is_left(125)
    else:
        ended(lane.process)
        until(lambda: not lane.state.leftovers(), 30)
        assert lane.out.exists()
        assert state_of(lane.self_stopped) == "gone"


def test_the_next_in_line_ends_what_a_killed_hold_left_paused(lane: Lane) -> None:
    lane.pause()
    kill_both(lane.process, lane.started["keeper_pid"])
    assert lane.process.stderr
    lane.process.stderr.close()
    status, errors = ended(lane.state.run("true"), 60)
    assert status == 0, errors
    # Without a cgroup the kernel has sent HUP meanwhile, as to every stopped group that becomes an orphan.
    assert lane.out.exists() or lane.contain == "subreaper", "TERM was heard"
    assert {state_of(pid) for pid in (lane.self_stopped, lane.root)} <= {"gone", "Z"}
    assert lane.state.leftovers() == []


def test_a_daemon_that_is_kept_by_the_heir_is_not_left_stopped(state: Box, sensors: Sensors, tmp_path: Path) -> None:
    lane = Lane(state, sensors, tmp_path / "out", "subreaper", "--keep-daemons", "--log", os.devnull)
    (daemon,) = (pid for pid in lane.sleeps() if os.getsid(pid) == pid)
    lane.pause()
    os.kill(lane.started["keeper_pid"], signal.SIGKILL)
    status, errors = ended(lane.process)
    assert status == 125
    assert "was kept" in errors
    assert state_of(daemon) == "S"
    os.kill(daemon, signal.SIGKILL)
    os.kill(lane.self_stopped, signal.SIGKILL)


def test_whoever_appears_or_is_continued_in_a_pause_is_paused(state: Box, sensors: Sensors, tmp_path: Path) -> None:
    lane = Lane(state, sensors, tmp_path / "out", "subreaper")
    lane.pause()
    environ = dict(line.split("=", 1) for line in Path(f"/proc/{lane.root}/environ").read_text().split("\0") if line)
    late = subprocess.Popen(["sleep", NAP], env=environ)
    until(lambda: state_of(late.pid) == "T")
    os.kill(lane.root, signal.SIGCONT)  # runs when this returns
    until(lane.paused)
    sensors.heat(COOL)
    until(lane.running)
    until(lambda: state_of(late.pid) == "S")
    lane.process.terminate()
    late.wait(20)
    lane.nothing_is_left(143)


@pytest.mark.parametrize("contain", ["cgroup", "subreaper"])
def test_another_hold_beside_the_root_is_not_paused(state: Box, sensors: Sensors, contain: str) -> None:
    """A server that was started inside and that others use: it shares the payload's cgroup."""
    inner = " ".join([*HOLDTOP, "run", "-r", "npu", "--", "sleep", NAP])
    words = ["--contain", contain, *PAUSE, "--grace", "1"]
    lane = state.run(
        "sh", "-c", f"setsid -f sh -c '{inner}; exit' 2>/dev/null; exec sleep 77", options=words, env=sensors.environ
    )
    root = state.until_running()["root_pid"]
    (spared,) = until(lambda: [pid for pid in sleepers() if (s := read_stat(pid)) and s.name == "sleep"])
    sensors.heat(HOT)
    until(lambda: state_of(root) == "T")
    assert state_of(spared) == "S"
    assert not frozen(group_of(spared))
    sensors.heat(COOL)
    until(lambda: state_of(root) == "S")
    lane.terminate()
    status, errors = ended(lane)
    assert status == 143
    assert "was spared" in errors
    os.kill(int((state.state / "npu-token").read_text().split()[1]), signal.SIGTERM)
    until(lambda: not sleepers())


def test_a_blind_sensor_resumes_the_payload_and_a_hot_one_pauses_it_again(lane: Lane) -> None:
    lane.pause()
    aside = lane.sensors.chip.with_name("gone")
    lane.sensors.chip.rename(lane.sensors.sys / "gone")
    until(lane.running, 20)
    event = lane.event("resumed")
    assert event["value"] is None
    (lane.sensors.sys / "gone").rename(aside)  # another number, the same name
    until(lane.paused, 20)
    lane.process.terminate()
    errors = lane.nothing_is_left(143)
    assert errors.count("::warning::--tctl-pause is blind, the payload goes on: ") == 1
    assert errors.count("the payload is paused") == 2


def test_ctrl_c_is_heard_in_a_pause_and_the_terminal_comes_back(
    state: Box, sensors: Sensors, typists: list[Typist], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopped group hears no key, so the hold listens meanwhile."""
    for name, value in sensors.environ.items():
        monkeypatch.setenv(name, value)
    code = "while True: print('got', input('what? '))"
    for key in ("", "\x03"):
        line = hold(state, sys.executable, "-c", code)
        sensors.heat(COOL)
        typist = Typist([*line[: line.index("--")], *PAUSE, *line[line.index("--") :]])
        typists.append(typist)
        typist.read_until("what? ")
        sensors.heat(HOT)
        typist.read_until("the payload is paused")
        if key:
            typist.type(key)
            assert os.WTERMSIG(typist.ended()) == signal.SIGINT
        else:
            sensors.heat(COOL)
            typist.read_until("goes on")
            typist.type("hello\n")
            typist.read_until("got hello")
            typist.type("\x03")
            typist.ended()
    assert state.leftovers() == []


@pytest.mark.parametrize("contain", ["cgroup", "subreaper", "pidns"])
def test_guard_pauses_without_a_queue(sensors: Sensors, contain: str) -> None:
    in_cgroup = contain != "subreaper"
    if in_cgroup:
        own()
    line = [*HOLDTOP, "guard", *PAUSE, "--tctl-abort", "95", "--contain", contain, "--grace", "1", "--", "sleep", NAP]
    guarded = subprocess.Popen(line, env=sensors.environ, stderr=subprocess.PIPE)
    (payload,) = until(lambda: [pid for pid in sleepers() if (s := read_stat(pid)) and s.name == "sleep"])
    sensors.heat(HOT)
    until(lambda: frozen(group_of(payload)) if in_cgroup else state_of(payload) == "T")
    sensors.heat(COOL)
    until(lambda: not frozen(group_of(payload)) if in_cgroup else state_of(payload) == "S")
    sensors.heat(97)
    status, errors = ended(guarded)
    assert status == 123
    assert "armed: grace 1s, survive-wait 60s, tctl-abort 95C (" in errors
    assert "tctl-pause 90C (" in errors
    assert errors.count("the payload is paused") == errors.count("the payload goes on") == 1
    assert sleepers() == []


@pytest.mark.parametrize("verb", ["run", "guard"])
@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (["--tctl-pause", "95", "--tctl-abort", "95"], "must be below"),
        (["--tctl-pause", "96", "--tctl-abort", "95"], "must be below"),
        (["--tctl-pause", "126"], "above 125 C"),
        (["--tctl-abort", "200"], "above 125 C"),
        (["--tctl-pause", "0"], "greater than zero"),
        (["--tctl-pause", "6"], "no sensor gets"),
    ],
)
def test_a_limit_that_could_never_act_is_refused(verb: str, limits: list[str], word: str, sensors: Sensors) -> None:
    line = [*HOLDTOP, verb, *limits, "--", "true"]
    refused = subprocess.run(line, env=sensors.environ, stderr=subprocess.PIPE, text=True, check=False)
    assert refused.returncode == 2
    assert word in refused.stderr
