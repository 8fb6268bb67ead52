"""``holdtop doctor`` as somebody runs it: its output, its status, and AMD's library beside a live ``/sys``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hold.lanes import HOLDTOP
from tests.host import libraries
from tests.host.machines import CARD, change, healthy

#: A machine's sysfs in the place of this one's, in a mount namespace of its own.
LIVE = ("unshare", "--mount", "--propagation", "private", "sh", "-ec", 'mount --rbind "$0" /sys; exec "$@"')


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return healthy(tmp_path / "machine")


def doctor(machine: Path, *words: str, live: bool = False, **changes: str) -> subprocess.CompletedProcess[str]:
    sysfs = machine / "sys"
    where = {} if live else {"HOLDTOP_SYS": str(sysfs), "HOLDTOP_PROC": str(machine / "proc")}
    state = machine.parent / "state"
    state.mkdir(exist_ok=True)
    command = [*HOLDTOP, "doctor", "--state-dir", str(state), *words]
    return subprocess.run(
        [*LIVE, str(sysfs), *command] if live else command,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "ROCM_PATH": str(machine / "no-rocm"), **where, **changes},
        check=False,
    )


def answer(machine: Path, **given: Any) -> Mapping[str, Any]:
    done = doctor(machine, "--json", **given)
    said: dict[str, Any] = json.loads(done.stdout)
    assert said["schema"] == 1
    assert done.returncode == (1 if said["findings"] else 0)
    return said


def kinds(machine: Path, **given: Any) -> set[str]:
    return {one["kind"] for one in answer(machine, **given)["findings"]}


def test_one_object_and_a_status(machine: Path) -> None:
    """Some findings may be this very box's own: what was planted comes to them."""
    before = kinds(machine)
    change(machine, {f"{CARD}/mem_info_gtt_used": None})
    said = answer(machine)
    assert said["roots"] == [f"HOLDTOP_SYS={machine}/sys", f"HOLDTOP_PROC={machine}/proc"]
    (finding,) = (one for one in said["findings"] if one["kind"] not in before)
    assert set(finding) == {"section", "kind", "what", "why", "remedy", "about"}
    assert "mem_info_gtt_used" in finding["what"]


def test_a_locale_that_has_but_ascii(machine: Path) -> None:
    change(machine, {"proc/700/stat": None, "proc/700/comm": "lläma\x1b[31m\n"})
    done = doctor(machine, LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii")
    assert done.stdout.isascii()
    assert "\x1b" not in done.stdout
    assert "not the live box" in done.stdout
    assert done.stderr.count("\n") == 1


def test_an_output_that_is_full(machine: Path) -> None:
    """Nothing could be said: that is never a healthy box."""
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*HOLDTOP, "doctor", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            env={**os.environ, "HOLDTOP_SYS": str(machine / "sys"), "HOLDTOP_PROC": str(machine / "proc")},
            check=False,
        )
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare: binds over /sys")
@pytest.mark.parametrize(("off", "differs"), [(0, False), (1 << 30, True)])
def test_the_second_opinion_is_held_against_the_kernels(machine: Path, off: int, differs: bool) -> None:
    """The library is asked in a child, beside the counters of what is ``/sys`` to the whole program."""
    (address, said), *_ = libraries.STRIX_POINT.items()
    told = {address: {**said, "gtt_total_bytes": int(str(said["gtt_total_bytes"])) + off}}
    path = libraries.install(machine.parent / "library", libraries.answering(told))
    every = answer(machine, live=True, PYTHONPATH=str(path))
    assert any("Radeon 890M Graphics" in one["what"] for one in every["facts"])
    assert ("opinions-differ" in {one["kind"] for one in every["findings"]}) is differs


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs unshare: binds over /sys")
def test_without_the_library_the_doctor_goes_on(machine: Path) -> None:
    path = libraries.install(machine.parent / "library", "print('libamd_smi.so: no'); raise KeyError('libamd_smi.so')")
    every = answer(machine, live=True, PYTHONPATH=str(path))
    assert "no-amdsmi" in {one["kind"] for one in every["facts"]}
    assert "amdsmi" not in {one["section"] for one in every["findings"]}
