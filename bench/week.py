"""What grows with a recording: ``bench/results/week.json``, ``week.md`` and the curves in ``docs/pictures/week.svg``.

``python -m bench.week [SECONDS [BEFORE.json]]`` watches the demo for so many seconds and makes of its looks, round and
round, recordings of an hour, a day and a week: a look in ten seconds, and one a second of the last hour. Each is then
opened, searched and reported, by turns with the floor: the same bytes read, their CRC taken. What is measured is a
process' own time on a processor, which others on the box hardly change, and its peak memory.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

from bench import made
from bench.lanes import HOLDTOP
from bench.plot import drawn
from bench.recorder import demo_looks

from holdtop.console.replaying.player import Player
from holdtop.model.values import Snapshot
from holdtop.recorder.recorder import Recorder
from holdtop.recorder.recording import Recording
from holdtop.recorder.ring import COARSE, FINE

#: Hours that are recorded.
SPANS = (1, 24, 168)
ROUNDS, TIMES = 2, 60
#: What is measured, in milliseconds on a processor, and what of it is a command of its own.
NAMES = {
    "open": "opening",
    "seek": "seeking by time, and the look there",
    "jump": "from bookmark to bookmark, and the look there",
    "play": "a step of playing: which look is due",
    "at": "`holdtop replay --plain --at`",
    "incident": "`holdtop incident --last`",
    "floor": "the floor: reading it, and its CRC",
}
VERBS: Mapping[str, Sequence[str]] = {
    "at": ("replay", "--plain", "--at=-30m"),
    "incident": ("incident", "--last"),
}
HEAD = """\
# A long recording

{made}. A demo box's looks,
one in ten seconds and of the last hour one a second. Medians of {rounds} rounds in which all recordings take turns;
milliseconds on a processor. What bounds each: [docs/scale.md](../../docs/scale.md).

| milliseconds, by hours recorded | {sizes} | most to least |
|---|{rule}
"""


def idle(look: Snapshot) -> Snapshot:
    """The same box with nobody and nothing on it: from one to the other bookmarks are set."""
    free = (replace(one, state="free", holder=None, waiting=()) for one in look.resources)
    return replace(look, flags=(), resources=tuple(free))


def generate(path: Path, seen: Sequence[Snapshot], hours: int) -> None:
    end, seconds = datetime.now().astimezone().replace(microsecond=0), 3600 * hours
    bounds = (FINE, replace(COARSE, records=seconds // 10, size=hours * COARSE.size))
    recorder = Recorder(str(path), print, bounds)
    for number, second in enumerate([*range(0, seconds - 3600, 10), *range(seconds - 3600, seconds)]):
        taken = (end - timedelta(seconds=seconds - second)).isoformat()
        recorder.take(replace(seen[number % len(seen)], taken_at=taken, at=float(second)))
    recorder.close()


def cost(work: Callable[[], object]) -> float:
    """Milliseconds of this process on a processor."""
    began = time.process_time()
    work()
    return 1000 * (time.process_time() - began)


def inside(path: str) -> dict[str, float]:
    """Of a recording, in a process of its own: its peak memory is what opening and showing take."""
    files = [file for file in Path(path).iterdir() if file.suffix == ".rec"]
    floor = cost(lambda: [zlib.crc32(file.read_bytes()) for file in files])
    tapes: list[Recording] = []
    opening = cost(lambda: tapes.append(Recording(path)))
    (tape,) = tapes
    player, pick = Player(tape), random.Random(1)
    begin, end = (tape.instants[place].at_ms for place in (0, -1))

    def seek() -> None:
        player.seek(datetime.fromtimestamp(pick.randint(begin, end) / 1000).astimezone().isoformat())
        player.snapshot(player.position)

    def jump() -> None:
        player.go(pick.randrange(len(tape.instants)))
        player.jump(pick.choice((-1, 1)))
        player.snapshot(player.position)

    def play() -> None:
        player.go(pick.randrange(len(tape.instants)))
        for _ in ("on", "off"):
            player.play()
            player._play_on()

    acts = {"seek": seek, "jump": jump, "play": play}
    times = {name: median(cost(act) for _ in range(TIMES)) for name, act in acts.items()}
    return {"floor": floor, "open": opening, **times, "looks": len(tape.instants), "told": len(tape.told)}


def child(*words: str) -> tuple[bytes, float, float]:
    """What it wrote, its milliseconds on a processor and its peak memory in MiB."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=made.ROOT) as process:
        assert process.stdout
        written = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{words}: status {process.returncode}")
    return written, 1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss / 1024


def measured(path: str) -> dict[str, float]:
    written, _, peak = child(sys.executable, "-m", "bench.week", "inside", path)
    found = {**json.loads(written), "open MiB": peak}
    for name, words in VERBS.items():
        _, found[name], found[f"{name} MiB"] = child(HOLDTOP[0], *words, path)
    return found


def by_hours(seen: Sequence[Snapshot]) -> dict[str, dict[int, float]]:
    samples: dict[str, dict[int, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        paths = {hours: Path(directory) / str(hours) for hours in SPANS}
        for hours, path in paths.items():
            generate(path, seen, hours)
        for _ in range(ROUNDS):
            for hours, path in paths.items():
                for name, value in measured(str(path)).items():
                    samples.setdefault(name, {}).setdefault(hours, []).append(value)
        sizes = {hours: sum(file.stat().st_size for file in path.iterdir()) for hours, path in paths.items()}
    found = {name: {size: round(median(some), 3) for size, some in by.items()} for name, by in samples.items()}
    return {**found, "disk MiB": {hours: round(size / 2**20, 1) for hours, size in sizes.items()}}


def page(result: Mapping[str, Any]) -> Iterator[str]:
    sizes = " | ".join(f"{hours:,}" for hours in SPANS)
    yield HEAD.format(made=made.line(result), rounds=ROUNDS, sizes=sizes, rule="---|" * (len(SPANS) + 1))
    hours, before = result["hours"], result.get("before", {})
    for name, said in NAMES.items():
        yield _row(said, hours[name])
        if name in before:
            yield _row("… before", before[name])
    ratios = [one / other for one, other in zip(hours["open"].values(), hours["floor"].values(), strict=True)]
    yield f"| opening, as so many floors | {' | '.join(f'{ratio:.1f}' for ratio in ratios)} | |\n"
    yield f"\n| what it is, and takes at its peak | {sizes} | most to least |\n|---|{'---|' * (len(SPANS) + 1)}\n"
    sizes_of = {"looks": "looks", "told": "bookmarks, events and acts", "disk MiB": "MiB on the disk"}
    peaks = {f"{name} MiB": f"{NAMES[name]}: resident MiB" for name in ("open", *VERBS)}
    for name, said in {**sizes_of, **peaks}.items():
        yield _row(said, hours[name])


def _row(name: str, values: Mapping[Any, float]) -> str:
    numbers = list(values.values())
    return f"| {name} | {' | '.join(f'{value:g}' for value in numbers)} | {numbers[-1] / numbers[0]:.2f} × |\n"


def picture(result: Mapping[str, Any]) -> str:
    def curves(some: Mapping[str, Mapping[Any, float]]) -> dict[str, list[tuple[float, float]]]:
        return {
            said.replace("`", ""): [(float(size), max(0.001, value)) for size, value in some[name].items()]
            for name, said in NAMES.items()
            if name in some
        }

    before = curves(result.get("before", {}))
    title = "milliseconds on a processor" + (" (dashed: before)" if before else "")
    return drawn(title, "hours recorded", curves(result["hours"]), before)


def main(words: Sequence[str]) -> dict[str, Any]:
    load = os.getloadavg()[0]
    seen = demo_looks(int(words[0]) if words else 40)
    result = {"hours": by_hours([*seen, *map(idle, seen)])}
    before = {"before": json.loads(Path(words[1]).read_text())["hours"]} if words[1:] else {}
    return {**made.head("make week", load), **result, **before}


if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        print(json.dumps(inside(sys.argv[2])))
    else:
        found = main(sys.argv[1:])
        (made.ROOT / "docs/pictures/week.svg").write_text(picture(found))
        made.keep("week", found, "".join(page(found)))
