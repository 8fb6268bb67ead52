"""``record``, ``snapshot`` and the watch's own recording, as processes on real holds."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from holdtop.model.values import Flag, Snapshot
from holdtop.recorder import places
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.sampler import Sampler
from tests.hold.lanes import HOLDTOP, NAP, Box, until
from tests.hold.unkillable import frozen_files
from tests.watch.test_watch import bound, ghost


def recorded(path: Path) -> Recording | None:
    return Recording(str(path)) if list(path.glob("fine-*.rec")) else None


def kinds(path: Path) -> list[str]:
    found = recorded(path)
    return [mark.kind for _, mark in found.marks()] if found else []


def test_a_hold_from_take_to_end_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o2770)
    box, path = Box(tmp_path / "state"), tmp_path / "recording"
    words = [*HOLDTOP, "record", str(path), "--state-dir", str(box.state)]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as recorder:
        until(lambda: recorded(path), 20)
        lane = box.run("sleep", NAP, stderr=subprocess.DEVNULL)
        until(lambda: "taken" in kinds(path), 20)
        second = box.verb("record", str(path))
        assert (second.returncode, "another recorder keeps this" in second.stderr) == (1, True)
        ticket = box.tickets()[0]
        assert box.verb("kill", ticket, "--yes", "--reason", "enough --token s3cr3t").returncode == 0
        lane.wait(20)
        until(lambda: {"aborted", "act"} <= set(kinds(path)), 20)
        recorder.send_signal(signal.SIGTERM)
        _, said = recorder.communicate(timeout=20)
    assert (recorder.returncode, "recording in" in said) == (0, True)
    recording = Recording(str(path))
    assert recording.damage == ()
    assert {one.event[0] for one in recording.told if one.event} == {"gpu"}
    holders = [recording.snapshot(place).resources[0].holder for place in range(len(recording.instants))]
    assert ticket in {holder.id for holder in holders if holder}
    told = subprocess.run([*HOLDTOP, "incident", str(path)], capture_output=True, text=True, check=True).stdout
    (outcome,) = (line for line in told.splitlines() if "| `kill` | `outcome` |" in line)
    assert "enough --token REDACTED" in outcome
    assert b"s3cr3t" not in b"".join(file.read_bytes() for file in path.iterdir())


def test_a_replay_has_the_flags_of_the_live_box_at_their_times(tmp_path: Path) -> None:
    box = ghost(tmp_path)
    recorder = Recorder(str(tmp_path / "recording"), pytest.fail)
    live: list[tuple[str, tuple[Flag, ...]]] = []
    over = threading.Event()

    def seen(snapshot: Snapshot) -> None:
        live.append((snapshot.taken_at, snapshot.flags))
        recorder.take(snapshot)
        if len(live) > 1 and not live[-1][1]:
            over.set()

    sampler = Sampler(state_dir=str(box.state), on_snapshot=seen, sensors=False)
    sampler.start()
    until(lambda: any(flags for _, flags in live), 20)
    assert box.verb("recover", "--yes", "--reason", "over").returncode == 0
    assert over.wait(20)
    sampler.stop()
    until(lambda: not any(one.name == "holdtop sampler" for one in threading.enumerate()), 20)
    recorder.close()
    recording = Recording(str(tmp_path / "recording"))
    looks = [recording.snapshot(position) for position in range(len(recording.instants))]
    assert [(one.taken_at, one.flags) for one in looks] == live
    assert {flag.kind for one in looks for flag in one.flags} == {"ghost"}


def test_the_watch_records_by_itself(tmp_path: Path) -> None:
    box, kept = Box(tmp_path), tmp_path / "kept"
    env = {**os.environ, "STATE_DIRECTORY": str(kept), "HOLDTOP_REFRESH": "0.2"}
    with subprocess.Popen([*HOLDTOP, "watch", "--state-dir", str(box.state)], env=env) as watch:
        until(lambda: recorded(kept / places.RECORDING), 20)
        watch.terminate()
    assert watch.returncode == 0


def test_a_watch_that_cannot_record_watches_on(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("no directory")
    env = {**os.environ, "STATE_DIRECTORY": str(tmp_path / "kept"), "HOLDTOP_REFRESH": "0.2"}
    words = [*HOLDTOP, "watch", "--state-dir", str(tmp_path)]
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stderr is not None
        assert "cannot record in" in watch.stderr.readline()
        assert watch.poll() is None
        watch.terminate()
        assert watch.communicate(timeout=20)[1] == ""
    assert watch.returncode == 0


def test_a_disk_that_hangs_ends_no_watch(tmp_path: Path) -> None:
    with frozen_files(tmp_path) as disk, bound(tmp_path / "manager") as manager:
        env = {**os.environ, "STATE_DIRECTORY": disk.path, "HOLDTOP_REFRESH": "0.2"}
        env["NOTIFY_SOCKET"] = str(tmp_path / "manager")
        words = [*HOLDTOP, "watch", "--state-dir", str(tmp_path)]
        with subprocess.Popen(words, env=env) as watch:
            try:
                for _ in range(10):
                    assert b"WATCHDOG=1" in manager.recv(65536)
                assert not os.path.exists(os.path.join(disk.path, places.RECORDING))
                disk.thaw()
                until(lambda: recorded(Path(disk.path) / places.RECORDING), 20)
            finally:
                disk.thaw()
                watch.terminate()
    assert watch.returncode == 0


def test_where_the_watch_keeps_its_recording(tmp_path: Path) -> None:
    """``STATE_DIRECTORY`` may name several (systemd.exec(5))."""
    assert places.kept({"STATE_DIRECTORY": "/var/lib/holdtop/watch:/x"}) == "/var/lib/holdtop/watch/recording"
    assert places.kept({}) == f"{os.environ['HOME']}/.local/state/holdtop/recording"


def test_a_snapshot_is_one_file_and_never_overwrites_one(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o2770)
    box, file = Box(tmp_path / "state"), tmp_path / "now.rec"
    lane = box.run("sh", "-c", f"sleep {NAP}; : --password hunter2", stderr=subprocess.DEVNULL)
    box.until_running()
    done = box.verb("snapshot", str(file))
    assert (done.returncode, done.stdout) == (0, "")
    again = box.verb("snapshot", str(file))
    assert (again.returncode, "name another file" in again.stderr) == (1, True)
    recording = Recording(str(file))
    holder = recording.snapshot(0).resources[0].holder
    assert holder is not None
    assert holder.payload is not None
    assert any(NAP in " ".join(process.command) for process in holder.payload.processes)
    assert b"hunter2" not in recording.body(0)
    assert any(one.event for one in recording.told)
    lane.terminate()
    lane.wait(20)
