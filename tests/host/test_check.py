"""``holdtop state check``: each planted fault is found, named and given its remedy; a box that is well has none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from holdtop.host import tools
from tests.hold.lanes import HOLDTOP, NAP, until
from tests.host.private_box import GROUP, PrivateBox, tree
from tests.host.test_init import OLD_TOOL

#: Uids that no process of this machine has.
OWNER = 1_000_000 + 2 * os.getpid()
RUNNER = OWNER + 1


@pytest.fixture
def shared(host: PrivateBox) -> PrivateBox:
    """A shared directory for two accounts, as ``init`` leaves it."""
    host.user("owner", OWNER)
    host.user("runner", RUNNER)
    host.steps("init", "--user", "owner", "--user", "runner")
    return host


@pytest.fixture
def lanes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test starts."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for one in started:
        one.kill()
        one.wait()


def check(host: PrivateBox, *words: str) -> tuple[dict[str, str], dict[str, list[dict[str, str]]]]:
    """Findings by kind, all that they say; and everything, by list."""
    done = host.state_verb("check", "--json", *words)
    said = json.loads(done.stdout)
    assert done.returncode == (1 if said["findings"] else 0), done.stderr
    return {one["kind"]: f"{one['what']} | {one['remedy']}" for one in said["findings"]}, said


def test_a_box_that_is_well(shared: PrivateBox) -> None:
    before = {place: tree(shared.at(place)) for place in ("/var/lib", "/home", "/etc")}
    found, said = check(shared)
    assert found == {}
    assert said["could_not_look"] == []
    facts = "\n".join(one["what"] for one in said["facts"])
    for text in (
        f"{DEFAULT_STATE_DIR} drwxrws--- root:{GROUP}",
        f"{DEFAULT_STATE_DIR}/gpu-queue drwxrws--- root:{GROUP}",
        "/ drwx",
        f"group {GROUP}: owner, runner",
        f"every process of runner has group {GROUP}",
        "from which owner runs programs: nobody else but root may write there",
        "from which runner runs programs: nobody else but root may write there",
    ):
        assert text in facts
    assert {place: tree(shared.at(place)) for place in before} == before, "it only looks"
    done = shared.state_verb("check")
    assert done.stderr == "nothing found\n"
    assert f"group {GROUP}: owner, runner" in done.stdout


STATE = DEFAULT_STATE_DIR
#: What is planted, by a shell as root: the finding's kind, and words of it.
PLANTED: dict[str, tuple[str, str, Sequence[str]]] = {
    "all may write above the state": ("chmod 777 /var/lib", "writable-way", ["/var/lib may be written by everybody"]),
    "an account owns what is above": ("chown runner /var/lib", "writable-way", ["/var/lib may", "its owner runner"]),
    "the state is open to all": (f"chmod 2777 {STATE}", "open-state", [f"{STATE} drwxrwsrwx", "chmod -R o="]),
    "a file of the queue is": (
        f"touch {STATE}/gpu-queue/.sequence; chmod 666 {STATE}/gpu-queue/.sequence",
        "open-state",
        [".sequence -rw-rw-rw-"],
    ),
    "members cannot queue": (
        f"chmod 2750 {STATE}/gpu-queue",
        "closed-state",
        ["gpu-queue has mode 2750", "state init"],
    ),
    "tickets do not inherit the group": (f"chmod 00770 {STATE}", "closed-state", ["has mode 0770, not 2770"]),
    "members cannot take the gate": (
        f"chmod 600 {STATE}/npu.lock",
        "closed-state",
        ["npu.lock has mode 0600, not 0660", f"chmod 0660 {STATE}/npu.lock"],
    ),
    "a file is of another group": (
        f"touch {STATE}/x; chgrp runner {STATE}/x; chmod o= {STATE}/x",
        "wrong-group",
        ["/x "],
    ),
    "the lock is missing": (f"rm {STATE}/npu.lock", "incomplete", [f"there is no {STATE}/npu.lock"]),
    "a member owns the state": (f"chown owner {STATE}", "not-roots", ["belongs to owner"]),
    "nobody is a member": (f"gpasswd -M '' {GROUP}", "no-members", ["has no member", "--user NAME"]),
    "the group is an account's own": (f"usermod -g {GROUP} owner", "shared-group", ["the own group of owner"]),
    "a home that a member may write": (
        "chgrp runner /home/owner; chmod g+w /home/owner",
        "writable-program",
        ["/home/owner", "owner would run", "group runner (runner)"],
    ),
    "a start-up file": (
        "touch /home/owner/.bashrc; chown owner /home/owner/.bashrc; chmod 666 /home/owner/.bashrc",
        "writable-program",
        ["/home/owner/.bashrc", "by everybody"],
    ),
    "a tool behind another account's interpreter": (
        "install -d -o owner /home/owner/bin; install -d -o runner /home/runner/bin;"
        "printf '#!/home/runner/bin/sh\\n: /var/lib/1bit-fleet\\n' > /home/owner/bin/gpu-hold;"
        "cp /bin/true /home/runner/bin/sh; chown runner /home/runner/bin/sh; chmod 755 /home/*/bin/*",
        "writable-program",
        ["/home/runner/bin/sh", "which owner would run", "its owner runner"],
    ),
    "a tool that is another account's": (
        "install -d -o owner /home/owner/bin; ln -s /home/runner/gpu-hold /home/owner/bin/gpu-hold;"
        "printf '#!/bin/sh\\n: /var/lib/1bit-fleet\\n' > /home/runner/gpu-hold; chown runner /home/runner/gpu-hold;"
        "chmod 755 /home/runner /home/runner/gpu-hold",
        "writable-program",
        ["/home/runner/gpu-hold", "its owner runner"],
    ),
    "an old tool": (
        f"install -d -o owner /home/owner/bin; cat > /home/owner/bin/npu-hold <<'X'\n{OLD_TOOL}X\n",
        "old-tool",
        ["/home/owner/bin/npu-hold", "in its account's home only", "state shims --user owner"],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(shared: PrivateBox, name: str) -> None:
    how, kind, words = PLANTED[name]
    shared.do("sh", "-c", how)
    found, _ = check(shared)
    assert kind in found, found
    assert [word for word in words if word not in found[kind]] == []


#: A process of the owner's, as ``setpriv`` starts it: its words, the finding's kind, and words of it.
PROCESSES: dict[str, tuple[Sequence[str], Sequence[str], str, Sequence[str]]] = {
    "a session from before": (
        ["--clear-groups"],
        ["sleep", NAP],
        "old-session",
        [f"1 process of owner without group {GROUP}", "session from before"],
    ),
    "a user manager from before": (
        ["--clear-groups"],
        ["bash", "-c", f"exec -a /lib/systemd/systemd python3 -c 'import time; time.sleep({NAP})' --user"],
        "old-session",
        ["below its user manager", f"sudo systemctl restart user@{OWNER}.service"],
    ),
    "half a place": (
        ["--init-groups"],
        ["env", "GPU_TOKEN_FILE=/tmp/token", "sleep", NAP],
        "half-named",
        ["only GPU_TOKEN_FILE is set", "unset GPU_QUEUE_DIR GPU_TOKEN_FILE"],
    ),
    "another place": (
        ["--init-groups"],
        ["env", "ONEBIT_HOLD_DIR=/home/owner", "sleep", NAP],
        "elsewhere",
        ["ONEBIT_HOLD_DIR=/home/owner"],
    ),
    "another place by both": (
        ["--init-groups"],
        ["env", f"NPU_TOKEN_FILE={STATE}/npu-token", "NPU_QUEUE_DIR=/home/owner/q", "sleep", NAP],
        "elsewhere",
        ["NPU_QUEUE_DIR=/home/owner/q"],
    ),
    "a search path through another account's directory": (
        ["--init-groups"],
        ["env", "PATH=/home/runner/tools:/usr/bin:/bin", "sleep", NAP],
        "writable-program",
        ["/home/runner", "which owner would run", "its owner runner"],
    ),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_what_a_process_says_is_found(shared: PrivateBox, lanes: list[subprocess.Popen[bytes]], name: str) -> None:
    groups, words, kind, said = PROCESSES[name]
    lane = subprocess.Popen(shared.inside("setpriv", "--reuid", "owner", "--regid", "owner", *groups, *words))
    lanes.append(lane)
    until(lambda: NAP.encode() in shared.at(f"/proc/{lane.pid}/cmdline").read_bytes())
    until(lambda: kind in check(shared)[0], 30)
    found, _ = check(shared)
    assert [word for word in said if word not in found[kind]] == []
    if kind != "writable-program":
        assert set(found) == {kind}, "nothing else is wrong"


def test_a_queue_in_a_home_is_told_and_one_that_lives_is_a_finding(
    shared: PrivateBox, lanes: list[subprocess.Popen[bytes]]
) -> None:
    shared.write("/home/owner/GPU-QUEUE/.receipts.jsonl", "", "owner")
    found, said = check(shared)
    assert found == {}
    assert "/home/owner/GPU-QUEUE: owner's, of before" in str(said["facts"])
    lane = subprocess.Popen(["sleep", NAP])
    lanes.append(lane)
    shared.write(f"/home/owner/GPU-QUEUE/job.shell.{lane.pid}", "", "owner")
    found, _ = check(shared)
    assert set(found) == {"two-queues"}
    assert f"beside {STATE}" in found["two-queues"]


@pytest.mark.parametrize(
    ("line", "resolves"),
    [
        ('exec holdtop run -r gpu -- "$@"', "ours"),
        ('exec /opt/holdtop/bin/holdtop run -- "$@"', "ours"),
        ('exec /opt/venv/bin/python3.11 -I -m holdtop run -r npu -- "$@"', "ours"),
        ("from holdtop.cli.main import gpu_hold", "ours"),
        ("# exec holdtop run", "unknown"),
        ("exec python3 -m holdtopper run", "unknown"),
        ("exec env Q=$HOME/GPU-QUEUE x", "home"),
        (f"exec x {STATE}/gpu-token", "fleet"),
    ],
)
def test_a_tool_is_judged_by_what_it_runs(tmp_path: Path, line: str, resolves: str) -> None:
    (tmp_path / "gpu-hold").write_text(f"#!/bin/sh\n{line}\n")
    assert tools.resolves(str(tmp_path / "gpu-hold"), STATE) == resolves


def test_two_homes_that_queue_are_two_queues_before_there_is_a_shared_one(
    host: PrivateBox, lanes: list[subprocess.Popen[bytes]]
) -> None:
    host.user("owner", OWNER)
    host.user("runner", RUNNER)
    host.write("/home/owner/bin/gpu-hold", OLD_TOOL, "owner", 0o755)
    found, said = check(host)
    assert found == {}, "an old tool is no fault where there is nothing else"
    assert "each account queues in its own home" in str(said["facts"])
    lanes.append(lane := subprocess.Popen(["sleep", NAP]))
    host.write("/home/owner/GPU-TOKEN", f"a {lane.pid}\n", "owner")
    assert check(host)[0] == {}
    host.write("/home/runner/GPU-TOKEN", f"b {lane.pid}\n", "runner")
    assert set(check(host)[0]) == {"two-queues"}


def test_the_doctor_finds_the_same(shared: PrivateBox) -> None:
    shared.state.chmod(0o2777)
    done = shared.do(*HOLDTOP, "doctor", "--json", check=False)
    (found,) = (one for one in json.loads(done.stdout)["findings"] if one["section"] == "state")
    (same,) = check(shared)[1]["findings"]
    assert {**found, "section": ""} == {**same, "section": ""}
    assert done.returncode == 1


def test_an_account_that_may_look_into_little_says_so(shared: PrivateBox) -> None:
    shared.user("stranger", OWNER + 100_000_000)
    process = shared.as_account("stranger", "state", "check", "--json")
    text, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert json.loads(text)["could_not_look"]
