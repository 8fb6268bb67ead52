"""``python -m tests.host.instant UID``: inside a private box, the instant between init's last look and its rename.

The old token is held; a lane of each kind queues in the home; then the shared directory has its name. Prints what
became of them as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from holdtop.hold.places import DEFAULT_STATE_DIR, of_home
from holdtop.host.accounts import owner_of
from holdtop.host.switch import held
from tests.host.private_box import AS_ACCOUNT

HOME = "/home/owner"
PEER = os.path.join(os.path.dirname(AS_ACCOUNT), "shell_peer.sh")
MUTEX = "flock -n /home/mutex sleep 0.5 || echo double >> /home/double"


def main(uid: str, gid: str) -> dict[str, object]:
    (places,) = of_home(HOME)
    environ = {**os.environ, "HOME": HOME}
    with held(owner_of(HOME), places) as leaving:
        ours = subprocess.Popen(
            [sys.executable, AS_ACCOUNT, uid, gid, "022", "run", "--", "sh", "-c", MUTEX],
            env=environ, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        peers = {"GPU_QUEUE_DIR": places.queue_path, "GPU_TOKEN_FILE": places.token_path}
        with open(PEER, encoding="utf-8") as script:
            shell = subprocess.Popen(
                ["setpriv", "--reuid", uid, "--regid", "owner", "--clear-groups", "sh", "-s", "--", "sh", "-c", MUTEX],
                env=environ | peers, stdin=script,
            )  # fmt: skip
        until = time.monotonic() + 30
        while len([name for name in os.listdir(places.queue_path) if not name.startswith(".")]) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        os.rename(f"{DEFAULT_STATE_DIR}.aside", DEFAULT_STATE_DIR)
        leaving.leave()
        left = [name for name in os.listdir(HOME) if name.startswith("GPU")]
    _, said = ours.communicate(timeout=30)
    return {"ours": ours.returncode, "said": said, "shell": shell.wait(30), "left": left}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
