"""``holdtop state shims``: an account's older tools replaced, with its powers, by what only it and root can change."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.hold.lanes import until
from tests.host.installed import PYTHON, as_account, install, state_verb
from tests.host.private_box import PrivateBox, tree
from tests.host.test_init import OLD_TOOL

BIN = "/home/owner/.local/bin"


@pytest.fixture
def shared(host: PrivateBox) -> PrivateBox:
    """Two accounts, holdtop for all, and the owner's older tools."""
    host.user("owner")
    host.user("runner")
    install(host)
    for path in (f"{BIN}/gpu-hold", f"{BIN}/npu-hold"):
        host.write(path, OLD_TOOL, "owner", 0o755)
    host.do("chown", "-R", "owner:owner", "/home/owner")
    return host


def shims(host: PrivateBox, *words: str) -> subprocess.CompletedProcess[str]:
    return state_verb(host, "shims", "--user", "owner", *words)


def refused(host: PrivateBox) -> str:
    """Why; and nothing is changed then."""
    before = tree(host.at("/home/owner"))
    done = shims(host, "--yes")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert tree(host.at("/home/owner")) == before
    return done.stderr


def old_ones(host: PrivateBox) -> list[Path]:
    return sorted(path for path in host.at(BIN).iterdir() if ".old-" in path.name)


def test_the_old_tools_are_kept_under_a_dated_name_and_ours_hold(shared: PrivateBox) -> None:
    uid = shared.at("/home/owner").stat().st_uid
    done = shims(shared, "--yes", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["done"]) == 2
    assert [path.read_text() for path in old_ones(shared)] == [OLD_TOOL, OLD_TOOL]
    for name in ("gpu-hold", "npu-hold"):
        status = (shared.at(BIN) / name).stat()
        assert (status.st_uid, status.st_mode & 0o7777) == (uid, 0o755)
    lane = as_account(shared, "owner", "gpu-hold", "-w", "5", "sh", "-c", "cat ~/GPU-TOKEN; exit 7")
    said, errors = lane.communicate(timeout=30)
    assert lane.returncode == 7, errors
    assert "resource=gpu" in said


def test_a_second_run_finds_nothing_to_do_and_keeps_no_second_copy(shared: PrivateBox) -> None:
    assert shims(shared, "--yes").returncode == 0
    before = {path.name: path.stat().st_ino for path in shared.at(BIN).iterdir()}
    assert shims(shared, "--yes").stdout == "nothing was to be done\n"
    (shared.at(BIN) / "gpu-hold").chmod(0o700)
    assert shims(shared, "--yes").returncode == 0
    assert (shared.at(BIN) / "gpu-hold").stat().st_mode & 0o7777 == 0o755
    assert {path.name for path in shared.at(BIN).iterdir()} == set(before)


def test_a_dry_run_changes_nothing(shared: PrivateBox) -> None:
    before = tree(shared.at("/home"))
    done = shims(shared, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.count("replace /home/owner/.local/bin/") == 2
    assert tree(shared.at("/home")) == before


def test_a_lane_that_runs_the_old_script_keeps_it(shared: PrivateBox) -> None:
    """The shell reads on in its file while it runs: what it finds there must be the old script."""
    script = "#!/bin/bash\ntouch ~/runs; read -r _ < ~/go\necho old\n"
    shared.write(f"{BIN}/gpu-hold", script, "owner", 0o755)
    shared.do("mkfifo", "/home/owner/go")
    shared.do("chown", "owner", "/home/owner/go")
    lane = as_account(shared, "owner", "gpu-hold")
    until(shared.at("/home/owner/runs").exists)
    assert shims(shared, "--yes").returncode == 0
    shared.do("sh", "-c", "echo > /home/owner/go")
    said, errors = lane.communicate(timeout=30)
    assert (said, lane.returncode) == ("old\n", 0), errors


def test_a_link_is_replaced_and_not_followed(shared: PrivateBox) -> None:
    checkout = shared.write("/home/owner/fleet/gpu-hold", OLD_TOOL, "owner", 0o755)
    (shared.at(BIN) / "gpu-hold").unlink()
    (shared.at(BIN) / "gpu-hold").symlink_to("/home/owner/fleet/gpu-hold")
    shared.do("chown", "-h", "owner", f"{BIN}/gpu-hold")
    assert shims(shared, "--yes").returncode == 0
    assert checkout.read_text() == OLD_TOOL
    assert [path.is_symlink() for path in old_ones(shared)] == [True, False]
    assert "holdtop.cli.main" in (shared.at(BIN) / "gpu-hold").read_text()


def test_a_directory_that_is_not_the_accounts_is_left_alone(shared: PrivateBox) -> None:
    """Its directory leads into one of root's, by a link: root would write there."""
    shared.do("rm", "-r", BIN)
    shared.do("install", "-d", "-m", "755", "/opt/tools")
    shared.write("/opt/tools/gpu-hold", OLD_TOOL, mode=0o755)
    os.symlink("/opt/tools", shared.at(BIN))
    done = shims(shared, "--yes")
    assert done.stdout == "nothing was to be done\n", done.stderr
    assert shared.at("/opt/tools/gpu-hold").read_text() == OLD_TOOL


def test_the_account_itself_may(shared: PrivateBox) -> None:
    words = [PYTHON, "-I", "-m", "holdtop", "state", "shims", "--user", "owner", "--yes"]
    stranger = as_account(shared, "runner", *words)
    assert "only root may" in stranger.communicate(timeout=30)[1]
    assert stranger.returncode == 6
    own = as_account(shared, "owner", *words)
    assert "replace" in own.communicate(timeout=30)[0]
    assert len(old_ones(shared)) == 2


@pytest.mark.parametrize("path", [BIN, "/home/owner/.local", "/home/owner"])
def test_refused_where_somebody_else_may_write_the_way_there(shared: PrivateBox, path: str) -> None:
    shared.do("chgrp", "runner", path)
    shared.do("chmod", "g+w", path)
    assert f"{path} may be written by group runner (runner)" in refused(shared)


@pytest.mark.parametrize("below", ["bin", "lib/python*/site-packages/holdtop/cli", "lib/python*/site-packages"])
def test_refused_where_somebody_else_may_write_what_the_interpreter_runs(shared: PrivateBox, below: str) -> None:
    (path,) = shared.at("/opt/venv").glob(below)
    path.chmod(0o777)
    assert "may be written by everybody" in refused(shared)


def test_refused_where_a_single_module_is_another_accounts(shared: PrivateBox) -> None:
    (module,) = shared.at("/opt/venv").glob("lib/python*/site-packages/holdtop/hold/take.py")
    os.chown(module, shared.at("/home/runner").stat().st_uid, -1)
    assert "take.py may be written by its owner runner" in refused(shared)


def test_refused_where_the_account_cannot_run_the_interpreter(shared: PrivateBox) -> None:
    shared.at("/opt/venv/bin").chmod(0o700)
    assert "owner cannot run /opt/venv/bin/python" in refused(shared)
    shared.at("/opt/venv/bin").chmod(0o755)
    (package,) = shared.at("/opt/venv").glob("lib/python*/site-packages/holdtop")
    package.chmod(0o700)
    assert "owner cannot run /opt/venv/bin/python" in refused(shared)


def test_a_run_killed_before_the_rename_is_repeated_without_a_second_copy(shared: PrivateBox) -> None:
    """What it leaves: the old tool has its dated name already, and the new one lies beside it."""
    os.link(shared.at(BIN) / "gpu-hold", shared.at(BIN) / "gpu-hold.old-20200101T000000")
    shared.write(f"{BIN}/.new-gpu-hold", "half", "owner")
    assert shims(shared, "--yes").returncode == 0
    assert [path.name[:11] for path in old_ones(shared)] == ["gpu-hold.ol", "npu-hold.ol"]
    assert not (shared.at(BIN) / ".new-gpu-hold").exists()


def test_a_kill_at_any_line_leaves_old_or_new_and_loses_neither(shared: PrivateBox) -> None:
    script = str(Path(__file__).with_name("sweep_shims.py"))
    done = shared.do(PYTHON, "-I", script, "owner", check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def test_what_is_not_there_is_not_made(shared: PrivateBox) -> None:
    done = state_verb(shared, "shims", "--user", "runner", "--yes")
    assert done.stdout == "nothing was to be done\n", done.stderr
