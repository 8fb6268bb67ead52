"""What the demo's lanes run: a program that stands for a training, a server, a test.

Copied to the demo's working directory under several names and run from there as ``python3 NAME.py``; it uses
the standard library alone. It knows no device: the device use of its process is laid over by the demo.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import select
import signal
import subprocess
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--below", default="", metavar="NAME,…", help="start the first, which starts the next")
    parser.add_argument("--deaf", action="store_true", help="the last of those below ignores TERM")
    args, _ = parser.parse_known_args()
    name = pathlib.Path(__file__).stem
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/comm").write_text(name)
    below = [part for part in args.below.split(",") if part]
    if args.deaf and not below:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    guardian = os.pidfd_open(int(os.environ["DEMO_GUARDIAN"]))
    child = _start(below, args.deaf) if below else None
    _work(name, args.seconds, child, guardian)


def _start(below: list[str], deaf: bool) -> subprocess.Popen[bytes]:
    rest = ["--below", ",".join(below[1:])] if below[1:] else []
    return subprocess.Popen(["python3", f"{below[0]}.py", *rest, *(["--deaf"] if deaf else [])])


def _work(name: str, seconds: float, child: subprocess.Popen[bytes] | None, guardian: int) -> None:
    """Use a little of one processor, so that the process table has something to show.

    The guardian ends us; should it be killed itself, nobody else would.
    """
    end = time.monotonic() + seconds
    step = 0
    while (now := time.monotonic()) < end:
        while time.monotonic() < now + 0.005:
            pass
        if step % 25 == 0:
            print(f"{name}: step {step}, loss {2.0 / (1 + step / 400):.4f}", flush=True)
        step += 1
        if child is not None:
            child.poll()
        if select.select([guardian], [], [], min(0.2, max(0.0, end - time.monotonic())))[0]:
            return


if __name__ == "__main__":
    main()
