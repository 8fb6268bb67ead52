"""Named scenarios: a daemon that hides in every way, and a tmux server that others come to use."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.cgroup import Cgroup
from holdtop.payload.process import Identity, Pinned, ProcessTable, is_alive, read_stat
from tests.hold.groups import inside
from tests.hold.lanes import HOLDTOP, NAP, Box, ended, identity, sleepers, until

#: No environment, no session, no parent, another name.
HIDES = f"env -i setsid -f bash -c 'echo $$ > {{pid}}; exec -a kworker/u8:3 sleep {NAP}'"
#: On TERM its child becomes a daemon, twice forked, with an empty environment: born while the payload ends.
FLEES = """
import os, signal, sys, time
def flee(*_):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.execve(sys.argv[1], ["kworker/u8:4", sys.argv[2]], {})
        os._exit(0)
    os._exit(0)
signal.signal(signal.SIGTERM, flee)
open(sys.argv[3], "w").close()
while True:
    time.sleep(60)
"""
#: Each link is a new session and a new process.
CHAIN = """
import os, sys, time
while True:
    time.sleep(0.02)
    if os.fork():
        os._exit(0)
    os.setsid()
"""

#: A server with another's hold below it, and a fork that has executed nothing: TERM in either tells both, by one pipe.
SERVES = """
import os, signal, subprocess, sys
os.setsid()
read, write = os.pipe()
signal.signal(signal.SIGTERM, lambda *_: os.write(write, b"T"))
if os.fork():
    subprocess.Popen(sys.argv[2:])
    open(sys.argv[1], "w").write(str(os.getpid()))
    os.read(read, 1)
else:
    while True:
        signal.pause()
"""


def tickets(state: Box, resource: str) -> list[str]:
    return [name for name in os.listdir(state.state / f"{resource}-queue") if not name.startswith(".")]


def holder_of(state: Box, resource: str) -> Identity:
    return identity(int((state.state / f"{resource}-token").read_text().split()[1]))


def end_of(state: Box) -> dict[str, Any]:
    return [event for event in state.events() if event["event"] == "ended"][-1]


def freed_only_when_empty(state: Box, lane: subprocess.Popen[bytes]) -> None:
    """Watch the token go; nothing of the payload may be there a moment later."""
    while state.token.exists():
        pass
    living = sleepers()
    keeper = [event for event in state.events() if event["event"] == "started"][-1]["keeper_pid"]
    assert {*living} <= {lane.pid, keeper}, "the token went before the last process"


CONTAIN = pytest.mark.parametrize("contain", ["cgroup", "subreaper"])


@CONTAIN
def test_a_daemon_that_hides_is_ended_and_named_every_time(
    state: Box, home: Cgroup, tmp_path: Path, contain: str
) -> None:
    options = ["--grace", "2", "--contain", contain]
    pid, go = tmp_path / "pid", tmp_path / "go"
    script = f"{HIDES.format(pid=pid)}; until [ -e {go} ]; do sleep 0.01; done; exit 3"
    for _ in range(20):
        lane = state.run("sh", "-c", script, options=options, **inside(home))
        daemon = int(until(lambda: pid.read_text() if pid.exists() else None))
        go.touch()
        freed_only_when_empty(state, lane)
        status, _ = ended(lane)
        (fate,) = end_of(state)["ended"]
        assert (status, fate["pid"], fate["found_by"]) == (3, daemon, "descent" if contain == "subreaper" else contain)
        assert (state.receipts()[-1]["verdict"], state.receipts()[-1]["reason"]) == ("clean", "exited")
        pid.unlink()
        go.unlink()
    assert state.leftovers() == []
    assert home.procs() == set()


@CONTAIN
def test_a_daemon_born_while_the_payload_ends_is_ended_and_named(
    state: Box, home: Cgroup, tmp_path: Path, contain: str
) -> None:
    sleep = shutil.which("sleep") or "sleep"
    ready = tmp_path / "ready"
    options = ["--grace", "1", "--contain", contain]
    lane = state.run(sys.executable, "-c", FLEES, sleep, NAP, str(ready), options=options, **inside(home))
    until(ready.exists)
    lane.terminate()
    freed_only_when_empty(state, lane)
    assert ended(lane)[0] == 143
    assert ("sleep", "KILL") in [(fate["name"], fate["ended_by"]) for fate in end_of(state)["ended"]]
    assert state.receipts()[-1]["verdict"] == "clean"


def test_a_hold_inside_a_payload_is_ended_with_it_also_when_the_root_is_gone_first(state: Box, tmp_path: Path) -> None:
    """A hold of another resource that the payload itself started is no other lane's, orphaned or not."""
    ready = tmp_path / "ready"
    stubborn = f"trap '' TERM; touch {ready}; while :; do sleep 0.05 {NAP}; done"
    inner = shlex.join([*HOLDTOP, "run", "-r", "npu", "--grace", "0.5", "--", "sh", "-c", stubborn])
    env = {**os.environ, "ONEBIT_HOLD_DIR": str(state.state)}
    for script in (f"{inner}; true", f"{inner} & until [ -e {ready} ]; do sleep 0.05; done"):
        lane = state.run("sh", "-c", script, options=["--grace", "3"], env=env)
        until(ready.exists)
        lane.terminate()
        freed_only_when_empty(state, lane)
        ended(lane)
        assert state.receipts()[-1]["verdict"] == "clean"
        assert not (state.state / "npu-token").exists()
        ready.unlink()
    assert state.leftovers() == []


def test_a_payload_that_has_stopped_all_of_itself_ends(state: Box) -> None:
    """TERM stays pending in a stopped process; the root alone is continued while it runs."""
    script = f"setsid sh -c 'kill -STOP $$; sleep {NAP}' & setsid sh -c 'kill -STOP $$; sleep {NAP}'"
    lane = state.run("sh", "-c", script, options=["--max-hold", "1", "--grace", "20"])
    assert ended(lane)[0] == 124
    assert sleepers() == []
    assert {fate["ended_by"] for fate in end_of(state)["ended"]} == {"TERM"}
    assert state.receipts()[-1]["verdict"] == "clean"


def test_only_the_chosen_tree_dies_of_many_with_one_command_line(state: Box, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    lanes = [state.run("sleep", NAP), Box(other).run("sleep", NAP)]
    with subprocess.Popen(["sleep", NAP]) as outsider:
        chosen = state.until_running()["root_pid"]
        spared = Box(other).until_running()["root_pid"]
        assert state.verb("kill", state.tickets()[0], "--reason", "one of them", "--yes").returncode == 0
        assert ended(lanes[0])[0] == 130
        assert outsider.poll() is None
        outsider.kill()
    assert (read_stat(chosen), bool(read_stat(spared))) == (None, True)
    lanes[1].terminate()
    ended(lanes[1])


def test_a_kept_daemon_has_no_descriptor_of_the_state_and_blocks_nobody(state: Box) -> None:
    script = f"setsid -f sleep {NAP}; exit 0"
    options = ["--keep-daemons", "--contain", "subreaper"]
    assert ended(state.run("sh", "-c", script, options=options, stderr=subprocess.DEVNULL))[0] == 0
    (daemon,) = state.receipts()[-1]["left"]
    with Pinned(Identity(daemon["pid"], daemon["start_ticks"])) as left:
        fds = f"/proc/{daemon['pid']}/fd"
        assert not [fd for fd in os.listdir(fds) if str(state.state) in os.readlink(f"{fds}/{fd}")]
        assert ended(state.run("true", options=["-w", "0"]))[0] == 0
        left.send(signal.SIGKILL)
    until(lambda: sleepers() == [])


class Tmux:
    """A tmux server of the test's own."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("tmux") is None:
            pytest.skip("needs tmux: a server that a payload starts")
        self.env = {**os.environ, "TMUX_TMPDIR": str(directory), "PS1": "$ "}
        self.env.pop("TMUX", None)
        self.words = ["tmux", "-L", f"test-{os.getpid()}", "-f", os.devnull]

    def __call__(self, *words: str) -> str:
        return subprocess.run(
            [*self.words, *words], env=self.env, capture_output=True, text=True, timeout=20, check=False
        ).stdout.strip()

    def started_by(self, state: Box, home: Cgroup, *options: str, tail: str = "sleep 600") -> subprocess.Popen[bytes]:
        """A lane whose payload starts the server, with a window that sleeps, and stays in the foreground itself."""
        script = f"{shlex.join(self.words)} new-session -d -s ours 'exec sleep {NAP}'; {tail}"
        options = ("--grace", "2", *options)
        lane = state.run("sh", "-c", script, options=options, env=self.env, **inside(home))
        until(lambda: self("has-session", "-t", "ours") == "" and self.server())
        return lane

    def server(self) -> Identity | None:
        text = self("display-message", "-p", "#{pid}")
        stat = read_stat(int(text)) if text else None
        return stat.identity if stat else None

    def window(self, *words: str) -> Identity:
        """Somebody else's window; its process."""
        stat = read_stat(int(self("new-window", "-d", "-P", "-F", "#{pane_pid}", shlex.join(words))))
        assert stat
        return stat.identity


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path)
    yield tmux
    server = tmux.server()
    tmux("kill-server")
    until(lambda: server is None or is_alive(server) is False)


def other_hold(state: Box, *words: str) -> list[str]:
    return [*HOLDTOP, "run", "-r", "npu", "--state-dir", str(state.state), "--grace", "1", "--", *words]


@pytest.fixture
def holder(state: Box, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes] | None]:
    """A hold that makes the other one wait, when the test asks for one that waits."""
    if request.param == "runs":
        yield None
        return
    with subprocess.Popen(other_hold(state, "sleep", "600")) as hold:
        until((state.state / "npu-token").exists)
        yield hold
        hold.terminate()


@CONTAIN
@pytest.mark.parametrize("holder", ["runs", "waits"], indirect=True)
def test_a_tmux_server_with_anothers_hold_below_it_is_spared_and_named(
    state: Box, home: Cgroup, tmux: Tmux, tmp_path: Path, contain: str, holder: subprocess.Popen[bytes] | None
) -> None:
    lane = tmux.started_by(state, home, "--contain", contain)
    mark = tmp_path / "theirs"
    theirs = tmux.window(*other_hold(state, "sh", "-c", f"touch {mark}; exec sleep 600"))
    plain = tmux.window("sleep", "600")
    server = tmux.server()
    assert server
    until(lambda: mark.exists() or (holder and len(tickets(state, "npu")) == 2))
    lane.terminate()
    status, errors = ended(lane)
    assert status == 143
    assert f"pid {server.pid} (tmux: server" in errors
    assert "was spared: another live hold runs below it" in errors
    assert state.leftovers() == []
    assert is_alive(server)
    assert is_alive(theirs)
    assert sleepers() == [], "our own window is a member as any"
    assert is_alive(plain) is False, "nobody's hold is below it"
    said = state.receipts()[-1]
    assert said["verdict"] == "dirty"
    assert {server.pid, theirs.pid} <= {left["pid"] for left in said["left"] if left["why"] == "spared"}
    if holder:
        holder.terminate()
        holder.wait()
        until(mark.exists)
    os.kill(theirs.pid, signal.SIGTERM)
    until(lambda: not (state.state / "npu-token").exists())


def test_a_servers_fork_is_spared_with_it(state: Box, home: Cgroup, tmp_path: Path) -> None:
    pid, mark = tmp_path / "server", tmp_path / "theirs"
    theirs = other_hold(state, "sh", "-c", f"touch {mark}; exec sleep 600")
    server = shlex.join([sys.executable, "-c", SERVES, str(pid), *theirs])
    script = f"({server} 2>/dev/null &); exec sleep 600"
    lane = state.run("sh", "-c", script, options=["--grace", "2"], **inside(home))
    until(mark.exists)
    lane.terminate()
    ended(lane)
    with Pinned(identity(int(pid.read_text()))) as server_process:
        children = ProcessTable().children[server_process.identity.pid]
        assert len(children) == 2
        for child in map(identity, children):
            with Pinned(child) as pinned:
                pinned.send(signal.SIGTERM if child == holder_of(state, "npu") else signal.SIGKILL)
        until(lambda: not (state.state / "npu-token").exists())
        assert is_alive(server_process.identity)
        server_process.send(signal.SIGKILL)


@CONTAIN
def test_a_chain_of_forks_beside_a_spared_server_ends(
    state: Box, home: Cgroup, tmux: Tmux, tmp_path: Path, contain: str
) -> None:
    """Then there is no ECHILD, and one empty look is no proof."""
    chain = shlex.join([sys.executable, "-c", CHAIN, NAP])
    lane = tmux.started_by(state, home, "--contain", contain, tail=f"{chain} & exec sleep 600")
    mark = tmp_path / "theirs"
    theirs = tmux.window(*other_hold(state, "sh", "-c", f"touch {mark}; exec sleep 600"))
    until(mark.exists)
    lane.terminate()
    assert ended(lane)[0] == 143
    assert is_alive(theirs)
    assert sleepers() == []


@CONTAIN
def test_a_tmux_server_that_nobody_else_uses_is_ended_and_named(
    state: Box, home: Cgroup, tmux: Tmux, tmp_path: Path, contain: str
) -> None:
    go = tmp_path / "go"
    tail = f"until [ -e {go} ]; do sleep 0.05; done; exit 4"
    lane = tmux.started_by(state, home, "--contain", contain, tail=tail)
    server = tmux.server()
    assert server
    go.touch()
    freed_only_when_empty(state, lane)
    assert ended(lane)[0] == 4
    assert (server.pid, "tmux: server") in [(fate["pid"], fate["name"]) for fate in end_of(state)["ended"]]
    assert state.receipts()[-1]["verdict"] == "clean"
    assert home.procs() == set()


@CONTAIN
@pytest.mark.parametrize("keep", [[], ["--keep-daemons"]], ids=["ended", "kept"])
def test_anothers_plain_window_is_ended_and_named_unless_daemons_are_kept(
    state: Box, home: Cgroup, tmux: Tmux, contain: str, keep: list[str]
) -> None:
    """Nothing tells a window of another lane from one of ours but a hold in it."""
    lane = tmux.started_by(state, home, "--contain", contain, *keep)
    server, theirs = tmux.server(), tmux.window("sleep", "600")
    assert server
    lane.terminate()
    status, errors = ended(lane)
    assert status == 143
    assert state.leftovers() == []
    named = {fate["pid"] for fate in end_of(state)["ended"]}
    left = {entry["pid"]: entry["why"] for entry in state.receipts()[-1]["left"]}
    assert (is_alive(server), is_alive(theirs)) == (bool(keep), bool(keep))
    if keep:
        assert "was kept, as --keep-daemons asks" in errors
        assert {left[server.pid], left[theirs.pid]} == {"kept"}
        assert state.receipts()[-1]["verdict"] == "unknown"
    else:
        assert (left, {server.pid, theirs.pid} - named) == ({}, set())


def test_a_run_on_the_same_resource_in_such_a_window_is_nested_and_ended(
    state: Box, home: Cgroup, tmux: Tmux, tmp_path: Path
) -> None:
    """It descends from the hold and has no ticket of its own: it may not outlive the token that it runs under."""
    lane = tmux.started_by(state, home)
    mark = tmp_path / "theirs"
    again = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "sh", "-c", f"touch {mark}; exec sleep {NAP}"]
    tmux.window(*again)
    until(mark.exists)
    lane.terminate()
    freed_only_when_empty(state, lane)
    assert ended(lane)[0] == 143
    assert state.receipts()[-1]["verdict"] == "clean"


def test_a_guard_spares_anothers_hold_too(state: Box, home: Cgroup, tmux: Tmux, tmp_path: Path) -> None:
    env = {**tmux.env, "ONEBIT_HOLD_DIR": str(state.state)}
    mark = tmp_path / "theirs"
    start = f"{shlex.join(tmux.words)} new-session -d 'exec sleep {NAP}'; sleep 600"
    guard = subprocess.Popen([*HOLDTOP, "guard", "--grace", "1", "--", "sh", "-c", start], env=env, **inside(home))
    server = until(tmux.server)
    theirs = tmux.window(*other_hold(state, "sh", "-c", f"touch {mark}; exec sleep 600"))
    until(mark.exists)
    guard.terminate()
    assert guard.wait(20) == 143
    assert is_alive(server)
    assert is_alive(theirs)
    assert sleepers() == []
