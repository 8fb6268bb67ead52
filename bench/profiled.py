"""Where the time of console, sampler and hold goes: ``bench/results/profile.json`` and ``profile.md``.

``python -m bench.profiled [SECONDS [TICKETS [PROCESSES]]]`` opens the console on a pseudo-terminal and runs the
sampler, each for so many seconds beside so many waiting tickets and processes, under cProfile; of a hold both the
imports and the supervisor are profiled. All clocks are those of a thread on a processor: nobody's waiting is counted.
The profiler makes many small calls look dearer than they are: shares tell where to look, no more.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import made
from bench.scale import crowd
from bench.scan import sleepers
from tests.console.terminals import terminal

from holdtop.cli.main import main as command
from holdtop.sampler import Sampler

#: Rows of a table.
MOST = 10
#: Seconds after which a program that starts is looked at: its first pictures are over.
SETTLE = 10
#: What has more than this share of all is a loop around the rest.
AROUND = 0.95
#: Seconds in which a program that was asked to end has written its profile.
ENDING = 60
PARTS = {
    "console": "The console's own thread",
    "sampler": "The sampler's threads",
    "hold": "The supervisor of `holdtop run -- true`",
}
HEAD = """\
# The profile

{made}. Console and sampler for {seconds} s each, at a look a second,
beside {tickets:,} tickets and {processes:,} more processes. What bounds each, and what was tried:
[docs/scale.md](../../docs/scale.md#the-profile).
"""
_IMPORT = re.compile(r"import time: +(\d+) \| +(\d+) \| ( *)(\S+)")


def run_verb(out: str, settle: int, words: Sequence[str]) -> None:
    """As ``holdtop`` does, looked at after so many seconds; what forks on the way leaves no profile."""
    me = os.getpid()
    profile = cProfile.Profile(time.thread_time)
    signal.signal(signal.SIGALRM, lambda *_: profile.enable())  # a handler runs in the thread that is meant
    try:
        if settle:
            signal.alarm(settle)
        else:
            profile.enable()
        command(list(words))
    finally:
        profile.disable()
        if os.getpid() == me:
            profile.dump_stats(out)


def run_sampler(out: str, state: str, seconds: float) -> None:
    """Each of its threads has a profile of its own; they are added up."""
    profiles: dict[threading.Thread, cProfile.Profile] = {}
    run = threading.Thread.run

    def run_profiled(self: threading.Thread) -> None:
        profiles[self] = cProfile.Profile(time.thread_time)
        profiles[self].runcall(run, self)

    threading.Thread.run = run_profiled  # type: ignore[method-assign]
    sampler = Sampler(resources=("gpu",), state_dir=state)
    sampler.start()
    time.sleep(seconds)
    sampler.stop()
    whole = pstats.Stats()
    for thread, profile in profiles.items():
        thread.join(ENDING)  # whoever ends a profile does so by the clock of his own thread
        if not thread.is_alive():
            whole.add(profile)
    whole.dump_stats(out)


def rows(path: str) -> dict[str, Any]:
    """The dearest of our own functions with all that they call, and of all functions by themselves; shares of all."""
    stats = pstats.Stats(path).stats  # type: ignore[attr-defined]
    whole = sum(own for _, _, own, _, _ in stats.values()) or 1.0
    said = [
        {"what": _named(*key), "calls": calls, "own": own / whole, "cumulative": with_callees / whole}
        for key, (_, calls, own, with_callees, _) in stats.items()
    ]
    ours = sorted(
        (one for one in said if "holdtop/" in one["what"] and one["cumulative"] < AROUND),
        key=lambda one: -one["cumulative"],
    )
    return {
        "cpu_seconds": whole,
        "ours": ours[:MOST],
        "own": sorted(said, key=lambda one: -one["own"])[:MOST],
    }


def _named(file: str, line: int, name: str) -> str:
    """Without what is this machine's alone."""
    parts = Path(file).parts
    for root in ("holdtop", "site-packages"):
        if root in parts:
            at = len(parts) - 1 - parts[::-1].index(root) + (root == "site-packages")
            return f"{'/'.join(parts[at:])}:{line} {name}"
    return f"{parts[-1]}:{line} {name}" if line else name


def imports() -> list[dict[str, Any]]:
    """Milliseconds of the imports of ``holdtop run``, the dearest by themselves first; the first row is their sum."""
    with tempfile.TemporaryDirectory(prefix="bench-") as state:
        words = [sys.executable, "-X", "importtime", "-m", "holdtop", "run", "--state-dir", state, "--", "true"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    found = [(int(own) / 1000, name) for own, _, _, name in _IMPORT.findall(told)]
    dearest = sorted(found, reverse=True)[:MOST]
    return [{"what": f"all {len(found)}", "ms": sum(own for own, _ in found)}] + [
        {"what": name, "ms": own} for own, name in dearest
    ]


def on_terminal(out: str, state: str, seconds: float) -> None:
    with terminal("-m", "bench.profiled", "verb", out, str(SETTLE), "--refresh", "1s", "--state-dir", state) as opened:
        opened.until(b"headroom", seconds=ENDING)
        opened.read(SETTLE + seconds)
        opened.type(b"q")
        opened.ended_within(ENDING)


def child(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "bench.profiled", *words], cwd=made.ROOT, check=True)


def measured(seconds: float, tickets: int, processes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        out = {name: str(Path(directory) / name) for name in PARTS}
        with crowd(tickets) as state, sleepers(processes, 3):
            on_terminal(out["console"], str(state), seconds)
            child("sampler", out["sampler"], str(state), str(seconds))
        child("verb", out["hold"], "0", "run", "--state-dir", directory, "--", "true")
        return {name: rows(path) for name, path in out.items()}


def page(result: Mapping[str, Any]) -> Iterator[str]:
    yield HEAD.format(made=made.line(result), **result)
    for name, title in PARTS.items():
        part = result[name]
        yield f"\n## {title}\n\n{part['cpu_seconds']:.3g} s on a processor, the profiler's own work included.\n"
        yield "\n| holdtop's own functions, with what they call | calls | share |\n|---|---|---|\n"
        yield from (_row(one, "cumulative") for one in part["ours"])
        yield "\n| any function by itself | calls | share |\n|---|---|---|\n"
        yield from (_row(one, "own") for one in part["own"])
    yield "\n## The imports of `holdtop run`\n\n| module, by itself | ms |\n|---|---|\n"
    yield from (f"| `{one['what']}` | {one['ms']:.1f} |\n" for one in result["imports"])


def _row(one: Mapping[str, Any], share: str) -> str:
    return f"| `{one['what']}` | {one['calls']:,} | {100 * one[share]:.1f} % |\n"


def main(words: Sequence[str]) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as it is installed: compiled once
    imports()
    seconds, tickets, processes = (*map(int, words), *(60, 5000, 3000)[len(words) :])
    load = os.getloadavg()[0]
    figures = {**measured(seconds, tickets, processes), "imports": imports()}
    sizes = {"seconds": seconds, "tickets": tickets, "processes": processes}
    result = {**made.head("make profile", load), **sizes, **figures}
    made.keep("profile", result, "".join(page(result)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["verb"]:
        run_verb(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
    elif sys.argv[1:2] == ["sampler"]:
        run_sampler(sys.argv[2], sys.argv[3], float(sys.argv[4]))
    else:
        main(sys.argv[1:])
