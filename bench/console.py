"""What the console costs beside other monitors: ``bench/results/console.json``, ``console.md``.

``python -m bench.console [PROCESSES [SECONDS]]`` watches a box with so many more processes (``sleepers.c``) for so many
seconds with each program, at one look a second, on a terminal of 120x40; then it measures the first picture beside a
bare Textual program's, and how long a key takes to show among 5,000 tickets. htop and btop are left out where they
are not installed. Figures of one run belong together: no other run's are comparable.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import made
from bench.lanes import summary
from bench.scan import sleepers
from tests.console.terminals import Terminal, terminal

#: Seconds until a program's first looks are over.
SETTLE = 8.0
ROUNDS, KEYS = 10, 100
#: Of the tickets that ``tests.console.live crowd`` shows.
CROWD = 5000
#: Named so that no other text of the screen is taken for it.
FRAME, FULL, BARE = b"Runners", b"headroom", b"here"
DOWN = b"\x1b[B"
PAGE = """\
# The console

{made}: {processes} processes beside the box's own, a look a second, a terminal of 120x40.
More: [bench/README.md](../README.md#the-console).

| monitor, over {seconds:.0f} s | of a core | CPU a minute | resident | CPU, ratio |
|---|---|---|---|---|
"""


def words_of(name: str, home: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What comes before the interpreter, and after it."""
    if name == "holdtop":
        return (), ("-m", "holdtop", "--refresh", "1s", "--state-dir", str(home / "state"))
    line = "exec htop -d 10" if name == "htop" else "exec btop --utf-force"
    return ("sh", "-c", line), ()


def used_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def watched(name: str, home: Path, seconds: float) -> dict[str, float]:
    prefix, words = words_of(name, home)
    with terminal(*words, prefix=prefix, XDG_CONFIG_HOME=str(home)) as opened:
        opened.read(SETTLE)
        if opened.process.poll() is not None:
            raise RuntimeError(f"{name} ended: {opened.written[-500:]!r}")
        begun, used = time.monotonic(), used_seconds(opened.process.pid)
        opened.read(seconds)
        percent = 100 * (used_seconds(opened.process.pid) - used) / (time.monotonic() - begun)
        return {"percent": round(percent, 2), "resident_mib": round(resident_mib(opened.process.pid), 1)}


def seconds_until(opened: Terminal, wanted: bytes, begun: float, *, more: bool = False) -> float:
    """From ``begun`` until this is written, ``more``: or was before. Raises ``RuntimeError`` after half a minute."""
    opened.written = opened.written if more else b""
    while wanted not in opened.written:
        ready, _, _ = select.select([opened.master], [], [], 30.0)
        if not ready:
            raise RuntimeError(f"{wanted!r} never came: {opened.written[-500:]!r}")
        opened.written += os.read(opened.master, 65536)
    return time.monotonic() - begun


def first_pictures(home: Path) -> dict[str, dict[str, float]]:
    """Milliseconds from the start, by turns: of all panels without figures, of the first figures, of a bare program.

    Each with its bytecode, which an installed program has; a first round, which is not counted, makes it.
    """
    cached = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(home / "bytecode")}
    programs = {
        words_of("holdtop", home)[1]: {"frame": FRAME, "full": FULL},
        ("-m", "bench.bare"): {"bare": BARE},
    }
    times: dict[str, list[float]] = {"frame": [], "full": [], "bare": []}
    for _ in range(1 + ROUNDS):
        for words, marks in programs.items():
            begun = time.monotonic()
            with terminal(*words, **cached) as opened:
                for name, wanted in marks.items():
                    times[name].append(1000 * seconds_until(opened, wanted, begun, more=True))
    return {name: summary(samples[1:]) for name, samples in times.items()}


def keys() -> dict[str, float]:
    """Milliseconds from an arrow key to the row's number on the screen, in a crowd that is looked at every second."""
    took = []
    with terminal("-m", "tests.console.live", "crowd") as opened:
        seconds_until(opened, f"1 of {CROWD + 1}".encode(), time.monotonic())
        opened.read(3.0)
        for place in range(2, KEYS + 2):
            begun = time.monotonic()
            opened.type(DOWN)
            took.append(1000 * seconds_until(opened, f"{place} of ".encode(), begun))
            opened.read(0.03 + place % 7 / 50)  # at every moment of a look's second
        resident = resident_mib(opened.process.pid)
    took.sort()
    at = {"median": took[len(took) // 2], "p95": took[int(0.95 * len(took))], "slowest": took[-1]}
    return {name: round(value, 1) for name, value in at.items()} | {"resident_mib": round(resident, 1)}


def rows(result: Mapping[str, Any]) -> Iterator[str]:
    monitors = result["monitors"]
    ours = monitors["holdtop"]["percent"]
    for name, one in monitors.items():
        a_minute, ratio = one["percent"] * 0.6, ours / one["percent"] if one["percent"] else float("inf")
        yield f"| {name} | {one['percent']} % | {a_minute:.1f} s | {one['resident_mib']} MiB | {ratio:.2f} × |\n"
    first, key = result["first_picture_ms"], result["key_ms"]
    frame, full, bare = (first[name]["median"] for name in ("frame", "full", "bare"))
    yield f"""
| what | time | beside it |
|---|---|---|
| the first picture, all panels without figures | {frame:.0f} ms | a bare Textual program's: {bare:.0f} ms, \
**{frame / bare:.2f} ×** |
| the first figures | {full:.0f} ms | {full / bare:.2f} × |
| a key among {CROWD} tickets, p95 of {KEYS} | **{key["p95"]} ms** | median {key["median"]}, most {key["slowest"]} ms |

With {CROWD} tickets {key["resident_mib"]} MiB are resident.
"""


def main(words: Sequence[str]) -> dict[str, Any]:
    count, seconds = (*map(int, words), *(2000, 60)[len(words) :])
    before = os.getloadavg()[0]
    names = ["holdtop", *filter(shutil.which, ("htop", "btop"))]
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        home = Path(directory)
        (home / "state").mkdir(mode=0o2770)
        (home / "btop").mkdir()
        (home / "btop/btop.conf").write_text("update_ms = 1000\n")
        with sleepers(count, 3):
            monitors = {name: watched(name, home, seconds) for name in names}
        with contextlib.chdir(Path(__file__).parents[1]):
            figures = {"monitors": monitors, "first_picture_ms": first_pictures(home), "key_ms": keys()}
    return {
        **made.head("make bench", before),
        "processes": count,
        "seconds": seconds,
        **figures,
    }


if __name__ == "__main__":
    found = main(sys.argv[1:])
    made.keep("console", found, PAGE.format(made=made.line(found), **found) + "".join(rows(found)))
