"""Real disks that are full, read-only, forbidden or lie about locks: what the sweep of calls does by pretending."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hold.lanes import HOLDTOP, NAP, Box, ended, sleepers, until
from tests.hold.test_accounts import ONE, OTHER, as_account, said, shared

__all__ = ["shared"]

RUN = " ".join([*HOLDTOP, "run"])
NOT_RUN = "the command was not run"
#: Fills the disk of ``$S`` to the last byte and inode.
FILL = '(cat /dev/zero > "$S/fill"; i=0; while : > "$S/fill$i"; do i=$((i+1)); done) 2>/dev/null'


def in_mount_namespace(script: str, place: Path) -> str:
    """What a shell says in which ``$S`` is a small disk of its own, gone with it."""
    if os.geteuid() != 0:
        pytest.skip("needs root: makes mount namespaces")
    (place / "disk").mkdir()
    mount = 'mount -t tmpfs -o size=64k,nr_inodes=64,mode=2770 none "$S"; cd "$S"'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount}\n{script}"],
        env={**os.environ, "S": str(place / "disk"), "T": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout


@pytest.mark.parametrize("made_before", [True, False], ids=["used", "fresh"])
def test_a_full_disk_runs_nothing(tmp_path: Path, made_before: bool) -> None:
    before = f'{RUN} --state-dir "$S" -- true 2>/dev/null' if made_before else ""
    out = in_mount_namespace(
        f"""{before}
        {FILL}
        {RUN} --state-dir "$S" -- touch "$T/ran"; echo "status $?"
        rm fill*; {RUN} --state-dir "$S" -- true 2>/dev/null; echo "next $?"
        find . -name ".new-*" -o -name "0*" -o -name gpu-token""",
        tmp_path,
    )
    assert "No space left on device; free some space" in out
    assert f"{tmp_path}/disk/gpu-queue" in out
    assert NOT_RUN in out
    assert not (tmp_path / "ran").exists()
    assert out.splitlines()[1:] == ["status 125", "next 0"]


def test_a_disk_that_fills_while_a_lane_waits_lets_nothing_start(tmp_path: Path) -> None:
    """What the holder's release would give back is kept by somebody who has it open."""
    out = in_mount_namespace(
        f"""touch "$T/wait"; {RUN} --state-dir "$S" -- sh -c 'while [ -e "$T/wait" ]; do :; done' >/dev/null 2>&1 &
        until ls gpu-queue/.record/0*1-*; do :; done >/dev/null 2>&1
        {RUN} --state-dir "$S" -- touch "$T/ran" 2>&1 &
        until ls gpu-queue/0*2-*; do :; done >/dev/null 2>&1
        {FILL}
        set -- gpu-queue/0*1-* gpu-queue/.record/0*1-*; exec 5<gpu-token 6<"$1" 7<"$2"; rm "$T/wait"
        wait %1; echo "holder $?"; wait %2; echo "status $?"
        exec 5<&- 6<&- 7<&-
        rm fill*; {RUN} --state-dir "$S" -- true 2>/dev/null; echo "next $?"
        find . -name ".new-*" -o -name "0*" -o -name gpu-token""",
        tmp_path,
    )
    assert "No space left on device" in out
    assert NOT_RUN in out
    assert not (tmp_path / "ran").exists()
    assert "holder 0" in out.splitlines()
    assert out.splitlines()[-2:] == ["status 125", "next 0"]


def test_a_disk_that_fills_while_it_is_held_changes_no_status(tmp_path: Path) -> None:
    out = in_mount_namespace(
        f"""{RUN} --state-dir "$S" -- sh -c '{FILL}; exit 7'; echo "status $?"
        find . -name ".new-*" -o -name "0*" -o -name gpu-token""",
        tmp_path,
    )
    assert "::warning::what is on record of hold 0000000001-" in out, "lost events are never silent"
    assert out.splitlines()[-1] == "status 7"


def test_a_deadline_needs_no_disk(tmp_path: Path) -> None:
    out = in_mount_namespace(
        f"""{RUN} --state-dir "$S" --max-hold 1 --grace 1 -- sh -c '{FILL}; sleep {NAP}'; echo "status $?"
        find . -name ".new-*" -o -name "0*" -o -name gpu-token""",
        tmp_path,
    )
    assert "incomplete" in out
    assert out.splitlines()[-1] == "status 124"
    assert sleepers() == []


@pytest.mark.parametrize("limit", [0, 1, 100, 700, 1500])
def test_a_limit_on_file_sizes_is_told(state: Box, limit: int) -> None:
    """SIGXFSZ would end a program that does not ignore it."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    status, errors = ended(state.run("sh", "-c", "exit 7", preexec_fn=limited))
    if status != 7:
        assert status == 125
        assert "File too large; raise the limit on file sizes (ulimit -f)" in errors
        assert NOT_RUN in errors
    else:
        assert limit > 1
    assert ended(state.run("true"))[0] == 0
    assert state.leftovers() == []


def test_a_directory_that_is_forbidden_while_it_is_held(shared: Box) -> None:
    """The status comes through, the token is said to stay, and the next hold frees it."""
    lane = as_account(ONE, shared, "run", "--", "sh", "-c", f"sleep {NAP} & wait; exit 7")
    shared.until_running()
    for path in (shared.state, shared.queue):
        path.chmod(0o2550)
    lane.terminate()
    status, errors = said(lane)
    assert status == 143
    assert f"{shared.token} could not be released: [Errno 13]" in errors
    assert shared.token.exists()
    assert sleepers() == []
    for path in (shared.state, shared.queue):
        path.chmod(0o2770)
    status, errors = said(as_account(ONE, shared, "run", "--", "true"))
    assert status == 0, errors
    assert shared.leftovers() == []


@pytest.mark.parametrize("umask", ["027", "777"])
def test_the_first_creators_umask_does_not_decide(shared: Box, umask: str) -> None:
    for uid in (ONE, OTHER, ONE):
        status, errors = said(as_account(uid, shared, "run", "--", "true", umask=umask))
        assert status == 0, errors
    assert shared.queue.stat().st_mode & 0o7777 == 0o2770
    assert shared.leftovers() == []


LYING = {
    "the queue's lock": "fcntl.flock = lambda fd, how: None",
    "a ticket's life lock": "real = fcntl.fcntl\n"
    "fcntl.fcntl = lambda fd, how, *more: b'' if how == fcntl.F_OFD_SETLK else real(fd, how, *more)",
}


@pytest.mark.parametrize("which", LYING)
def test_locks_that_are_granted_and_not_kept_are_refused(state: Box, which: str) -> None:
    code = f"import fcntl, sys\n{LYING[which]}\nfrom holdtop.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "run", "--state-dir", str(state.state), "--", "touch", str(state.state / "ran")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    kind = subprocess.run(["findmnt", "-no", "FSTYPE", "-T", state.state], capture_output=True, text=True, check=True)
    assert done.returncode == 125
    assert "granted and is not kept" in done.stderr
    assert f"this {kind.stdout.strip()} lacks" in done.stderr
    assert NOT_RUN in done.stderr
    assert not (state.state / "ran").exists()
    assert state.leftovers() == []


def test_streams_that_are_closed_at_the_start_are_nobodys(state: Box, tmp_path: Path) -> None:
    """A file of the state must not become somebody's stdout."""
    look = f'ls -l /proc/self/fd > "{tmp_path}/seen"'
    script = f"\"$@\" -- sh -c '{look}; exit 7' <&- >&- 2>&-; echo $?"
    line = [*HOLDTOP, "run", "--state-dir", str(state.state)]
    done = subprocess.run(["sh", "-c", script, "sh", *line], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "7\n"
    assert str(state.state) not in (tmp_path / "seen").read_text()
    assert state.leftovers() == []


def test_a_working_directory_that_is_gone_stops_nobody(state: Box, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = [*HOLDTOP, "run", "--state-dir", str(state.state), "--", "true"]
    shell = ["sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone), *line]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_no_home_is_no_reason_where_the_state_is_named(state: Box) -> None:
    lane = state.run("true", env={name: value for name, value in os.environ.items() if name != "HOME"})
    assert ended(lane)[0] == 0
    until(lambda: state.leftovers() == [])
