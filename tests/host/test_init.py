"""``holdtop state init``: a whole directory or none, only for the members, and never beside a queue that lives."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.host import ageing, homes
from tests.hold.lanes import HOLDTOP, NAP, until
from tests.host.private_box import GROUP, PrivateBox, sweep, tree

OLD_TOOL = '#!/bin/sh\nexec sh "$HOME/fleet/hold.sh" "$HOME/GPU-TOKEN" "$@"\n'


@pytest.fixture
def two(host: PrivateBox) -> PrivateBox:
    """A box with two accounts."""
    host.user("owner")
    host.user("runner")
    return host


def init(host: PrivateBox, *words: str) -> list[str]:
    return host.steps("init", "--user", "owner", "--user", "runner", *words)


def refused(host: PrivateBox, *words: str) -> str:
    """Why; and nothing of it exists then."""
    done = host.state_verb("init", *(words or ("--user", "owner")), "--yes")
    assert done.returncode == 6, (done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("umask", ["000", "022", "077"])
def test_the_directory_is_whole_and_the_groups_whatever_the_umask(two: PrivateBox, umask: str) -> None:
    words = "state", "init", "--user", "owner", "--user", "runner", "--yes"
    two.do("sh", "-c", f'umask {umask}; exec "$@"', "sh", *HOLDTOP, *words)
    _, _, gid, members = two.do("getent", "group", GROUP).stdout.strip().split(":")
    assert members == "owner,runner"
    assert 100 <= int(gid) < 1000, "a system group"
    assert tree(two.state) == {
        ".": ("0o42770", 0, int(gid)),
        "gpu-queue": ("0o42770", 0, int(gid)),
        "npu-queue": ("0o42770", 0, int(gid)),
        "npu.lock": ("0o100660", 0, int(gid)),
    }
    assert os.listdir(two.at("/var/lib")) == [Path(DEFAULT_STATE_DIR).name]


def test_it_touches_nothing_of_the_accounts_and_a_second_run_touches_nothing(two: PrivateBox) -> None:
    homes, groups = tree(two.at("/home")), two.do("id", "-gn", "owner").stdout
    init(two)
    assert tree(two.at("/home")) == homes
    assert two.do("id", "-gn", "owner").stdout == groups
    before = two.state.stat().st_ctime_ns
    assert init(two) == []
    assert two.state.stat().st_ctime_ns == before
    assert two.state_verb("init", "--yes").stdout == "nothing was to be done\n", "members stay without being named"


def test_a_dry_run_changes_nothing(two: PrivateBox) -> None:
    etc = {path.name: path.stat().st_ino for path in two.at("/etc").iterdir()}
    done = two.state_verb("init", "--user", "owner", "--dry-run")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith(f"make {DEFAULT_STATE_DIR} root:{GROUP} 2770")
    assert {path.name: path.stat().st_ino for path in two.at("/etc").iterdir()} == etc
    assert os.listdir(two.at("/var/lib")) == []


def test_nothing_is_done_unasked(two: PrivateBox) -> None:
    assert "--yes" in two.state_verb("init", "--user", "owner").stderr
    master, terminal = pty.openpty()
    os.write(master, b"n\n")
    done = two.state_verb("init", "--user", "owner", stdin=terminal)
    os.close(master)
    os.close(terminal)
    assert done.returncode == 6
    assert "make the system group" in done.stderr
    assert os.listdir(two.at("/var/lib")) == []


def test_what_was_changed_by_hand_is_set_again(two: PrivateBox) -> None:
    init(two)
    whole = tree(two.state)
    two.state.chmod(0o777)
    shutil.rmtree(two.state / "npu-queue")
    (two.state / "npu.lock").chmod(0o600)
    assert len(init(two)) == 3
    assert tree(two.state) == whole


def test_a_link_that_a_member_put_there_is_not_followed(two: PrivateBox) -> None:
    init(two)
    victim = two.write("/home/victim", "mine\n", mode=0o600)
    (two.state / "npu.lock").unlink()
    (two.state / "npu.lock").symlink_to("/home/victim")
    refused(two, "--yes")
    assert victim.stat().st_mode & 0o7777 == 0o600
    (two.state / "npu.lock").unlink()
    elsewhere = two.write("/var/lib/elsewhere", "mine\n", mode=0o600)
    os.link(elsewhere, two.state / "npu.lock")
    refused(two, "--yes")
    assert (elsewhere.stat().st_mode & 0o7777, elsewhere.stat().st_gid) == (0o600, 0)


def test_refused_while_a_hold_or_a_waiter_lives_in_a_home(two: PrivateBox) -> None:
    holder = two.as_account("owner", "run", "--", "sleep", NAP)
    until(two.at("/home/owner/GPU-TOKEN").exists)
    assert "owner still uses its home" in refused(two)
    assert os.listdir(two.at("/var/lib")) == []
    holder.terminate()
    assert holder.communicate(timeout=30)
    assert holder.returncode == 143
    init(two)


def test_refused_while_a_shell_lane_waits_in_a_home(two: PrivateBox) -> None:
    with subprocess.Popen(["sleep", NAP]) as lane:
        two.write(f"/home/owner/GPU-QUEUE/job.shell.{lane.pid}", "", "owner")
        assert str(lane.pid) in refused(two)
        two.write("/home/owner/GPU-TOKEN", f"shell {lane.pid}\n", "owner")
        assert "GPU-TOKEN" in refused(two)
        lane.kill()
    init(two)


@pytest.mark.parametrize("path", ["/home/owner/.local/bin/gpu-hold", "/home/runner/bin/npu-hold"])
def test_refused_while_an_account_has_a_tool_that_knows_its_home_only(two: PrivateBox, path: str) -> None:
    name = path.split("/")[2]
    two.write(path, OLD_TOOL, name, 0o755)
    assert f"{path}, which {name} would run" in refused(two)
    two.write(path, OLD_TOOL.replace("$HOME/GPU-TOKEN", f"{DEFAULT_STATE_DIR}/gpu-token"), name, 0o755)
    init(two)


def test_a_name_that_no_group_can_have_is_refused_before_anything_is_done(two: PrivateBox) -> None:
    for name in ("", "a b", "-x", "x" * 33):
        done = two.state_verb("init", "--user", "owner", f"--group={name}", "--dry-run")
        assert (done.returncode, done.stdout) == (2, "")
        assert "is no name for a group" in done.stderr


def test_refused_below_what_others_may_write_and_into_somebodys_own_group(two: PrivateBox) -> None:
    two.at("/var/lib").chmod(0o777)
    assert "/var/lib may be written by everybody" in refused(two)
    two.at("/var/lib").chmod(0o755)
    assert "own group of owner" in refused(two, "--user", "runner", "--group", "owner")
    assert "--user NAME" in refused(two, "--group", "fresh")
    assert "--user NAME" in refused(two, "--user", "root"), "who could queue anyway"
    assert two.do("getent", "group", GROUP, "fresh", check=False).stdout == ""
    two.state.symlink_to("/home")
    assert "no directory" in refused(two)
    two.state.unlink()
    two.state.mkdir()
    os.chown(two.state, 54_701, 0)
    assert "uid 54701" in refused(two)


def test_only_root_may(two: PrivateBox) -> None:
    process = two.as_account("owner", "state", "init", "--user", "owner", "--yes")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 6
    assert "only root may" in errors


def test_cleaning_by_age_leaves_the_state_alone(two: PrivateBox) -> None:
    """The control: without the exclusion the same call removes the same file."""
    if not shutil.which("systemd-tmpfiles"):
        pytest.skip("needs systemd: systemd-tmpfiles cleans by age")
    two.write("/etc/tmpfiles.d/age.conf", "q /var/lib 0755 root root 10d\n")
    init(two)
    (two.state / "gpu-queue" / ".receipts.jsonl").touch()
    excluding = two.at("/etc/tmpfiles.d/holdtop.conf")
    assert excluding.stat().st_mode & 0o7777 == 0o644
    assert init(two) == []
    assert _cleaned(two) == []
    excluding.unlink()
    assert ".receipts.jsonl" in _cleaned(two)


def _cleaned(host: PrivateBox) -> list[str]:
    """What ``systemd-tmpfiles --clean`` removes from a state in which everything is old enough for it."""
    before = set(host.state.rglob("*"))
    aged = "for f in $(find /var/lib/1bit-fleet); do touch -d '1 year ago' $f; done"
    rule = "sed -i s/10d/0/ /etc/tmpfiles.d/age.conf"  # every file counts as aged: its change time cannot be set
    host.do("sh", "-c", f"{aged}; {rule}; systemd-tmpfiles --clean --prefix=/var/lib")
    return [path.name for path in before - set(host.state.rglob("*"))]


@pytest.mark.parametrize("umask", ["077", "022"])
def test_two_accounts_take_turns_and_a_denial_is_no_contention(two: PrivateBox, umask: str) -> None:
    two.user("stranger")
    init(two)
    for first, second in (("owner", "runner"), ("runner", "owner")):
        holder = two.as_account(first, "run", "--", "sleep", NAP, umask=umask)
        until((two.state / "gpu-token").exists)
        waiter = two.as_account(second, "run", "--", "true", umask=umask)
        until(lambda: len([n for n in os.listdir(two.state / "gpu-queue") if not n.startswith(".")]) == 2)
        holder.terminate()
        assert holder.communicate(timeout=30)
        _, errors = waiter.communicate(timeout=30)
        assert waiter.returncode == 0, errors
    gid = two.state.stat().st_gid
    assert all(not int(mode, 8) & 0o007 and group == gid for mode, _, group in tree(two.state).values())
    stranger = two.as_account("stranger", "run", "-w", "60", "--", "true")
    _, errors = stranger.communicate(timeout=30)
    assert stranger.returncode == 125
    assert "ermission denied" in errors
    assert str(gid) in errors
    assert "held by" not in errors


def test_a_run_killed_at_any_line_leaves_nothing_or_a_whole_state(two: PrivateBox) -> None:
    words = ["init", "--user", "owner", "--user", "runner", "--yes"]
    assert sweep(two, "3", "host/init.py,hold/files.py", *words) > 20


def test_the_steps_are_data_for_programs(two: PrivateBox) -> None:
    said = json.loads(two.state_verb("init", "--user", "owner", "--json", "--dry-run").stdout)
    assert said["schema"] == 1
    assert said["done"] == []
    assert len(said["steps"]) == 3


@pytest.mark.parametrize("pid", [1 << 31, 9_999_999_999, 1 << 70])
def test_a_number_that_is_no_pid_is_no_process(pid: int) -> None:
    """A shell's token may say anything."""
    assert not homes.exists(pid)
    assert homes.exists(os.getpid())


@pytest.mark.parametrize(
    ("rules", "reached"),
    [
        ("d /srv - - - 10d\n", True),
        ("d /srv - - - -\n", False),
        ("d /s*v - - - 10d\n", True),
        ("d /srv/other - - - 10d\n", False),
        ("d /srv - - - 10d\nx /srv/hold\n", False),
        ("d /srv - - - 10d\nx /srv\n", False),
        ("d /srv - - - 10d\nX /srv/hold\n", True),  # what is below it ages all the same
        ("d /srv - - - 10d\nx /*\n", False),
        ("d /srv - - - 10d\nx /srv/*/x\n", True),
        ("d / - - - 10d\nx /h*d\n", True),  # a star crosses no slash
    ],
)
def test_which_rules_age_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: str, reached: bool) -> None:
    (tmp_path / "a.conf").write_text(rules)
    monkeypatch.setattr(ageing, "DIRECTORIES", (str(tmp_path),))
    assert ageing.reached("/srv/hold") is reached
