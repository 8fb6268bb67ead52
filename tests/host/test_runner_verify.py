"""``holdtop runner verify`` beside a real service manager: each thing that is wrong is found, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdtop.payload.process import Identity, Pinned, read_stat
from tests.hold.lanes import HOLDTOP, until
from tests.hold.user_manager import user_manager
from tests.host.private_box import AS_ACCOUNT
from tests.host.runners import HOME, LISTENER, QUICK, TOOLS, furnish, kinds, put, runner, start, verified
from tests.host.system_manager import SystemBox, system_manager

#: Name of a runner -> its lines that are replaced, and what has to be found.
BROKEN = {
    "oom": ({"OOMPolicy=continue": "OOMPolicy=stop"}, ["oom-policy"]),
    "restart": ({"Restart=always": "Restart=on-failure"}, ["restart"]),
    "kill": ({"KillMode=mixed": "KillMode=process"}, ["kill-mode"]),
    "limit": ({"StartLimitIntervalSec=0": "StartLimitIntervalSec=10"}, ["start-limit"]),
    "misplaced": ({"StartLimitIntervalSec=0": "", "TasksMax=8192": "StartLimitIntervalSec=0"}, ["start-limit"]),
    "zero": ({"Restart=always": "Restart=always\nRestartPreventExitStatus=0"}, ["restart"]),
    "spared": ({"KillMode=mixed": "KillMode=mixed\nSendSIGKILL=no"}, ["kill-mode"]),
    "hour": ({"RestartSec=30": "RestartSec=30\nRuntimeMaxSec=3600"}, ["run-time"]),
    "score": ({"OOMPolicy=continue": "OOMPolicy=continue\nOOMScoreAdjust=-1"}, ["oom-score"]),
    "static": ({"[Install]": "", "WantedBy=multi-user.target": ""}, ["not-enabled"]),
    "undelegated": ({"Delegate=yes": "Delegate=no"}, ["delegate"]),
    "hasty": ({"TimeoutStopSec=5min": "TimeoutStopSec=1s"}, ["timeout-stop"]),
    "tmp": ({"Delegate=yes": "Delegate=yes\nPrivateTmp=yes"}, ["hidden"]),
    "home": ({"Delegate=yes": "Delegate=yes\nProtectHome=yes"}, ["hidden"]),
    "strict": ({"Delegate=yes": "Delegate=yes\nProtectSystem=strict"}, ["hidden"]),
    "paths": ({"Delegate=yes": "Delegate=yes\nInaccessiblePaths=-/var/lib/1bit-fleet"}, ["hidden"]),
    "power": ({"Delegate=yes": "Delegate=yes\nAmbientCapabilities=CAP_DAC_OVERRIDE"}, ["capabilities"]),
    "max": ({"MemoryMax=48G": "MemoryMax=infinity"}, ["memory-max"]),
    "high": ({"MemoryHigh=43.2G": "MemoryHigh=48G"}, ["memory-high"]),
    "unset": ({"MemoryHigh=43.2G": ""}, ["memory-high"]),
    "user": ({"User=ghrunner": "User=owner"}, ["user"]),
    "lock": ({"TasksMax=8192": 'Environment="HW_GATE_LOCK=/var/lib/ghrunner/npu.lock"'}, ["lock", "unreadable"]),
    "queue": ({"TasksMax=8192": 'Environment="ONEBIT_HOLD_DIR=/home/owner"'}, ["state", "state"]),
    "models": ({"TasksMax=8192": 'Environment="HW_GATE_MODELS=/var/lib/models"'}, ["unreadable"]),
}
UNIT = "holdtop-runner-mine.service"
#: A listener as the vendor's: whatever ends it, it ends with 0.
OBEDIENT = "#!/bin/bash\ntrap 'kill %1; exit 0' TERM\nsleep 1000000 &\nwait\n"


@pytest.fixture
def system() -> Iterator[SystemBox]:
    with system_manager() as box:
        furnish(box)
        yield box


def main_process(box: SystemBox, unit: str) -> Identity:
    """The listener of now, as seen from here."""
    stat = read_stat(box.outside(int(box.show(unit, "MainPID"))))
    assert stat
    return stat.identity


def test_each_broken_directive_is_found_and_nothing_else(system: SystemBox) -> None:
    units = [put(system, name, replaced) for name, (replaced, _) in BROKEN.items()]
    units.append(put(system, "dropped"))
    system.write(f"/etc/systemd/system/{units[-1]}.d/vendor.conf", "[Service]\r\n# KillMode=mixed\nKillMode=process\n")
    start(system, put(system, "well"), *units)
    told = verified(system, ["well", "absent", "dropped", *BROKEN])
    assert told["well"][0] == 0
    assert (told["well"][1]["problems"], told["well"][1]["could_not_look"]) == ([], [])
    assert (told["absent"][0], kinds(told["absent"][1])) == (1, ["no-unit"])
    assert (told["dropped"][0], kinds(told["dropped"][1])) == (1, ["kill-mode"]), (
        "in force, whatever the unit's file says"
    )
    found = {name: (told[name][0], sorted(kinds(told[name][1]))) for name in BROKEN}
    assert found == {name: (1, sorted(wanted)) for name, (_, wanted) in BROKEN.items()}


def test_a_unit_that_dies_is_told_from_one_that_is_up(system: SystemBox) -> None:
    """In a loop it is active with ``Result=success`` for most of the time."""
    units = {
        "loop": put(system, "loop", listener="#!/bin/sh\nsleep 3\nexit 0\n"),
        "dead": put(system, "dead", {"Restart=always": "Restart=no"}, listener="#!/bin/sh\nexit 3\n"),
        "stopped": put(system, "stopped"),
        "off": put(system, "off"),
    }
    start(system, *units.values())
    system.do("systemctl", "stop", units["stopped"])
    system.do("systemctl", "disable", "--quiet", units["off"])
    until(lambda: system.show(units["dead"], "ActiveState") == "failed")
    told = {name: sorted(kinds(said)) for name, (_, said) in verified(system, list(units)).items()}
    assert "crash-loop" in told["loop"]
    assert told["dead"] == ["failed", "not-active", "restart"]
    assert told["stopped"] == ["not-active"]
    assert told["off"] == ["not-enabled"]


def test_what_the_account_cannot_do_or_could_do_is_found(system: SystemBox) -> None:
    """One thing after the other is broken and mended on a unit that stays as it is."""
    start(system, put(system, "one"))
    breaks = {
        "state-denied": ("chmod 2750 /var/lib/1bit-fleet/gpu-queue", "chmod 2770 /var/lib/1bit-fleet/gpu-queue"),
        "lock": ("chmod 0640 /var/lib/1bit-fleet/npu.lock", "chmod 0660 /var/lib/1bit-fleet/npu.lock"),
        "no-tool": (f"mv {TOOLS}/gpu-hold {TOOLS}/x", f"mv {TOOLS}/x {TOOLS}/gpu-hold"),
        "writable": (f"chown ghrunner {TOOLS}/npu-hold", f"chown root {TOOLS}/npu-hold"),
        "unreadable": (f"chmod 0711 {TOOLS}", f"chmod 0755 {TOOLS}"),
        "stale": ("touch -d tomorrow /etc/systemd/system/holdtop-runner-one.service", "systemctl daemon-reload"),
    }
    assert kinds(verified(system, ["one"])["one"][1]) == []
    for kind, (broken, mended) in breaks.items():
        system.do("sh", "-c", broken)
        assert kinds(verified(system, ["one"])["one"][1]) == [kind]
        system.do("sh", "-c", mended)
    assert kinds(verified(system, ["one"])["one"][1]) == []


def test_a_home_that_the_runner_could_write_and_a_tool_that_pins_home_are_named(system: SystemBox) -> None:
    start(system, put(system, "one"))
    system.do("sh", "-c", "groupadd both; usermod -aG both ghrunner; chgrp both /home/owner; chmod 2770 /home/owner")
    system.write(f"{TOOLS}/npu-hold", '#!/bin/sh\nexec sh "$HOME/fleet/hold.sh" "$HOME/NPU-TOKEN" "$@"\n', mode=0o755)
    said = runner(system, "verify", "one").stdout
    assert "FINDING writable: the runner's account may write /home/owner" in said
    assert "this runner must not take NPU work; remedy: sudo ln -sfn " in said
    assert f"bin/npu-hold {TOOLS}/npu-hold\n" in said
    assert "FINDING old-groups: the listener" in said
    assert "MemoryHigh 46385646796 = 43.2G, MemoryMax 51539607552 = 48G" in said


def test_who_is_not_root_is_told_what_could_not_be_seen(system: SystemBox) -> None:
    start(system, put(system, "one"))
    words = "runner", "verify", "--name", "one", "--path-dir", TOOLS
    out, error = (process := system.as_account("owner", *words)).communicate(timeout=60)
    assert process.returncode == 8, error
    assert "could not look: only root can look as ghrunner" in out


def test_a_killed_listener_comes_back_although_it_ends_with_0(system: SystemBox) -> None:
    ours = put(system, "ours", listener=OBEDIENT)
    vendors = put(system, "vendors", {"Restart=always": "Restart=on-failure"}, listener=OBEDIENT)
    start(system, ours, vendors)
    for unit in (ours, vendors):
        with Pinned(main_process(system, unit)) as listener:
            listener.send(signal.SIGTERM)
    until(lambda: system.show(ours, "NRestarts") == "1" and system.show(ours, "ActiveState") == "active", 30)
    assert system.show(ours, "Result") == "success"
    with Pinned(main_process(system, ours)) as listener:
        listener.send(signal.SIGKILL)
    until(lambda: system.show(ours, "NRestarts") == "2" and system.show(ours, "ActiveState") == "active", 30)
    assert (system.show(vendors, "ActiveState"), system.show(vendors, "NRestarts")) == ("inactive", "0")


def test_a_stop_leaves_nothing_of_a_job_as_kill_mode_process_would(system: SystemBox) -> None:
    """The control is the vendor's own line: what has left the listener's group lives on, and nobody tracks it."""
    left = {}
    for name, line in {"ours": "KillMode=mixed", "vendors": "KillMode=process"}.items():
        start(system, unit := put(system, name, {"KillMode=mixed": line}, LISTENER))
        pid = int(until(lambda name=name: child_of(system, name)))  # type: ignore[misc]
        stat = read_stat(system.outside(pid))
        assert stat
        system.do("systemctl", "stop", unit)
        left[name] = read_stat(stat.pid) is not None
    assert left == {"ours": False, "vendors": True}


def child_of(box: SystemBox, name: str) -> str:
    path = box.at(f"{HOME}/runner-{name}/child")
    return path.read_text() if path.exists() else ""


def test_a_users_own_manager_is_asked_and_the_missing_linger_said() -> None:
    """Without linger the last logout ends the runner, whatever its unit says."""
    account = 54321
    with user_manager(account) as manager:
        own = [sys.executable, AS_ACCOUNT, str(account), str(account), "022"]

        def ask(part: str, *words: str) -> subprocess.CompletedProcess[str]:
            return ask_any("runner", part, "--name", "mine", "--user-manager", "--no-hold-state", *words)

        def ask_any(*words: str) -> subprocess.CompletedProcess[str]:
            words = *own, *words
            with manager.popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as asked:
                out, error = asked.communicate(timeout=60)
            return subprocess.CompletedProcess(words, asked.returncode, out, error)

        place = f"/proc/{manager.first}/root/run/home"
        script = f"""set -e
mkdir -p {place}/.config/systemd/user/holdtop-runner-mine.service.d {place}/runner-mine/bin
printf '[Service]\\n{QUICK}\\n' > {place}/.config/systemd/user/holdtop-runner-mine.service.d/quick.conf
printf '#!/bin/sh\\nexec sleep 1000000\\n' > {place}/runner-mine/bin/runsvc.sh
chmod 755 {place}/runner-mine/bin/runsvc.sh
chown -R {account} {place}"""
        subprocess.run(["sh", "-c", script], check=True, timeout=20)
        made = ask("install", "--yes")
        assert made.returncode == 0, made
        assert "loginctl enable-linger lane" in made.stderr
        done = ask("verify", "--json")
        assert (done.returncode, json.loads(done.stdout)["problems"]) == (0, []), done
        assert "loginctl enable-linger lane" in " ".join(json.loads(done.stdout)["remarks"])
        shown = ask_any("status", "--json")
        assert shown.stdout, shown.stderr
        watched = json.loads(shown.stdout)["runners"]
        assert [(one["unit"], one["manager"], one["up"]) for one in watched] == [(UNIT, "lane", True)]
        examined = ask_any("doctor", "--json")
        assert examined.stdout, examined.stderr
        (logout,) = (one for one in json.loads(examined.stdout)["findings"] if one["section"] == "runners")
        assert (logout["kind"], logout["remedy"]) in [
            (kind, "loginctl enable-linger lane") for kind in ("no-linger", "no-logind")
        ]
        assert ask("remove", "--yes").returncode == 0
        assert manager.units("holdtop-runner-*") == []
        assert os.path.exists(f"{place}/runner-mine/bin/runsvc.sh"), "it was there before"


def test_without_a_manager_nothing_is_claimed() -> None:
    done = subprocess.run(
        [*HOLDTOP, "runner", "verify"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent/bus", "PATH": "/usr/bin"},
    )
    assert (done.returncode, done.stdout) == (8, "")
    assert done.stderr == "holdtop: the system's service manager cannot be asked: No such file or directory\n"
