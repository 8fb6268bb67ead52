"""The demo as a whole: what it sets up is real, and nothing of it outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdtop.demo.sandbox import sandbox
from holdtop.errors import HoldtopError
from holdtop.hold import places
from holdtop.hold.look import look
from holdtop.payload.process import Stat, read_stat

Leftovers = Callable[[], list[Stat]]
SCRIPT = [sys.executable, "-m", "holdtop", "demo", "--script"]


def until(ask: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not ask():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the demo makes its directory."""
    directory = tmp_path / "spool"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    return directory


@pytest.fixture
def demo(spool: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(SCRIPT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        if process.poll() is None:
            process.kill()


def told_by(demo: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert demo.stdout is not None
    told = json.loads(demo.stdout.readline())
    assert isinstance(told, dict)
    return told


def gone(spool: Path, no_leftovers: Leftovers) -> bool:
    return not list(spool.iterdir()) and not no_leftovers()


def alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.dead


def test_what_is_set_up_is_real(demo: subprocess.Popen[bytes]) -> None:
    told = told_by(demo)
    gpu, npu = (look(places.resolve(name, told["state_dir"])) for name in ("gpu", "npu"))
    assert gpu.token is not None
    assert gpu.token.ticket_id == told["holder"]
    assert [ticket.id for ticket in gpu.tickets] == [told["holder"], *told["waiting"]]
    assert all(ticket.locked for ticket in gpu.tickets)
    assert {process.pid for process in gpu.records[told["holder"]].members} == set(told["members"])

    assert [[process.pid for process in record.processes] for record in gpu.survivors] == [[told["survivor"]["pid"]]]
    assert told["survivor"]["ticket"] not in [ticket.id for ticket in gpu.tickets]

    assert npu.token is not None
    assert npu.token.ticket is not None
    assert npu.token.ticket.dead
    assert npu.token.ticket_id == told["ghost"]["ticket"]
    assert told["ghost"]["pids"]
    assert all(map(alive, told["ghost"]["pids"]))

    ignored = int(Path(f"/proc/{told['deaf']}/status").read_text().split("SigIgn:")[1].split()[0], 16)
    assert ignored & 1 << signal.SIGTERM - 1
    assert alive(told["stray"])


def test_the_ends_of_holds_are_seen_by_the_sensors(demo: subprocess.Popen[bytes]) -> None:
    told = told_by(demo)
    overlay = Path(told["environ"]["HOLDTOP_PROC_OVERLAY"])
    users = [told["stray"], told["survivor"]["pid"], told["members"][0], told["deaf"]]
    assert sorted(int(entry.name) for entry in overlay.iterdir() if entry.name.isdigit()) == sorted(users)

    holder = int(told["holder"].split("-")[1])
    os.kill(holder, signal.SIGTERM)
    places_gpu = places.resolve("gpu", told["state_dir"])
    until(lambda: (token := look(places_gpu).token) is not None and token.ticket_id == told["waiting"][0])
    until(lambda: not (overlay / str(told["deaf"])).exists())
    assert not alive(told["deaf"])
    # The record follows the take by as long as the payload's start takes.
    until(lambda: told["waiting"][0] in look(places_gpu).records)
    root = look(places_gpu).records[told["waiting"][0]].root_pid
    until(lambda: (overlay / str(root) / "fdinfo").exists())
    assert (overlay / str(told["stray"])).exists()


@pytest.mark.parametrize("how", ["end of input", "TERM", "INT", "HUP", "KILL", "guardian killed"])
def test_nothing_is_left_however_it_ends(
    demo: subprocess.Popen[bytes], spool: Path, no_leftovers: Leftovers, how: str
) -> None:
    told = told_by(demo)
    assert len(list(spool.iterdir())) == 1
    assert len(no_leftovers()) > 10
    assert demo.stdin is not None
    statuses = {"end of input": 0, "TERM": 143, "INT": 130, "HUP": 129, "KILL": -9, "guardian killed": 1}
    if how == "end of input":
        demo.stdin.close()
    elif how == "guardian killed":
        os.kill(told["guardian"], signal.SIGKILL)
    else:
        demo.send_signal(signal.Signals[f"SIG{how}"])
    assert demo.wait(30) == statuses[how]
    if how in ("KILL", "guardian killed"):
        until(lambda: gone(spool, no_leftovers))
    assert gone(spool, no_leftovers)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("after", [0.05, 0.12, 0.2, 0.4, 0.8, 1.4])
def test_nothing_is_left_of_a_set_up_cut_short(
    demo: subprocess.Popen[bytes], spool: Path, no_leftovers: Leftovers, after: float, signum: signal.Signals
) -> None:
    time.sleep(after)
    demo.send_signal(signum)
    demo.wait(30)
    until(lambda: gone(spool, no_leftovers))


def test_status_of_the_demo_names_what_is_wrong(demo: subprocess.Popen[bytes]) -> None:
    told = told_by(demo)
    status = [
        sys.executable,
        "-m",
        "holdtop",
        "status",
        "--json",
        "-r",
        "all",
        "--state-dir",
        told["state_dir"],
    ]
    done = subprocess.run(
        status, env={**os.environ, **told["environ"]}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 3, done.stderr
    flags = {(flag["kind"], pid) for flag in json.loads(done.stdout)["flags"] for pid in flag["pids"] or [None]}
    kinds = {kind for kind, _ in flags}
    assert ("survivor", told["survivor"]["pid"]) in flags
    assert ("stray", told["stray"]) in flags
    assert "ghost" in kinds
    assert "split-state" not in kinds
    assert "stranded-memory" not in kinds


def test_without_a_terminal_nothing_is_set_up(spool: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdtop", "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode == 4
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "--script" in done.stderr
    assert list(spool.iterdir()) == []


def test_it_lives_where_it_is_told_to_and_never_in_what_is_there(spool: Path, no_leftovers: Leftovers) -> None:
    with sandbox(str(spool / "box")) as box:
        assert box.told["state_dir"] == str(spool / "box" / "state")
    until(lambda: gone(spool, no_leftovers))
    (spool / "box").mkdir()
    with pytest.raises(HoldtopError, match="File exists"), sandbox(str(spool / "box")):
        pass
    assert (spool / "box").is_dir()
