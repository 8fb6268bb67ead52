"""Every figure of speed in one run, beside what it is measured against: ``bench/results/speed.json``, ``speed.md``.

``python -m bench.speed [WAITERS]``: with 200 about four minutes on an idle box, and on a busy one no figure to keep.
Needs a writable cgroup v2, a C compiler and flock(1).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import handover, killphase, made, startup, waiters

HEAD = """\
# Speed

{made}. Ratios are of medians that were taken by turns in this run. What bounds each figure:
[bench/README.md](../README.md#speed).

| what | holdtop | beside it | ratio | target |
|---|---|---|---|---|
"""


def page(result: Mapping[str, Any]) -> str:
    return HEAD.format(made=made.line(result)) + "".join(f"| {' | '.join(row)} |\n" for row in rows(result))


def rows(result: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    started = result["startup"]["commands"]
    run, bare = started["holdtop run -- true"], started[startup.BARE]
    yield (
        "start: `holdtop run -- true`",
        f"{run['median_ms']} ms",
        f"`{startup.BARE}`: {bare['median_ms']} ms",
        f"{run['ratio_to_bare_python']} ×",
        "4 ×",
    )
    for one in result["handover"]:
        ours, flock = (one["ms"][tool]["median"] for tool in ("holdtop", "flock"))
        dying = f", {one['dying']} of them killed" if one["dying"] else ""
        yield (
            f"hand-over, {one['waiters']} waiters{dying}; {one['overtakes']['holdtop']} pairs out of order",
            f"{ours} ms",
            f"`flock`: {flock} ms, {one['overtakes']['flock']} pairs",
            f"{one['ratio']} ×",
            "2 ×, in order",
        )
    idle = result["waiters"]
    yield (
        f"{idle['waiters']} idle waiters",
        f"{idle['percent_of_a_core']} % of a core, {idle['pss_mib']['slowest']:.1f} MiB (PSS) at most",
        f"{idle['wakes_a_second']} wakes a second",
        f"{idle['microseconds_a_wake']} µs a wake",
        "1 %, 15 MiB",
    )
    ended = result["killphase"]
    yield (
        f"KILL phase of {ended['processes']} processes",
        f"{ended['ms']['holdtop']['median']} ms",
        f"`cgroup.kill`: {ended['ms']['cgroup.kill']['median']} ms",
        f"{ended['ratio']} ×",
        "1.5 ×",
    )


def main(words: Sequence[str]) -> None:
    before = os.getloadavg()[0]
    figures = {
        "startup": startup.main(()),
        "killphase": killphase.main(()),
        "waiters": waiters.main(words),
        "handover": handover.main(words),
    }
    result = {
        **made.head("make bench", before),
        **figures,
    }
    made.keep("speed", result, page(result))


if __name__ == "__main__":
    main(sys.argv[1:])
