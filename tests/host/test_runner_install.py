"""``holdtop runner install`` and ``remove`` beside a real service manager, on a box whose ``/etc`` is its own."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtop.errors import RefusedError
from holdtop.host.runner import tarball
from tests.hold.lanes import until
from tests.host.private_box import tree
from tests.host.runners import HOME, TOOLS, furnish, kinds, runner, verified
from tests.host.system_manager import SystemBox, system_manager

PLACES = ("/etc/systemd/system", "/home", "/home/fleet", "/var/lib")
UNIT = "holdtop-runner-one.service"
UNIT_PATH = f"/etc/systemd/system/{UNIT}"
TOKEN = "SECRET0123456789"
#: A vendor's script: shows what it was given, and is registered then.
CONFIG = f"""#!/bin/sh
printf '%s\\n' "$@" > config-arguments
[ "$ACTIONS_RUNNER_INPUT_TOKEN" = {TOKEN} ] || exit 4
id -u > config-uid
touch .runner
"""
#: A listener with a job, if somebody asks for one.
LISTENER = """#!/bin/bash
[ ! -e job ] || (exec -a Runner.Worker sleep 1000000) &
exec sleep 1000000
"""


@pytest.fixture
def system() -> Iterator[SystemBox]:
    with system_manager() as box:
        furnish(box, runner=False)
        yield box


def archive(box: SystemBox, listener: str = LISTENER) -> list[str]:
    """The vendor's archive with its checksum, as options."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in {"bin/runsvc.sh": listener, "config.sh": CONFIG}.items():
            one = tarfile.TarInfo(name)
            one.size, one.mode = len(text), 0o755
            tar.addfile(one, io.BytesIO(text.encode()))
    data = buffer.getvalue()
    box.at("/home/runner.tar.gz").write_bytes(data)
    box.write("/home/sums", f"{hashlib.sha256(data).hexdigest()}  runner.tar.gz\n")
    return ["--tarball", "/home/runner.tar.gz", "--sha256sums", "/home/sums"]


def etc(box: SystemBox) -> dict[str, int]:
    """Inodes and times of all that an installation writes to."""
    places = [box.at("/etc"), box.at("/etc/systemd/system"), box.at("/var/lib"), box.at("/home")]
    return {str(path): path.lstat().st_mtime_ns for place in places for path in (place, *place.iterdir())}


def test_a_whole_installation_lives_and_a_second_run_does_nothing(system: SystemBox) -> None:
    words = archive(system)
    token = system.write("/home/token", TOKEN + "\n", mode=0o600)
    words += ["--url", "https://forge.example/o/r", "--token-file", "/home/token", "--labels", "apu,big"]
    words += ["--home-link", f".local/tools={TOOLS}", "--groups", "nosuch", "--yes"]
    system.do("mkdir", "-p", "/home/models")
    words += ["--env", "HW_GATE_MODELS=/home/models"]
    done = runner(system, "install", "one", *words)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"{UNIT} is installed" in done.stderr
    assert "this box has no group nosuch" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert not token.exists()
    directory = system.at(f"{HOME}/runner-one")
    assert (directory / "config-uid").read_text().strip() == system.do("id", "-u", "ghrunner").stdout.strip()
    assert {path.lstat().st_uid for path in (directory, *directory.rglob("*"))} == {directory.stat().st_uid}
    assert directory.stat().st_uid == int((directory / "config-uid").read_text())
    assert TOKEN not in (directory / "config-arguments").read_text()
    assert "apu,big" in (directory / "config-arguments").read_text().splitlines()
    assert os.readlink(system.at(f"{HOME}/.local/tools")) == TOOLS
    assert system.do("getent", "passwd", "ghrunner").stdout.strip().endswith(f"{HOME}:/usr/sbin/nologin")
    assert "fleethold" in system.do("id", "-Gn", "ghrunner").stdout.split()
    pid = system.show(UNIT, "MainPID")
    again = runner(system, "install", "one", *words)
    assert (again.returncode, system.show(UNIT, "MainPID")) == (0, pid)
    assert "nothing was to be done" in again.stderr


def test_a_dry_run_prints_the_same_unit_and_changes_nothing(system: SystemBox) -> None:
    words, before = archive(system), etc(system)
    done = runner(system, "install", "one", *words, "--memory-max", "1.5T", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout == runner(system, "render", "one", "--memory-max", "1.5T").stdout
    assert "would: make the account ghrunner" in done.stderr
    assert "would: start holdtop-runner-one.service" in done.stderr
    assert etc(system) | before == before | etc(system)
    assert etc(system) == before


def test_a_unit_that_dies_at_once_is_not_called_installed(system: SystemBox) -> None:
    words = archive(system, "#!/bin/sh\necho no such forge\nexit 0\n")
    done = runner(system, "install", "one", *words, "--yes")
    assert done.returncode == 1
    assert "FINDING crash-loop" in done.stdout
    assert "no such forge" in done.stderr, "the journal's last lines"
    assert "is installed" not in done.stderr


def test_a_listener_in_mid_job_goes_on_unless_asked(system: SystemBox) -> None:
    words = [*archive(system), "--yes"]
    assert runner(system, "install", "one", *words).returncode == 0
    system.do("touch", f"{HOME}/runner-one/job")
    system.do("systemctl", "restart", UNIT)
    pid = until(lambda: system.show(UNIT, "MainPID"))
    until(lambda: "Runner.Worker" in system.do("systemctl", "status", "--no-pager", UNIT, check=False).stdout)
    done = runner(system, "install", "one", *words, "--memory-max", "40G")
    assert done.returncode == 0, done.stdout
    assert "a job runs, and its listener goes on" in done.stderr
    assert f"restart {UNIT}" not in done.stderr
    assert system.show(UNIT, "MainPID") == pid
    assert system.show(UNIT, "MemoryMax") == str(40 << 30)
    assert runner(system, "remove", "one", "--yes").returncode == 6, "not while a job runs"
    assert runner(system, "install", "one", *words, "--memory-max", "41G", "--now").returncode == 0
    assert system.show(UNIT, "MainPID") != pid


@pytest.mark.parametrize(
    ("broken", "words", "why"),
    [
        ("rm -r /var/lib/1bit-fleet", [], "there is no state directory"),
        ("true", ["--no-checksum"], "is not unpacked unchecked"),
        ("echo 00 >> /home/runner.tar.gz", [], "has the checksum"),
        ("echo > /home/sums", [], "says nothing of runner.tar.gz"),
        ("true", ["--no-tarball"], "to run: name the vendor's archive"),
        ("chmod 777 /home/fleet", [], "may write /home/fleet"),
        (f"echo '[Unit]' > {UNIT_PATH}", [], "is not ours"),
        (f"mkdir {HOME}", [], "not ghrunner's own directory"),
        ("true", ["--home-link", "lb=/nonexistent"], "there is no /nonexistent"),
        ("true", ["--home-link", "lb=/tmp"], "may write /tmp"),
        ("echo x > /home/token; chmod 644 /home/token", ["--url", "u", "--token-file", "/home/token"], "by others"),
        ("ln -s sums /home/token", ["--url", "u", "--token-file", "/home/token"], "/home/token"),
        ("true", ["--url", "u", "--token-file", "/home/token"], "a new token is needed"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_before_anything_is_made(
    system: SystemBox, broken: str, words: list[str], why: str
) -> None:
    given = archive(system)
    given = given[:2] if words == ["--no-checksum"] else [] if words == ["--no-tarball"] else [*given, *words]
    system.do("sh", "-c", broken)
    before = etc(system)
    done = runner(system, "install", "one", *given, "--yes")
    assert (done.returncode, done.stdout) == (6, ""), done.stderr
    assert why in done.stderr
    assert etc(system) == before


def test_a_removal_undoes_what_was_made_and_nothing_else(system: SystemBox) -> None:
    words = [*archive(system), "--home-link", f"lb={TOOLS}", "--yes"]
    accounts, state = system.at("/etc/passwd").read_text(), tree(system.state)
    before = {place: sorted(os.listdir(system.at(place))) for place in PLACES}
    assert runner(system, "install", "one", *words).returncode == 0
    assert runner(system, "remove", "one", "--yes", "--dry-run").returncode == 0
    assert kinds(verified(system, ["one"])["one"][1]) == []
    done = runner(system, "remove", "one", "--yes")
    assert done.returncode == 0, done.stderr
    assert system.at("/etc/passwd").read_text() == accounts
    assert "ghrunner" not in system.at("/etc/group").read_text()
    assert {place: sorted(os.listdir(system.at(place))) for place in PLACES} == before
    assert tree(system.state) == state
    assert system.at(f"{TOOLS}/gpu-hold").exists()
    assert system.show(UNIT, "LoadState") == "not-found"
    assert runner(system, "remove", "one", "--yes").returncode == 7, "nothing is on record any more"


def test_another_account_home_and_directory_are_undone_only_when_named(system: SystemBox) -> None:
    system.do("mkdir", "/home/units")
    where = ["--user", "builder", "--home", "/home/builder", "--unit-dir", "/home/units", "--yes"]
    assert runner(system, "install", "one", *archive(system), *where).returncode == 0
    assert system.show(UNIT, "User") == "builder"
    assert system.show(UNIT, "UnitFileState") == "enabled"
    assert "--unit-dir" in (done := runner(system, "remove", "one", *where[:4], "--yes")).stderr
    assert done.returncode == 6
    assert "--user, --home" in runner(system, "remove", "one", *where[4:]).stderr
    assert system.show(UNIT, "ActiveState") == "active"
    assert runner(system, "remove", "one", *where).returncode == 0
    assert os.listdir(system.at("/home/units")) == []
    assert not system.at("/home/builder").exists()
    assert system.show(UNIT, "LoadState") == "not-found"


def test_an_account_that_was_there_before_stays_and_two_runners_share_theirs(system: SystemBox) -> None:
    words = [*archive(system), "--yes"]
    for name in ("one", "two"):
        assert runner(system, "install", name, *words).returncode == 0
    assert "leave what holdtop-runner-two.service needs as well" in runner(system, "remove", "one", "--yes").stderr
    assert kinds(verified(system, ["two"])["two"][1]) == []
    assert not system.at(f"{HOME}/runner-one").exists()
    assert runner(system, "remove", "two", "--yes").returncode == 0
    assert system.do("getent", "passwd", "ghrunner", check=False).stdout == ""
    assert not system.at(HOME).exists()
    system.do("useradd", "--system", "--create-home", "--home-dir", HOME, "ghrunner")
    assert runner(system, "install", "one", *words).returncode == 0
    assert runner(system, "remove", "one", "--yes").returncode == 0
    assert system.do("getent", "passwd", "ghrunner", check=False).stdout != ""
    assert system.at(HOME).exists()
    assert not system.at(f"{HOME}/runner-one").exists()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    one = tarfile.TarInfo(name)
    one.type, one.linkname, one.mode = kind, target, mode
    return one


@pytest.mark.parametrize(
    "members",
    [
        [entry("/etc/passwd")],
        [entry("a/../../b")],
        [entry("bin/x", tarfile.SYMTYPE, "/etc/passwd")],
        [entry("bin/x", tarfile.SYMTYPE, "../../x")],
        [entry("a", tarfile.SYMTYPE, "b/../c")],
        [entry("a", tarfile.SYMTYPE, "b"), entry("a/x")],
        [entry("a", tarfile.LNKTYPE, "/etc/passwd")],
        [entry("a", tarfile.LNKTYPE, "../x")],
        [entry("pipe", tarfile.FIFOTYPE)],
        [entry("null", tarfile.CHRTYPE)],
        [entry("sudo", mode=0o4755)],
    ],
)
def test_an_archive_with_a_hostile_entry_is_not_unpacked(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for one in members:
            tar.addfile(one)
    with pytest.raises(RefusedError, match="not unpacked"):
        tarball.check_members(buffer, "x.tar")


def test_what_the_vendors_archives_have_is_no_reason_to_refuse(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for one in (entry("./bin", tarfile.DIRTYPE, mode=0o755), entry("./bin/npm", tarfile.SYMTYPE, "../lib/npm.js")):
            tar.addfile(one)
    tarball.check_members(buffer, "x.tar")
    tarball.unpack(buffer, str(tmp_path))
    assert os.readlink(tmp_path / "bin/npm") == "../lib/npm.js"
