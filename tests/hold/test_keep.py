"""Who has the device open: what it spares (``--keep-daemons``), and what it only names (nothing of the hold's tree)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdtop.payload.process import Identity, is_alive, read_stat
from tests.hold.lanes import NAP, Box, ended, sleepers, until
from tests.hold.unkillable import finally_ended

KEEP = ("--keep-daemons", "--grace", "1")
RENDER_NODE = "/dev/dri/renderD128"
#: A daemon and its worker in a session of their own, and a job of the root's session; the root leaves when told to.
ROOT = f"""
setsid -f sh -c 'sleep {NAP} & echo $! > "$1.worker"; echo $$ > "$1.daemon"; wait' sh "$1"
sleep {NAP} & echo $! > "$1.job"
until [ -e "$1.leave" ]; do sleep 0.05; done
exit 3
"""


@dataclass
class Devices:
    """Who has which device open, laid over the real descriptors."""

    overlay: Path

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "HOLDTOP_PROC_OVERLAY": str(self.overlay)}

    def open_by(self, pid: int) -> Path:
        """That process has the render node open, with 8 GiB of GTT; gives the file that says so."""
        for name in ("fd", "fdinfo"):
            (self.overlay / str(pid) / name).mkdir(parents=True)
        said = self.overlay / str(pid) / "fdinfo" / "7"
        said.write_text(f"drm-driver:\tamdgpu\ndrm-client-id:\t{pid}\ndrm-memory-gtt:\t8388608 KiB\n")
        (self.overlay / str(pid) / "fd" / "7").symlink_to(RENDER_NODE)
        return said


@dataclass
class Leaving:
    """A hold whose root is about to leave a daemon behind."""

    state: Box
    lane: subprocess.Popen[bytes]
    file: Path

    def pid(self, name: str) -> int:
        file = Path(f"{self.file}.{name}")
        until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    def leave(self) -> tuple[int, str]:
        Path(f"{self.file}.leave").touch()
        status = self.lane.wait(30)
        return status, self.file.read_text()


@pytest.fixture
def devices(tmp_path: Path) -> Devices:
    (tmp_path / "overlay").mkdir()
    return Devices(tmp_path / "overlay")


@pytest.fixture(params=["auto", "subreaper"])
def leaving(
    state: Box, tmp_path: Path, devices: Devices, stranger: int, request: pytest.FixtureRequest
) -> Iterator[Leaving]:
    file = tmp_path / "said"
    with file.open("wb") as stderr:
        options = [*KEEP, "--contain", request.param]
        line = ("sh", "-c", ROOT, "sh", str(file))
        lane = state.run(*line, options=options, env=devices.environ, stderr=stderr)
    made = Leaving(state, lane, file)
    with finally_ended(made.pid("daemon"), made.pid("worker"), made.pid("job")):
        yield made
    until(lambda: sleepers() == [stranger])


@pytest.fixture
def stranger() -> Iterator[int]:
    """A process older than the hold, which nobody may touch."""
    process = subprocess.Popen(["sleep", NAP])
    yield process.pid
    process.terminate()
    assert process.wait() == -signal.SIGTERM


def event(state: Box, name: str) -> dict[str, Any]:
    (found,) = (event for event in state.events() if event["event"] == name)
    return found


def alive(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and not stat.dead


def test_a_daemon_without_the_device_is_kept_and_named(leaving: Leaving) -> None:
    kept = [leaving.pid("daemon"), leaving.pid("worker")]
    status, errors = leaving.leave()
    assert status == 3
    assert all(map(alive, kept))
    assert not alive(leaving.pid("job")), "it never left the root's session"
    assert f"pid {kept[0]} (sh, uid {os.getuid()})" in errors
    assert "was kept, as --keep-daemons asks" in errors
    (said,) = leaving.state.receipts()
    assert (said["verdict"], said["released"]) == ("unknown", True)
    assert sorted((left["pid"], left["why"]) for left in said["left"]) == sorted((pid, "kept") for pid in kept)
    assert event(leaving.state, "ended")["left"] == said["left"]
    assert leaving.state.leftovers() == []


@pytest.mark.parametrize("who", ["daemon", "worker"])
def test_a_daemon_with_the_device_open_is_ended(leaving: Leaving, devices: Devices, who: str) -> None:
    pids = [leaving.pid(name) for name in ("daemon", "worker", "job")]
    devices.open_by(leaving.pid(who))
    status, errors = leaving.leave()
    assert status == 3
    # The daemon's worker is a daemon as well: it may stay when only the daemon itself has the device.
    ended_, stay = (pids, []) if who == "worker" else ([pids[0], pids[2]], [pids[1]])
    assert not any(map(alive, ended_))
    assert all(map(alive, stay))
    assert ("was kept" in errors) == bool(stay)
    assert leaving.state.leftovers() == []


def test_nobody_is_kept_on_a_guess(leaving: Leaving, devices: Devices, stranger: int) -> None:
    """Reading who has the device open never returns: a driver that hangs."""
    pids = [leaving.pid(name) for name in ("daemon", "worker", "job")]
    said = devices.open_by(stranger)
    said.unlink()
    os.mkfifo(said)
    status, errors = leaving.leave()
    assert status == 3
    assert not any(map(alive, pids))
    assert "no daemon is kept: who has the device open cannot be told" in errors
    assert leaving.state.receipts()[0]["suspects"] is None
    assert leaving.state.leftovers() == []


def test_a_recorded_process_table_spares_nobody(state: Box, tmp_path: Path) -> None:
    """There the daemon has nothing open, and so has nobody else."""
    recording = {**os.environ, "HOLDTOP_PROC": str(tmp_path)}
    status, errors = ended(state.run("sh", "-c", f"setsid -f sleep {NAP}; exit 3", options=KEEP, env=recording))
    assert status == 3
    assert "no daemon is kept" in errors
    assert sleepers() == []


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Path]:
    """A container engine that runs before any hold, and the directory of its client: ``docker``."""
    orders, said = tmp_path / "orders", tmp_path / "container"
    os.mkfifo(orders)
    serve = f"read order < {orders}; sleep {NAP} & echo $! > {said}; wait"
    daemon = subprocess.Popen(["sh", "-c", serve])
    client = tmp_path / "bin" / "docker"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\necho "$*" > {orders}\nexec sleep {NAP}\n')
    client.chmod(0o755)
    yield client.parent
    daemon.terminate()
    daemon.wait()


def test_a_container_that_the_engine_started_is_named_and_not_ended(
    state: Box, tmp_path: Path, devices: Devices, engine: Path, stranger: int
) -> None:
    devices.open_by(stranger)
    environ = {**devices.environ, "PATH": f"{engine}:{os.environ['PATH']}"}
    lane = state.run("docker", "run", "x", options=["--max-hold", "2", "--grace", "1"], env=environ)
    file = tmp_path / "container"
    until(lambda: file.exists() and file.read_text().endswith("\n"))
    with finally_ended(int(file.read_text())) as (container,):
        devices.open_by(container.pid)
        status, errors = ended(lane)
        assert status == 124
        assert alive(container.pid)
        assert f"pid {container.pid} (sleep, uid {os.getuid()}) has the device open and appeared" in errors
        (said,) = state.receipts()
        assert (said["verdict"], said["left"]) == ("unknown", []), "not clean"
        assert [(one["pid"], one["found_by"]) for one in said["suspects"]] == [(container.pid, "device")]
        assert event(state, "ended")["suspects"] == said["suspects"]
        assert state.leftovers() == []
        _flagged_until_an_operator_ends_it(state, container, devices)


def _flagged_until_an_operator_ends_it(state: Box, container: Identity, devices: Devices) -> None:
    looked = state.verb("status", "-r", "gpu", "--json", env=devices.environ).stdout
    assert container.pid in [
        pid for flag in json.loads(looked)["flags"] if flag["kind"] == "stray" for pid in flag["pids"]
    ]
    line = ("kill", "--pid", str(container.pid), "--reason", "its client is gone", "--grace", "1")
    assert state.verb(*line, env=devices.environ).returncode == 6, "nobody has confirmed it"
    assert is_alive(container)
    assert state.verb(*line, "--yes", env=devices.environ).returncode == 0
    assert not is_alive(container)
