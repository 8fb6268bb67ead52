"""``holdtop watch`` on a real hold that dies, with real sockets in place of the journal's and the manager's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from holdtop.hold import journal
from holdtop.model.build import build
from holdtop.model.standing import LONG, Notice, Standing
from holdtop.model.values import Flag
from holdtop.watch.told import to_journal
from tests.hold.lanes import HOLDTOP, NAP, Box, kill_both, until
from tests.reading import views

#: The verb as a process, with another place for the journal's socket.
DRIVER = """
import sys
from holdtop.hold import journal
from holdtop.cli.main import main
journal.SOCKET = sys.argv[1]
sys.exit(main(sys.argv[2:]))
"""


def ghost(tmp_path: Path) -> Box:
    (tmp_path / "state").mkdir(mode=0o2770)
    box = Box(tmp_path / "state")
    lane = box.run("sleep", NAP, stderr=subprocess.DEVNULL)
    kill_both(lane, box.until_running()["keeper_pid"])
    lane.wait()
    return box


def bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(str(path))
    listener.settimeout(20)
    return listener


def received(listener: socket.socket, state: str) -> dict[str, str]:
    while True:
        fields = dict(line.split("=", 1) for line in listener.recv(65536).decode().splitlines())
        if (fields["HOLDTOP_STATE"], fields["HOLDTOP_FLAG"]) == (state, "ghost"):
            return fields


def test_a_ghost_is_told_once_and_then_resolved(tmp_path: Path) -> None:
    box = ghost(tmp_path)
    with bound(tmp_path / "journal") as listener, bound(tmp_path / "manager") as manager:
        words = [sys.executable, "-c", DRIVER, str(tmp_path / "journal"), "watch", "--state-dir", str(box.state)]
        env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "manager"), "HOLDTOP_REFRESH": "0.2"}
        with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as watch:
            assert received(listener, "raised")["HOLDTOP_SEVERITY"] == "warning"
            first = manager.recv(65536).decode().splitlines()
            assert first[:2] == ["READY=1", "WATCHDOG=1"]
            assert "gpu ghost" in first[2]
            for _ in range(3):
                assert manager.recv(65536).decode().startswith("WATCHDOG=1\nSTATUS=looked ")
            assert box.verb("recover", "--yes", "--reason", "over").returncode == 0
            assert received(listener, "resolved")["PRIORITY"] == "5"
            watch.send_signal(signal.SIGTERM)
            until(lambda: manager.recv(65536) == b"STOPPING=1")
            said = watch.communicate(timeout=20)[1]
    assert watch.returncode == 0
    assert [said.count(f"{state} warning ghost (gpu ") for state in ("raised", "resolved")] == [1, 1]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd: systemd-analyze")
def test_the_unit_is_silent_and_hides_nobody(tmp_path: Path) -> None:
    unit, program = tmp_path / "holdtop-watch.service", tmp_path / "holdtop"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = [*HOLDTOP, "watch", "--print", "unit"]
    printed = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    assert f'ExecStart=:"{program}" watch' in printed
    unit.write_text(printed)
    said = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
    keys = {line.partition("=")[0] for line in printed.splitlines()}
    assert not keys & {"ProtectProc", "ProcSubset", "PrivateTmp", "PrivateUsers", "PrivatePIDs", "PrivateMounts"}
    assert keys >= {"WatchdogSec", "Restart", "StartLimitIntervalSec"}
    unit.write_text(printed.replace("WatchdogSec", "WatchDogSec"))
    broken = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert broken.stderr, "else silence would prove nothing"


def test_what_goes_to_the_journal_anyway_is_not_said_twice(tmp_path: Path) -> None:
    box = ghost(tmp_path)
    with bound(tmp_path / "journal") as listener, (tmp_path / "stderr").open("wb") as errors:
        status = os.fstat(errors.fileno())
        env = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}", "HOLDTOP_REFRESH": "0.2"}
        words = [sys.executable, "-c", DRIVER, str(tmp_path / "journal"), "watch", "--state-dir", str(box.state)]
        with subprocess.Popen(words, env=env, stderr=errors) as watch:
            received(listener, "raised")
            watch.terminate()
    assert (tmp_path / "stderr").read_text() == ""
    assert box.verb("recover", "--yes", "--reason", "over").returncode == 0


def test_json_is_of_one_look(tmp_path: Path) -> None:
    done = Box(tmp_path).verb("watch", "--json")
    assert done.returncode == 2
    assert "--once" in done.stderr


def test_one_look_says_what_stands(tmp_path: Path) -> None:
    box = ghost(tmp_path)
    said = json.loads(box.verb("watch", "--once", "--json").stdout)
    assert [flag["kind"] for flag in said["flags"]] == ["ghost"]
    assert "at gpu ghost;" in said["looked_at"]
    assert "\nwarning ghost (gpu " in box.verb("watch", "--once").stdout
    assert box.verb("recover", "--yes", "--reason", "over").returncode == 0
    assert json.loads(box.verb("watch", "--once", "--json").stdout)["flags"] == []


def test_all_pids_and_the_whole_command_reach_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both were cut in their midst, where a number or a command is another one."""
    pids, remedy = tuple(range(1_000_000, 1_000_300)), f"chmod go-w {'/srv/x ' * 200}".strip()
    stray = Flag("stray", "warning", "gpu", None, pids, "2026-01-01T00:00:00+00:00", "x" * 999, remedy, "/srv")
    with bound(tmp_path / "journal") as listener:
        monkeypatch.setattr(journal, "SOCKET", str(tmp_path / "journal"))
        to_journal(Notice("raised", stray))
        fields = dict(line.split("=", 1) for line in listener.recv(1 << 20).decode().splitlines())
    assert fields["HOLDTOP_PIDS"].split() == list(map(str, pids))
    assert (fields["HOLDTOP_REMEDY"], fields["HOLDTOP_ABOUT"]) == (remedy, "/srv")
    assert len(fields["MESSAGE"]) <= LONG


def test_what_cannot_be_read_is_not_resolved() -> None:
    """Neither of the resource that is unknown, nor of those that are not even listed then."""
    flags = tuple(
        Flag("ghost", "warning", resource, "0000000001-5", (), "2026-01-01T00:00:00+00:00", "dead", "recover")
        for resource in ("gpu", "npu")
    )
    whole = build(views.raw(), None)
    standing = Standing()
    assert [one.state for one in standing.compare(replace(whole, flags=flags))] == ["raised", "raised"]
    (gpu,) = whole.resources
    unreadable = replace(whole, flags=(), resources=(replace(gpu, state="unknown"),))
    assert list(standing.compare(unreadable)) == []
    assert [one.flag.resource for one in standing.compare(replace(whole, flags=()))] == ["gpu", "npu"]
