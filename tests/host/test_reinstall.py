"""The whole change-over of a box that works: shims, then ``init`` with the move, while lanes come and go."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from holdtop.hold.places import DEFAULT_STATE_DIR
from tests.console.terminals import ROOT, Terminal, terminal
from tests.hold.lanes import until
from tests.host.installed import PYTHON, as_account, install, state_verb
from tests.host.private_box import GROUP, PrivateBox
from tests.host.runners import QUICK, TOOLS, runner
from tests.host.system_manager import SystemBox, system_manager
from tests.host.test_check import OWNER, RUNNER
from tests.host.test_runner_install import UNIT, archive

#: The older tool as an account has it: in its home, on its search path.
OLD = """#!/bin/sh
mkdir -p "$HOME/GPU-QUEUE"
export GPU_QUEUE_DIR="$HOME/GPU-QUEUE" GPU_TOKEN_FILE="$HOME/GPU-TOKEN" PEER_POLL=0.2
exec sh /opt/shell_peer.sh "$@"
"""
#: Whoever finds the mutex taken has a second holder beside it.
PAYLOAD = "flock -n /srv/mutex sleep 0.3 && echo ran >> /srv/ran || echo double >> /srv/double"
INIT = ("init", "--user", "owner", "--migrate-from", "/home/owner", "--yes")


@pytest.fixture
def system() -> Iterator[SystemBox]:
    with system_manager() as box:
        yield box


def lane(host: PrivateBox, name: str, tool: str = "gpu-hold") -> subprocess.Popen[str]:
    return as_account(host, name, tool, "sh", "-c", PAYLOAD)


def waiting_at_home(host: PrivateBox) -> list[subprocess.Popen[str]]:
    """An owner with the older tool, and three lanes in its home."""
    install(host)
    host.write("/opt/shell_peer.sh", (Path(__file__).parents[1] / "hold" / "shell_peer.sh").read_text())
    host.write("/home/owner/.local/bin/gpu-hold", OLD, "owner", 0o755)
    host.do("chown", "-R", "owner:owner", "/home/owner")
    host.do(
        "sh", "-c", "mount -t tmpfs -o mode=777 none /srv; touch /srv/mutex /srv/ran; chmod 666 /srv/mutex /srv/ran"
    )
    lanes = [lane(host, "owner") for _ in range(3)]
    until(lambda: len(list(host.at("/home/owner/GPU-QUEUE").glob("job.*"))) == 3)
    return lanes


def change_over(
    host: PrivateBox, lanes: list[subprocess.Popen[str]], *members: str, meanwhile: Callable[[], object] = int
) -> None:
    """Shims, and ``init`` with the move for as often as it refuses; more lanes come all the time."""
    init = (*INIT, *(word for name in members for word in ("--user", name)))
    assert state_verb(host, *init).returncode == 6, "they wait in the home"
    assert state_verb(host, "shims", "--user", "owner", "--yes").returncode == 0
    tries, until_moved = 0, time.monotonic() + 60
    while (done := state_verb(host, *init)).returncode:
        assert time.monotonic() < until_moved, done.stderr
        assert done.returncode == 6, done.stderr
        meanwhile()
        tries += 1
        if tries % 3 == 1:  # ours by now, at the old place as long as there is no other
            lanes.append(lane(host, "owner"))
            time.sleep(0.5)
    lanes += [lane(host, "owner") for _ in range(2)]


def nobody_met_another(host: PrivateBox, lanes: list[subprocess.Popen[str]]) -> None:
    ends = [(one.communicate(timeout=60), one.returncode) for one in lanes]
    assert [status for _, status in ends if status not in (0, 120)] == [], ends
    assert not host.at("/srv/double").exists()
    assert len(host.at("/srv/ran").read_text().split()) == sum(status == 0 for _, status in ends)
    assert [path.name for path in host.at("/home/owner").glob("GPU-*")] == []
    assert host.at(f"{DEFAULT_STATE_DIR}/gpu-queue/.receipts.jsonl").exists()


def test_lanes_that_wait_meet_nobody_beside_them(host: PrivateBox) -> None:
    host.user("owner", OWNER)
    host.user("runner", RUNNER)
    lanes = waiting_at_home(host)
    change_over(host, lanes, "runner")
    nobody_met_another(host, lanes)
    assert state_verb(host, "check").returncode == 0


def test_the_whole_reinstallation_under_an_open_console(system: SystemBox) -> None:
    """Shims, ``init`` with the move, ``runner install``: the owner's console tells of the switch by itself."""
    system.user("owner", OWNER)
    system.do("groupadd", "--system", GROUP)
    system.do("usermod", "--append", "--groups", GROUP, "owner")  # a session has the groups that it began with
    lanes = waiting_at_home(system)
    with console(system) as screen:
        screen.until(b"/home/owner/GPU-TOKEN", seconds=40)
        change_over(system, lanes, meanwhile=lambda: screen.read(0.1))
        lanes += [runner_installed(system, screen)]
        screen.until(f"its state is now {DEFAULT_STATE_DIR}/gpu-token".encode(), seconds=40)
        nobody_met_another(system, lanes)
        assert lanes[-1].returncode == 0, "the runner's job queues where all others do"
    assert writable(system) == []
    system.do("chmod", "o+w", f"{TOOLS}/npu-hold")
    assert writable(system) == [f"{TOOLS}/npu-hold"] * 2


def writable(box: SystemBox) -> list[str]:
    """What of other lanes' programs, of what is behind them and on the way to them, a job could write, and did."""
    programs = ["/home/owner/.local/bin/gpu-hold", f"{TOOLS}/gpu-hold", f"{TOOLS}/npu-hold", PYTHON]
    job = f"""find /opt/venv /opt/python/bin /home /etc ! -type l -writable
for program in {" ".join(programs)}; do
    (: >> $program) 2>/dev/null && echo $program
    (: > $(dirname $program)/new) 2>/dev/null && echo $(dirname $program)
done"""
    out, _ = as_account(box, "ghrunner", "sh", "-c", job).communicate(timeout=60)
    return out.split()


def console(box: SystemBox) -> AbstractContextManager[Terminal]:
    """The owner's, of the installation that every account can read."""
    (packages,) = box.at("/opt/venv/lib").glob("*/site-packages")
    shutil.copytree(ROOT / "themes", packages / "holdtop/themes")
    box.do("mkdir", "/opt/packages")
    box.do("mount", "--bind", sysconfig.get_path("purelib"), "/opt/packages")
    own = ["setpriv", "--reuid", "owner", "--regid", "owner", "--init-groups", "env", "HOME=/home/owner"]
    own += ["PYTHONPATH=/opt/packages", "sh", "-c", f'shift; exec {PYTHON} "$@"', "sh"]
    return terminal("-m", "holdtop", prefix=tuple(box.inside(*own)))


def runner_installed(box: SystemBox, screen: Terminal) -> subprocess.Popen[str]:
    """A job of the new runner's account."""
    for resource in ("gpu", "npu"):
        text = f'#!/bin/sh\nexec {PYTHON} -I -m holdtop run -r {resource} -- "$@"\n'
        box.write(f"{TOOLS}/{resource}-hold", text, mode=0o755)
    box.write("/etc/systemd/system/holdtop-runner-.service.d/quick.conf", f"[Service]\n{QUICK}\n")
    done = runner(box, "install", "one", *archive(box), "--yes")
    screen.read(0.1)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert f"{UNIT} is installed" in done.stderr
    return lane(box, "ghrunner", f"{TOOLS}/gpu-hold")
