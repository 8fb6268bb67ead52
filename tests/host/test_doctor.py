"""Each planted fault is found, named and given its remedy; a healthy recorded machine has none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdtop.errors import PlaceError
from holdtop.host.amdsmi import Opinion
from holdtop.host.doctor import SECTIONS, Case, Fact, Finding, Said, Unlooked, examine
from holdtop.host.doctor.box import cgroups, clock
from holdtop.host.doctor.devices import devices
from holdtop.host.doctor.second_opinion import SLACK_TOTAL, SLACK_USED, compare
from holdtop.model.values import Reading
from holdtop.payload.cgroup import Cgroup
from holdtop.sampler import look_once
from holdtop.sources.roots import Roots
from tests.hold.lanes import until
from tests.host.machines import CARD, change, healthy, roots
from tests.reading.machines import recorded, tree

PCI = "0000:c1:00.0"
GIB = 1024**3


def case(state: Path, machine: Roots) -> Case:
    return Case(machine, str(state), look_once(state_dir=str(state), roots=machine, deadline=20))


def said(state: Path, machine: Roots) -> list[Said]:
    """Of all sections but ``box``'s cgroup, which is this very process's."""
    every = examine(case(state, machine), deadline=30)
    return [one for section in every.values() for one in section if one.kind not in ("cgroup", "no-cgroup")]


def found(every: list[Said]) -> dict[str, Finding]:
    return {one.kind: one for one in every if isinstance(one, Finding)}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir()
    return tmp_path / "state"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return healthy(tmp_path / "machine")


def test_a_healthy_machine(state: Path, machine: Path) -> None:
    every = said(state, roots(machine))
    assert [one for one in every if not isinstance(one, Fact)] == []
    facts = "\n".join(one.what for one in every if isinstance(one, Fact))
    for fact in (
        f"apu {PCI}, programs get GTT of 15.3 GiB",
        "Tctl: 61.5 C",
        "programs get GTT (GTT 15.3 GiB, VRAM 512 MiB)",
        "lets the GPU have 15.3 GiB of RAM",
        "every process can be read",
        "Linux 6.18.1-arch1, amdgpu 6.14.14, built beside the kernel",
        "amdsmi is not asked",
    ):
        assert fact in facts


NO_K10TEMP = {"sys/class/hwmon/hwmon1": None, "sys/module/k10temp": None}
GPU = {
    "sys/bus/pci/devices/0000:03:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:03:00.0/device": "0x7550\n",
    "sys/bus/pci/devices/0000:03:00.0/class": "0x030000\n",
}
#: What is planted: the finding's kind, words of what was seen, words of the remedy.
PLANTED: dict[str, tuple[Mapping[str, str | None], str, str, str]] = {
    "k10temp is not loaded": (NO_K10TEMP, "no-tctl", "no sensor chip at all", "modprobe k10temp"),
    "k10temp is not loaded, others are": (
        {**NO_K10TEMP, "sys/class/hwmon/hwmon0/name": "iwlwifi_1\n"},
        "no-tctl",
        "the module k10temp is not loaded",
        "/etc/modules-load.d/k10temp.conf",
    ),
    "k10temp does not know Strix Halo": (
        {
            "sys/class/hwmon/hwmon1": None,
            f"{CARD}/device": "0x1586\n",
            "proc/sys/kernel/osrelease": "6.14.0-1014-oem\n",
        },
        "no-tctl",
        "from Linux 6.18 on (late 6.17 releases too), this is 6.14.0-1014-oem",
        "boot Linux 6.18 or newer",
    ),
    "the same by its data fabric": (
        {
            **NO_K10TEMP,
            "sys/bus/pci/devices/0000:00:18.3/vendor": "0x1022\n",
            "sys/bus/pci/devices/0000:00:18.3/device": "0x12bb\n",
            "proc/sys/kernel/osrelease": "6.9.3\n",
        },
        "no-tctl",
        "this is 6.9.3",
        "boot Linux 6.18 or newer",
    ),
    "k10temp does not know the processor": (
        {"sys/class/hwmon/hwmon1": None},
        "no-tctl",
        "k10temp is loaded and does not know this processor",
        "boot a kernel newer than 6.18.1-arch1",
    ),
    "no channel is labelled Tctl": (
        {"sys/class/hwmon/hwmon1/temp1_label": "Tdie\n"},
        "no-tctl",
        "no k10temp or zenpower sensor with a channel Tctl",
        "grep .",
    ),
    "no counter": (
        {f"{CARD}/mem_info_gtt_used": None},
        "no-counter",
        f"{PCI}: mem_info_gtt_used is not there",
        "journalctl -k -b -g amdgpu",
    ),
    "no chip of the card": (
        {f"{CARD}/hwmon": None, f"{CARD}/gpu_metrics": None},
        "no-hwmon",
        f"{PCI}: no sensor chip amdgpu",
        "CONFIG_HWMON",
    ),
    "no pressure": ({"proc/pressure": None}, "no-pressure", "CONFIG_PSI", "boot with psi=1"),
    "a card without a driver": (
        {**GPU, "sys/module/amdgpu": None},
        "no-driver",
        "AMD's gpu 0000:03:00.0 (1002:7550) has no card",
        "sudo modprobe amdgpu",
    ),
    "a card that its driver gave up": (
        GPU,
        "no-driver",
        "AMD's gpu 0000:03:00.0 (1002:7550) has no card",
        "journalctl -k -b -g 'amdgpu|0000:03:00.0'",
    ),
    "a card that hung": ({f"{CARD}/devcoredump/data": "x"}, "gpu-reset", PCI, "journalctl"),
    "stranded memory": ({"proc/700/fdinfo/5": "pos:\t0\n"}, "stranded-memory", "3.7 GiB", "systemctl reboot"),
    "a limit below GTT": (
        {"sys/module/ttm/parameters/pages_limit": "2006955\n"},
        "ttm-limit",
        "GTT has 15.3 GiB, and the kernel (ttm.pages_limit) lets it have 7.7 GiB",
        "boot with ttm.pages_limit=4013917",
    ),
    "the deprecated parameter": (
        {"proc/cmdline": "quiet amdgpu.gttsize=15679\n"},
        "gttsize",
        "amdgpu.gttsize=15679",
        "boot with ttm.pages_limit=4013917 and without amdgpu.gttsize",
    ),
    "more GTT than RAM": (
        {"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 10000000 kB\n"},
        "gtt-beyond-ram",
        "GTT has 15.3 GiB, 54 MiB more than the machine (MemTotal)",
        "boot with ttm.pages_limit=3750000 ",
    ),
    "a kernel without fdinfo": (
        {"proc/sys/kernel/osrelease": "5.10.0-28-amd64\n"},
        "old-kernel",
        "Linux 5.10.0-28-amd64 is older than 5.14",
        "boot a newer kernel",
    ),
    "few inotify instances": (
        {"proc/sys/fs/inotify/max_user_instances": "64\n"},
        "few-inotify",
        "an account has 64 inotify instances",
        "fs.inotify.max_user_instances=1024",
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_alone(fault: str, state: Path, machine: Path) -> None:
    changes, kind, what, remedy = PLANTED[fault]
    change(machine, changes)
    findings = found(said(state, roots(machine)))
    assert list(findings) == [kind]
    assert what in findings[kind].what
    assert remedy in findings[kind].remedy
    assert findings[kind].why


NPU = {
    "sys/bus/pci/devices/0000:c2:00.1/vendor": "0x1022\n",
    "sys/bus/pci/devices/0000:c2:00.1/device": "0x17f0\n",
}


def test_an_npu_without_a_driver_is_missed_by_who_uses_one(state: Path, machine: Path) -> None:
    change(machine, NPU)
    assert found(said(state, roots(machine))) == {}
    (state / "npu-queue").mkdir()  # as ``state init`` makes one on every box
    assert found(said(state, roots(machine))) == {}
    (state / "npu-token").write_text("lane 1\n")
    finding = found(said(state, roots(machine)))["no-driver"]
    assert "AMD's npu 0000:c2:00.1 (1022:17f0) has no driver (amdxdna, Linux 6.14)" in finding.what
    assert finding.remedy == "sudo modprobe amdxdna"


@pytest.mark.parametrize("sys", ["nothing", "another's card"])
def test_a_box_without_amd_is_well(sys: str, state: Path, tmp_path: Path, machine: Path) -> None:
    if sys != "nothing":
        tree(tmp_path / "other", {"class/drm/card0/device/vendor": "0x8086\n"})
    every = said(state, Roots(str(tmp_path / "other"), str(machine / "proc")))
    assert [one for one in every if not isinstance(one, Fact)] == []
    assert "no AMD device, and nothing that asks for one" in [one.what for one in every if isinstance(one, Fact)]


def test_recorded_machines_that_lack_what_was_not_kept(state: Path) -> None:
    """What lacks is said with the reason, and nothing is invented."""
    kinds = {
        "1586-carveout-96g": {"no-tctl", "no-counter", "no-hwmon", "no-pressure"},
        "1586-orphaned-gtt-43g": {"no-tctl", "no-counter", "no-hwmon", "no-pressure"},
        "no-k10temp": {"no-tctl", "no-counter", "no-pressure"},
        "zenpower": set(),
        "npu-phoenix": set(),
        "dgpu-suspended": set(),
    }
    for name, right in kinds.items():
        assert set(found(said(state, recorded(name)))) == right, name


def test_a_pool_is_named_as_it_is(state: Path) -> None:
    facts = [one.what for one in said(state, recorded("1586-carveout-96g")) if isinstance(one, Fact)]
    assert "programs get VRAM (GTT 15.5 GiB, VRAM 96.0 GiB)" in facts


def test_what_hangs_could_not_be_looked_at(state: Path, machine: Path) -> None:
    for name in ("gpu_busy_percent", "gpu_metrics"):
        (machine / CARD / name).unlink()
        os.mkfifo(machine / CARD / name)
    there = Case(roots(machine), str(state), look_once(state_dir=str(state), roots=roots(machine), deadline=3))
    every = [one for section in examine(there, deadline=20).values() for one in section]
    unlooked = {one.what: one.why for one in every if isinstance(one, Unlooked)}
    assert unlooked["gpu_busy_percent"].startswith("timeout")
    assert {kind for kind in found(every) if kind != "no-cgroup"} == set()
    for name in ("gpu_busy_percent", "gpu_metrics"):
        _let_go(machine / CARD / name)


def _let_go(fifo: Path) -> None:
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return


def test_a_section_that_hangs_or_fails_takes_no_other_with_it(state: Path, machine: Path) -> None:
    release = threading.Event()

    def hangs(_: Case) -> Iterator[Said]:
        release.wait()
        yield Fact("late", "late")

    def fails(_: Case) -> Iterator[Said]:
        yield Fact("first", "before it failed")
        raise PlaceError("no such place")

    began = time.monotonic()
    there = case(state, roots(machine))
    every = examine(there, {"hangs": hangs, "fails": fails, "devices": devices}, deadline=1)
    assert time.monotonic() - began < 60
    assert [one.kind for one in every["hangs"]] == ["timeout"]
    assert every["fails"] == (
        Fact("first", "before it failed"),
        Unlooked("error", "the rest of this section", "no such place"),
    )
    assert [one.kind for one in every["devices"]] == ["device"]
    release.set()
    until(lambda: not [one for one in threading.enumerate() if one.name == "holdtop hangs"])


def test_closed_processes_are_no_finding(state: Path, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from holdtop.sources import users

    def denied(*_: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(users, "_look_into", denied)
    every = said(state, roots(machine))
    assert found(every) == {}
    (closed,) = [one for one in every if isinstance(one, Unlooked)]
    assert closed.what == "the descriptors (fdinfo) of 1 process"
    assert "3.7 GiB of device memory belong to nobody seen" in closed.why


def test_delegation() -> None:
    gone = Cgroup("/user.slice/a.scope", "/nonexistent")
    assert isinstance(cgroups(gone, None), Fact)
    for said_ in (cgroups(gone, "no user bus"), cgroups(None, "no version 2 cgroup hierarchy")):
        assert isinstance(said_, Finding)
    assert "/user.slice/a.scope is not delegated to this account, and no user bus" in cgroups(gone, "no user bus").what


def test_delegated(tmp_path: Path) -> None:
    tree(tmp_path, {"cgroup.procs": ""})
    assert isinstance(cgroups(Cgroup("/x", str(tmp_path)), "no user bus"), Fact)


def test_a_clock_that_was_never_set() -> None:
    assert isinstance(clock(datetime(1970, 1, 2, tzinfo=UTC)), Finding)
    assert isinstance(clock(datetime(2026, 1, 2, tzinfo=UTC)), Fact)


def opinion(**sizes: int | None) -> Opinion:
    every = {f"{pool}_{kind}_bytes": None for pool in ("gtt", "vram") for kind in ("used", "total")} | sizes
    return Opinion(
        PCI, "Radeon", "Linuxver", {name: Reading(size, None if size else "no") for name, size in every.items()}
    )


def counted(used: int, total: int = 16 * GIB) -> dict[str, Mapping[str, Reading]]:
    sizes = {"gtt_used_bytes": used, "gtt_total_bytes": total}
    return {PCI: {name: Reading(size, source=f"/sys/{name}") for name, size in sizes.items()}}


@pytest.mark.parametrize(
    ("before", "after", "used", "agree"),
    [
        (4 * GIB, 4 * GIB, 4 * GIB, True),
        (4 * GIB, 4 * GIB, 4 * GIB + SLACK_USED, True),
        (4 * GIB, 4 * GIB, 4 * GIB + SLACK_USED + 1, False),
        (4 * GIB, 4 * GIB, 4 * GIB - SLACK_USED - 1, False),
        (4 * GIB, 8 * GIB, 6 * GIB, True),
        (8 * GIB, 4 * GIB, 6 * GIB, True),
        (8 * GIB, 4 * GIB, 9 * GIB, False),
    ],
)
def test_used_memory_may_move_while_it_is_asked_for(before: int, after: int, used: int, agree: bool) -> None:
    every = list(compare(counted(before), counted(after), (opinion(gtt_used_bytes=used),)))
    assert ("opinions-differ" not in found(every)) is agree
    if not agree:
        what = found(every)["opinions-differ"].what
        assert f"{PCI}: gtt used is {after / GIB:.1f} GiB by the kernel and {used / GIB:.1f} GiB by amdsmi" == what


@pytest.mark.parametrize(("off", "agree"), [(0, True), (SLACK_TOTAL, True), (SLACK_TOTAL + 1, False)])
def test_a_total_does_not_move(off: int, agree: bool) -> None:
    every = list(compare(counted(GIB), counted(GIB), (opinion(gtt_total_bytes=16 * GIB - off),)))
    assert ("opinions-differ" not in found(every)) is agree


def test_what_one_of_both_does_not_say_is_no_difference() -> None:
    every = list(compare(counted(GIB), counted(GIB), (opinion(vram_used_bytes=GIB),)))
    assert found(every) == {}
    (silent,) = [one for one in every if isinstance(one, Unlooked)]
    assert "gtt used (no)" in silent.why
    assert "vram used (the kernel does not say it)" in silent.why


def test_devices_that_one_of_both_does_not_see() -> None:
    (unseen,) = compare(counted(GIB), counted(GIB), ())
    assert isinstance(unseen, Finding)
    assert unseen.what == f"the kernel shows {PCI}, amdsmi does not"
    (unseen, *_) = compare({}, {}, (opinion(),))
    assert isinstance(unseen, Finding)


def test_every_section_is_listed_once() -> None:
    assert list(SECTIONS) == ["devices", "readings", "memory", "second opinion", "box", "state", "runners"]
