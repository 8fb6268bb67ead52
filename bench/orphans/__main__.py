"""The orphan matrix: which processes outlive the end of their job, under holdtop and under other tools.

``python -m bench.orphans [--wait SECONDS] [--workers N]`` writes ``bench/results/orphans.json`` and ``orphans.md``.
Needs root, a writable cgroup v2, and a C compiler; installs task-spooler and nq on Debian. Exits 1 when a run of
holdtop left a survivor, or freed its token before the last process was gone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import made
from bench.orphans.page import page
from bench.orphans.peers import PEERS
from tests.hold.groups import group
from tests.hold.orphan_holds import ROWS, Hold, broken, play_hold
from tests.hold.orphans import DAEMONS, KINDS, Outcome, Tree, build, play

from holdtop.payload.cgroup import Cgroup

#: From TERM to KILL under holdtop, in seconds: as ``timeout -k 3`` has it.
GRACE = 3.0
PACKAGES = ("task-spooler", "nq")
#: holdtop's rows, as they are named beside the others.
HOLDS = {f"holdtop, {row}": row for row in ROWS}


@dataclass(frozen=True)
class Job:
    """One run: the tool, the end, and the kinds that the payload has."""

    tool: str
    end: str
    kinds: tuple[str, ...]


def jobs(peers: Iterable[str]) -> list[Job]:
    ends = {**dict.fromkeys(HOLDS, Hold.ends), **{name: PEERS[name].ends for name in peers}}
    sets = {name: (KINDS, DAEMONS) if name in HOLDS or PEERS[name].queues else (KINDS,) for name in ends}
    return [Job(name, end, kinds) for name in ends for end in ends[name] for kinds in sets[name]]


def played(job: Job, program: str, wait: float) -> Outcome:
    if job.tool in HOLDS:
        return play_hold(program, HOLDS[job.tool], job.end, grace=GRACE, wait=wait, kinds=job.kinds)
    with tempfile.TemporaryDirectory(prefix="orphans-") as aside, group() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": aside, "TMPDIR": aside}
        tree = Tree(program, home, Path(aside), job.kinds, environment)
        try:
            return play(PEERS[job.tool](tree), job.end, wait)
        finally:
            home.kill()
            tree.reap()


def present() -> list[str]:
    """The peers that are here, after an attempt to install the missing ones. The others are named."""
    if any(peer.missing() for peer in PEERS.values()):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-yqq", "--no-install-recommends", *PACKAGES]
        subprocess.run(install, env=environment, stdout=subprocess.DEVNULL, check=False)
    for name, peer in PEERS.items():
        if peer.missing():
            print(f"skipped: {name}: there is no {peer.command} here, and it could not be installed", file=sys.stderr)
    return [name for name, peer in PEERS.items() if not peer.missing()]


def measure(wait: float, workers: int) -> dict[str, Any]:
    load = os.getloadavg()[0]
    peers = present()
    with tempfile.TemporaryDirectory(prefix="orphans-") as top, ThreadPoolExecutor(workers) as pool:
        Path(top).chmod(0o755)
        program = build(Path(top))
        told = subprocess.run(
            [sys.executable, "-m", "bench.orphans.means", program], check=True, stdout=subprocess.PIPE
        )
        rows = []
        todo = jobs(peers)
        for job, outcome in zip(todo, pool.map(lambda one: played(one, program, wait), todo), strict=True):
            fault = broken(outcome) if job.tool in HOLDS else ""
            rows.append({**asdict(job), **asdict(outcome), "broken": fault})
            print(f"{len(rows)}/{len(todo)}  {job.tool}, {job.end}, {len(job.kinds)} kinds  {fault}", flush=True)
    return {
        **made.head("make orphans", load),
        "wait_s": wait,
        "grace_s": GRACE,
        "skipped": [name for name in PEERS if name not in peers],
        "means": json.loads(told.stdout),
        "rows": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.orphans")
    parser.add_argument("--wait", type=float, default=12, help="seconds after the end at which a process is a survivor")
    parser.add_argument("--workers", type=int, default=4, help="runs at a time")
    args = parser.parse_args()
    home = Cgroup.of(os.getpid())
    if os.geteuid() != 0 or home is None or not home.writable:
        print("orphans: needs root and a writable version 2 cgroup", file=sys.stderr)
        return 2
    # As on a terminal: a tool that was started with INT ignored would pass that on to its job.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    result = measure(args.wait, args.workers)
    made.keep("orphans", result, page(result))
    faults = [row for row in result["rows"] if row["broken"]]
    for row in faults:
        print(f"BROKEN: {row['tool']}, {row['end']}: {row['broken']}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
