"""The whole change-over of a box that works: shims, then ``init`` with the move, while lanes come and go."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from holdtop.hold.places import DEFAULT_STATE_DIR
from tests.hold.lanes import until
from tests.host.installed import as_account, install, state_verb
from tests.host.private_box import PrivateBox
from tests.host.test_check import OWNER, RUNNER

#: The older tool as an account has it: in its home, on its search path.
OLD = """#!/bin/sh
mkdir -p "$HOME/GPU-QUEUE"
export GPU_QUEUE_DIR="$HOME/GPU-QUEUE" GPU_TOKEN_FILE="$HOME/GPU-TOKEN" PEER_POLL=0.2
exec sh /opt/shell_peer.sh "$@"
"""
#: Whoever finds the mutex taken has a second holder beside it.
PAYLOAD = "flock -n /srv/mutex sleep 0.3 && echo ran >> /srv/ran || echo double >> /srv/double"
INIT = ("init", "--user", "owner", "--user", "runner", "--migrate-from", "/home/owner", "--yes")


def lane(host: PrivateBox, name: str) -> subprocess.Popen[str]:
    return as_account(host, name, "gpu-hold", "sh", "-c", PAYLOAD)


def test_lanes_that_wait_meet_nobody_beside_them(host: PrivateBox) -> None:
    host.user("owner", OWNER)
    host.user("runner", RUNNER)
    install(host)
    host.write("/opt/shell_peer.sh", (Path(__file__).parents[1] / "hold" / "shell_peer.sh").read_text())
    host.write("/home/owner/.local/bin/gpu-hold", OLD, "owner", 0o755)
    host.do("chown", "-R", "owner:owner", "/home/owner")
    host.do("sh", "-c", "mount -t tmpfs -o mode=777 none /srv; touch /srv/mutex; chmod 666 /srv/mutex")
    lanes = [lane(host, "owner") for _ in range(3)]
    until(lambda: len(list(host.at("/home/owner/GPU-QUEUE").glob("job.*"))) == 3)
    assert state_verb(host, *INIT).returncode == 6, "they wait in the home"
    assert state_verb(host, "shims", "--user", "owner", "--yes").returncode == 0
    tries, until_moved = 0, time.monotonic() + 60
    while (done := state_verb(host, *INIT)).returncode:
        assert time.monotonic() < until_moved, done.stderr
        assert done.returncode == 6, done.stderr
        tries += 1
        if tries % 3 == 1:  # ours by now, at the old place as long as there is no other
            lanes.append(lane(host, "owner"))
            time.sleep(0.5)
    lanes += [lane(host, "owner") for _ in range(2)]
    ends = [(one.communicate(timeout=60), one.returncode) for one in lanes]
    assert [status for _, status in ends if status not in (0, 120)] == [], ends
    assert not host.at("/srv/double").exists()
    assert len(host.at("/srv/ran").read_text().split()) == sum(status == 0 for _, status in ends)
    assert [path.name for path in host.at("/home/owner").glob("GPU-*")] == []
    assert host.at(f"{DEFAULT_STATE_DIR}/gpu-queue/.receipts.jsonl").exists()
    assert state_verb(host, "check").returncode == 0
