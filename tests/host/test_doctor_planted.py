"""Every fault that can be planted on a box is found by one ``holdtop doctor``, and on the box before it none is.

The faults are real: files, modes, owners, mounts, processes, accounts and units, in a box with a service manager of its
own; only the sensors of a card are a recorded machine's, bound over ``/sys``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.host.runner.settings import SYSTEM_PATH
from tests.hold.lanes import HOLDTOP, NAP
from tests.host.machines import CARD, change, healthy
from tests.host.runners import TOOLS, furnish, put, start
from tests.host.system_manager import SystemBox, system_manager
from tests.host.test_init import OLD_TOOL

STATE = DEFAULT_STATE_DIR
LISTENER = "#!/bin/sh\nexec sleep 1000000\n"
#: The recorded machine in the place of this one, then what is planted there, then the doctor: for one process alone.
INNER = """
cd {machine}
mount --make-rprivate /
mount --bind /sys/fs/cgroup sys/fs/cgroup
mount --rbind sys /sys
find proc -type f | while read -r file; do mount --bind "$file" "/$file"; done
{planted}
cd /
exec "$@"
"""


@dataclass(frozen=True)
class Fault:
    """``plant`` is a shell's words, or files of the recorded machine (``None``: it is taken away)."""

    kind: str
    says: str
    plant: str | Mapping[str, str | None] = ""


#: On the machine.
CARD_LESS = "sys/bus/pci/devices/0000:03:00.0"
MACHINE = {
    "k10temp is not loaded": Fault("no-tctl", "no Tctl", {"sys/class/hwmon/hwmon1": None, "sys/module/k10temp": None}),
    "a counter is missing": Fault(
        "no-counter", "mem_info_vram_used is not there", {f"{CARD}/mem_info_vram_used": None}
    ),
    "the card has no chip": Fault(
        "no-hwmon", "no sensor chip amdgpu", {f"{CARD}/hwmon": None, f"{CARD}/gpu_metrics": None}
    ),
    "a card without a driver": Fault(
        "no-driver",
        "0000:03:00.0",
        {f"{CARD_LESS}/class": "0x030000\n", f"{CARD_LESS}/vendor": "0x1002\n", f"{CARD_LESS}/device": "0x7550\n"},
    ),
    "a card hung": Fault("gpu-reset", "0000:c1:00.0", {f"{CARD}/devcoredump/data": "x"}),
    "GTT is not allowed": Fault("ttm-limit", "ttm.pages_limit", {"sys/module/ttm/parameters/pages_limit": "2006955\n"}),
    "GTT by a deprecated word": Fault(
        "gttsize", "amdgpu.gttsize=15679", {"proc/cmdline": "quiet amdgpu.gttsize=15679\n"}
    ),
    "more GTT than RAM": Fault(
        "gtt-beyond-ram", "(MemTotal)", {"proc/meminfo": "MemTotal: 16000000 kB\nMemAvailable: 10000000 kB\n"}
    ),
    "an old kernel": Fault("old-kernel", "Linux 5.10.0 is older", {"proc/sys/kernel/osrelease": "5.10.0\n"}),
    "few inotify instances": Fault("few-inotify", "has 64 inotify", {"proc/sys/fs/inotify/max_user_instances": "64\n"}),
    "no pressure": Fault("no-pressure", "CONFIG_PSI", "mount -t tmpfs none /proc/pressure"),
    "a full disk": Fault(
        "disk",
        f"{STATE}: <1 MiB free",
        "mkdir /run/small; mount -t tmpfs -o size=64k,mode=2770,gid=fleethold none /run/small;"
        f"cp -a {STATE}/. /run/small; mount --bind /run/small {STATE}",
    ),
}
OWNERS = "/home/owner"
#: A process of the owner's; its groups are the next word.
LANE = "setpriv --reuid owner --regid owner"
NAPS = f"sleep {NAP} >/dev/null 2>&1 &"
#: Of accounts and their state.
ACCOUNTS = {
    "all may write above": Fault("writable-way", "/var/lib may be written by everybody", "chmod 777 /var/lib"),
    "a file of the queue is open": Fault(
        "open-state", ".sequence", f"touch {STATE}/gpu-queue/.sequence; chmod 666 {STATE}/gpu-queue/.sequence"
    ),
    "members cannot queue": Fault("closed-state", "npu-queue has mode 2750", f"chmod 2750 {STATE}/npu-queue"),
    "a file of another group": Fault(
        "wrong-group", f"{STATE}/x", f"touch {STATE}/x; chmod 600 {STATE}/x; chgrp ghrunner {STATE}/x"
    ),
    "the lock is missing": Fault("incomplete", "npu.lock", f"rm {STATE}/npu.lock"),
    "a member owns the state": Fault("not-roots", "belongs to owner", f"chown owner {STATE}"),
    "the group is an account's own": Fault(
        "shared-group", "the own group of second", "useradd --create-home --gid fleethold second"
    ),
    "a start-up file is open": Fault(
        "writable-program", f"{OWNERS}/.zshrc", f"install -m 666 -o owner /dev/null {OWNERS}/.zshrc"
    ),
    "an old tool": Fault(
        "old-tool",
        f"{OWNERS}/bin/npu-hold",
        f"install -d -o owner {OWNERS}/bin; printf '%s' '{OLD_TOOL}' > {OWNERS}/bin/npu-hold; chmod 755 {OWNERS}/bin/*",
    ),
    "a tool that nobody can judge": Fault(
        "unknown-tool", f"{OWNERS}/bin/gpu-hold", f"install -m 755 /bin/true {OWNERS}/bin/gpu-hold"
    ),
    "a session from before": Fault("old-session", "without group fleethold", f"{LANE} --clear-groups {NAPS}"),
    "half a place": Fault("half-named", "only GPU_TOKEN_FILE", f"GPU_TOKEN_FILE=/tmp/t {LANE} --init-groups {NAPS}"),
    "another place": Fault("elsewhere", "ONEBIT_HOLD_DIR=/srv", f"ONEBIT_HOLD_DIR=/srv {LANE} --init-groups {NAPS}"),
    "a queue in a home lives": Fault(
        "two-queues",
        f"{OWNERS}/GPU-QUEUE",
        f"install -d -o owner {OWNERS}/GPU-QUEUE; {NAPS} install -o owner /dev/null {OWNERS}/GPU-QUEUE/job.shell.$!",
    ),
}
#: As the vendor's script makes it, and one that was put aside.
VENDORS = "[Service]\nExecStart=/bin/sleep 1000000\nKillMode=process\n[Install]\nWantedBy=multi-user.target\n"
USUAL = ":".join(SYSTEM_PATH)
#: Of runners, by the name of each: lines of the unit that are replaced, and shell's words after the start.
RUNNERS = {
    "oom": (Fault("oom-policy", "OOMPolicy=stop"), {"OOMPolicy=continue": "OOMPolicy=stop"}),
    "restart": (Fault("restart", "Restart=on-failure"), {"Restart=always": "Restart=on-failure"}),
    "kill": (Fault("kill-mode", "KillMode=process"), {"KillMode=mixed": "KillMode=process"}),
    "limit": (Fault("start-limit", "StartLimitIntervalSec=10"), {"StartLimitIntervalSec=0": ""}),
    "most": (Fault("memory-max", "MemoryMax is not set"), {"MemoryMax=48G": "MemoryMax=infinity"}),
    "high": (Fault("memory-high", "is not below MemoryMax"), {"MemoryHigh=43.2G": "MemoryHigh=48G"}),
    "user": (Fault("user", "User=root"), {"User=ghrunner": "User=root"}),
    "dead": (Fault("not-active", "it is inactive", "systemctl stop holdtop-runner-dead"), {}),
    "killed": (
        Fault("failed", "Result=signal", "systemctl kill -s KILL holdtop-runner-killed"),
        {"Restart=always": "Restart=no"},
    ),
    "off": (Fault("not-enabled", "it is disabled", "systemctl disable --quiet holdtop-runner-off"), {}),
    "stale": (
        Fault("stale", "files have changed", "touch -d tomorrow /etc/systemd/system/holdtop-runner-stale.service"),
        {},
    ),
    "removed": (
        Fault("no-unit", "there is no such unit", "install -D /dev/null /var/lib/holdtop/runner-removed.json"),
        None,
    ),
    "models": (
        Fault("unreadable", "/var/lib/models"),
        {"TasksMax=8192": 'Environment="HW_GATE_MODELS=/var/lib/models"'},
    ),
    "path": (
        Fault("no-tool", "finds no gpu-hold"),
        {f'Environment="PATH={TOOLS}:{USUAL}"': f'Environment="PATH={USUAL}"'},
    ),
    "owns": (Fault("writable", f"may write {TOOLS}/npu-hold", f"chown ghrunner {TOOLS}/npu-hold"), {}),
}

VENDORS_FAULT = Fault("vendor-runner", "Restart=no is in force, KillMode=process is in force")
#: What a runner's account is denied by a closed queue and a lost lock, and has not as root.
FOLLOWS = {"state-denied", "lock", "old-groups"}


def examined(box: SystemBox, machine: Path, *planted: str) -> list[dict[str, str]]:
    """The findings, as root in a unit: what runs in none has no cgroup of its own."""
    inner = INNER.format(machine=machine, planted="\n".join(planted))
    words = ["systemd-run", "--quiet", "--pipe", "--wait", "--property=Delegate=yes", "--setenv=HOME=/root", "--"]
    done = box.do(*words, "sh", "-ec", inner, "sh", *HOLDTOP, "doctor", "--json", check=False)
    said = json.loads(done.stdout)
    closed = [one["why"] for one in said["could_not_look"]]
    assert [why.partition(";")[0] for why in closed] == ["this pid namespace shows its own processes only"], said
    found: list[dict[str, str]] = said["findings"]
    return found


def lacking(faults: dict[str, Fault], found: list[dict[str, str]]) -> list[str]:
    """Names of those that no finding of their kind tells of, or whose finding has no remedy."""
    told = [(one["kind"], f"{one['about']} {one['what']}") for one in found if one["remedy"] and one["why"]]
    return [
        name for name, fault in faults.items() if not any(k == fault.kind and fault.says in text for k, text in told)
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A recorded one without its processes, and what only the real ``/proc`` can say left to that."""
    made = healthy(tmp_path / "machine")
    (made / "sys/fs/cgroup").mkdir(parents=True)
    for path in (made / "proc").rglob("*"):
        if path.is_file() and path.name != "meminfo":
            path.unlink()
    change(made, {f"{CARD}/mem_info_gtt_used": "16777216\n"})
    return made


def test_all_that_is_planted_is_found_and_nothing_on_a_healthy_box(machine: Path) -> None:
    runners = {name: fault for name, (fault, _) in RUNNERS.items()}
    assert len({fault.kind for fault in (*MACHINE.values(), *ACCOUNTS.values(), *runners.values())}) >= 40
    with system_manager() as box:
        furnish(box)
        start(box, put(box, "well", listener=LISTENER))
        assert examined(box, machine) == []
        for fault in MACHINE.values():
            if not isinstance(fault.plant, str):
                change(machine, fault.plant)
        found = examined(box, machine, *(fault.plant for fault in MACHINE.values() if isinstance(fault.plant, str)))
        assert lacking(MACHINE, found) == []
        assert {one["kind"] for one in found} == {fault.kind for fault in MACHINE.values()}

        start(box, *(put(box, name, lines, LISTENER) for name, (_, lines) in RUNNERS.items() if lines is not None))
        for name in ("actions.runner.o-r.used", "actions.runner.o-r.aside"):
            box.write(f"/etc/systemd/system/{name}.service", VENDORS)
        box.do("systemctl", "enable", "--quiet", "actions.runner.o-r.used")
        for fault in (*runners.values(), *ACCOUNTS.values()):
            box.do("sh", "-c", str(fault.plant))
        found = examined(box, machine)
    assert lacking(runners | ACCOUNTS | {"the vendor's": VENDORS_FAULT}, found) == []
    assert [one["about"] for one in found if one["kind"] == VENDORS_FAULT.kind] == ["actions.runner.o-r.used.service"]
    expected = {fault.kind for fault in (*runners.values(), *ACCOUNTS.values(), *MACHINE.values())}
    assert {one["kind"] for one in found} - expected == {*FOLLOWS, VENDORS_FAULT.kind}
