"""``holdtop state migrate`` and ``init --migrate-from``: complete or undone, and never two holders, with real lanes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.payload.process import Pinned, is_alive
from tests.hold.lanes import NAP, finished, identity, kill_both, until
from tests.host.private_box import GROUP, PrivateBox, sweep, tree
from tests.host.test_init import OLD_TOOL

INIT = ("init", "--user", "owner", "--user", "runner", "--migrate-from", "/home/owner")
MIGRATE = ("migrate", "--from", "/home/owner")
MODULES = "host/init.py,host/migrate.py,host/switch.py,host/history.py,hold/files.py,hold/token.py"


@pytest.fixture
def two(host: PrivateBox) -> PrivateBox:
    """Two accounts, of which one has held in its home."""
    host.user("owner")
    host.user("runner")
    hold(host, "owner")
    return host


def hold(host: PrivateBox, name: str, *words: str) -> None:
    lane = host.as_account(name, "run", "--", *(words or ("true",)))
    _, errors = lane.communicate(timeout=30)
    assert lane.returncode == 0, errors


def receipts(queue: Path) -> list[str]:
    return (queue / ".receipts.jsonl").read_text().splitlines()


def refused(host: PrivateBox, *words: str) -> str:
    before = {place: tree(host.at(place)) for place in ("/var/lib", "/home")}
    done = host.state_verb(*words, "--yes")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert {place: _lasting(tree(host.at(place))) for place in before} == {k: _lasting(v) for k, v in before.items()}
    return done.stderr


def given_up(host: PrivateBox) -> str:
    """Why; then there is no directory, and the old queue is as it was."""
    before = sorted(os.listdir(host.at("/home/owner/GPU-QUEUE")))
    done = host.state_verb(*INIT, "--yes")
    assert done.returncode == 6, done.stderr
    assert os.listdir(host.at("/var/lib")) == []
    assert old_paths(host) == ["GPU-QUEUE"]
    assert sorted(os.listdir(host.at("/home/owner/GPU-QUEUE"))) == before
    return done.stderr


def _lasting(found: dict[str, tuple[str, int, int]]) -> dict[str, tuple[str, int, int]]:
    return {path: said for path, said in found.items() if not path.endswith(".lock")}


def old_paths(host: PrivateBox) -> list[str]:
    return sorted(name for name in os.listdir(host.at("/home/owner")) if name.startswith("GPU"))


def test_the_history_is_moved_and_the_old_paths_are_gone(two: PrivateBox) -> None:
    told = receipts(two.at("/home/owner/GPU-QUEUE"))
    assert len(told) == 1
    two.steps(*INIT)
    queue = two.state / "gpu-queue"
    assert receipts(queue) == told
    assert old_paths(two) == []
    assert '"event": "released"' in (queue / ".log" / "events.jsonl").read_text()
    assert (queue / ".sequence").read_text() == "1\n"
    gid = two.state.stat().st_gid
    assert all(group == gid and not int(mode, 8) & 0o007 for mode, _, group in tree(two.state).values())
    assert two.steps(*INIT) == []
    for name in ("owner", "runner"):
        hold(two, name)
    assert len(receipts(queue)) == 3


def test_a_second_home_is_added_to_a_queue_that_was_used(two: PrivateBox) -> None:
    for _ in range(3):
        hold(two, "runner")
    two.do("install", "-d", "-o", "runner", "-m", "700", "/home/runner/GPU-QUEUE/.audit")
    two.write("/home/runner/GPU-QUEUE/.audit/77.jsonl", "a\n", "runner", 0o640)
    two.write("/home/runner/GPU-QUEUE/.gpu-hold-survivors", "pid=1 start=x cmd=y\n", "runner")
    two.steps(*INIT)
    hold(two, "owner")
    both = {*receipts(two.state / "gpu-queue"), *receipts(two.at("/home/runner/GPU-QUEUE"))}
    dry = two.state_verb("migrate", "--from", "/home/runner", "--dry-run")
    assert dry.stdout.startswith("move /home/runner/GPU-QUEUE and /home/runner/GPU-TOKEN of runner into")
    assert two.at("/home/runner/GPU-QUEUE").exists()
    two.steps("migrate", "--from", "/home/runner")
    queue = two.state / "gpu-queue"
    assert set(receipts(queue)) == both
    assert len(receipts(queue)) == 5
    assert (queue / ".sequence").read_text() == "3\n", "the greater one"
    assert (queue / ".audit" / "77.jsonl").stat().st_uid == two.at("/home/runner").stat().st_uid, "its author's still"
    assert (queue / ".gpu-hold-survivors").read_text() == "pid=1 start=x cmd=y\n"
    assert queue.stat().st_mode & 0o7777 == 0o2770
    assert queue.stat().st_gid == two.state.stat().st_gid
    assert not two.at("/home/runner/GPU-QUEUE").exists()
    hold(two, "runner")


def test_what_others_have_put_into_the_old_queue_is_not_passed_on(two: PrivateBox) -> None:
    """Root would make a copy of it that the group may read."""
    secret = two.write("/home/secret", "secret\n", mode=0o600)
    queue = two.at("/home/owner/GPU-QUEUE")
    (queue / ".gpu-hold-survivors").symlink_to("/home/secret")
    assert "is a link" in given_up(two)
    (queue / ".gpu-hold-survivors").unlink()
    os.link(secret, queue / ".gpu-hold-survivors")
    assert "hard links" in given_up(two)
    secret.unlink()
    two.steps(*INIT)
    assert not (two.state / "gpu-queue" / ".gpu-hold-survivors").exists(), "it is root's, not the owner's"


@pytest.mark.parametrize("content", ["", "garbled\n"])
def test_an_ownerless_token_is_set_aside(two: PrivateBox, content: str) -> None:
    two.write("/home/owner/GPU-TOKEN", content, "owner")
    two.steps(*INIT)
    assert old_paths(two) == []
    (kept,) = two.at("/home/owner").glob(".GPU-TOKEN.kept-*")
    assert kept.read_text() == content


@pytest.mark.parametrize("words", [INIT, MIGRATE])
def test_refused_while_something_of_it_lives(two: PrivateBox, words: tuple[str, ...]) -> None:
    if words is MIGRATE:
        two.steps("init", "--user", "owner")
    with subprocess.Popen(["sleep", NAP]) as lane:
        token = two.write("/home/owner/GPU-TOKEN", f"shell {lane.pid}\n", "owner")
        assert f"names pid {lane.pid}" in refused(two, *words)
        token.unlink()
        ticket = two.write(f"/home/owner/GPU-QUEUE/job.shell.{lane.pid}", "", "owner")
        assert f"job.shell.{lane.pid}" in refused(two, *words)
        ticket.unlink()
        lane.kill()
    tool = two.write("/home/runner/bin/npu-hold", OLD_TOOL, "runner", 0o755)
    assert "state shims --user runner" in refused(two, *words)
    tool.unlink()
    odd = two.write("/home/owner/GPU-QUEUE/notes", "", "owner")
    assert "move it away first" in refused(two, *words)
    odd.unlink()
    two.steps(*words)
    assert old_paths(two) == []


def test_refused_while_the_target_is_in_use_or_missing(two: PrivateBox) -> None:
    assert "init --migrate-from /home/owner" in refused(two, *MIGRATE)
    two.steps("init", "--user", "owner", "--user", "runner")
    holder = two.as_account("runner", "run", "--", "sleep", NAP)
    until((two.state / "gpu-token").exists)
    done = two.state_verb(*MIGRATE, "--yes")
    assert done.returncode == 6
    assert "is in use" in done.stderr
    assert old_paths(two) == ["GPU-QUEUE"]
    holder.terminate()
    assert holder.communicate(timeout=30)
    two.steps(*MIGRATE)


def test_refused_while_a_dead_holds_payload_lives(two: PrivateBox) -> None:
    holder = two.as_account("owner", "run", "--", "sleep", NAP)
    record = until(lambda: next(iter(finished(two.at("/home/owner/GPU-QUEUE/.record"))), None))
    said = until(lambda: _whole(record))
    kill_both(holder, said["keeper_pid"])
    assert "is dead and pids" in refused(two, *INIT)
    left = identity(said["root_pid"])
    with Pinned(left) as payload:
        payload.send(signal.SIGKILL)
    until(lambda: not is_alive(left))
    holder.communicate(timeout=30)
    two.steps(*INIT)
    assert old_paths(two) == []


def _whole(record: Path) -> dict[str, int] | None:
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(record.read_text())
        if said.get("root_pid") and said.get("keeper_pid") and said.get("members"):
            return dict(said)
    return None


#: What ``init`` does, and whether the home's token is there in the instant before the directory has its name.
IN_THE_INSTANT = """
import os, sys
from holdtop.cli.main import main
from holdtop.payload import linux
real = linux.rename_special
def rename(*args):
    if args[3] == "1bit-fleet":
        print(os.path.exists("/home/owner/GPU-TOKEN"), file=sys.stderr)
    real(*args)
linux.rename_special = rename
sys.exit(main(["state", "init", "--user", "owner", "--yes"]))
"""


def test_a_plain_init_holds_the_tokens_of_the_homes_meanwhile(two: PrivateBox) -> None:
    """A shell lane could else take one after the last look, and run beside the new directory's first hold."""
    before = tree(two.at("/home/owner"))
    done = two.do(sys.executable, "-c", IN_THE_INSTANT)
    assert done.stderr == "True\n"
    assert _lasting(tree(two.at("/home/owner"))) == _lasting(before), "it is given back"


def test_lanes_of_the_last_instant_find_the_new_place_or_leave(two: PrivateBox) -> None:
    """Without the old token held, either would start beside the new queue's holds."""
    uid = str(two.at("/home/owner").stat().st_uid)
    two.steps("init", "--user", "owner")
    gid = two.do("getent", "group", GROUP).stdout.split(":")[2]
    two.do("mv", DEFAULT_STATE_DIR, f"{DEFAULT_STATE_DIR}.aside")
    two.do("sh", "-c", "touch /home/mutex; chmod 666 /home/mutex; chmod 777 /home")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = two.do(sys.executable, "-m", "tests.host.instant", uid, gid, check=False, env=env)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["ours"], said["shell"], said["left"]) == (0, 120, []), said
    assert f"taken: queue {DEFAULT_STATE_DIR}/gpu-queue" in said["said"]
    assert not two.at("/home/double").exists()


def test_an_init_killed_at_any_line_leaves_nothing_or_a_whole_state(two: PrivateBox) -> None:
    assert sweep(two, "7", MODULES, *INIT, "--yes") > 20


def test_a_migration_killed_at_any_line_is_complete_or_undone(two: PrivateBox) -> None:
    two.steps("init", "--user", "owner")
    hold(two, "owner")
    assert sweep(two, "7", MODULES, *MIGRATE, "--yes") > 20
