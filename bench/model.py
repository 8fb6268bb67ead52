"""The protocol's model, checked exhaustively by spin: as it is, and with one line of it broken at a time.

``python -m bench.model`` checks ``docs/protocol/hold.pml`` for two and three lanes, then every mutation, and writes
``bench/results/model.md``. Needs spin and a C compiler. Exits 1 when the model fails or a mutation is not caught.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench import made

MODEL = made.ROOT / "docs/protocol/hold.pml"
RESULTS = made.RESULTS / "model.md"
#: Deeper than any run: a search that comes to it is not complete and counts as failed.
DEEPEST = 100_000
#: What a company may ask for, and does not unless it says so.
QUIET = ("SHELLS", "OPERATORS", "KILLS", "EVICTIONS", "ROBBERIES", "TIDYINGS", "PROMPT", "SERVED")


@dataclass(frozen=True)
class Company:
    """Who takes part beside the lanes, and how often what may happen to them."""

    flags: Mapping[str, int]
    #: Numbers of lanes with which it is searched.
    lanes: tuple[int, ...] = (2, 3)


COMPANIES = {
    "lanes": Company({"KILLS": 2, "EVICTIONS": 1}),
    "operator": Company({"KILLS": 1, "EVICTIONS": 1, "OPERATORS": 1}),
    "robbed": Company({"KILLS": 1, "ROBBERIES": 1}),
    "prompt": Company({"KILLS": 1, "EVICTIONS": 1, "PROMPT": 1}),
    "served": Company({"KILLS": 1, "EVICTIONS": 1, "SERVED": 1}),
    "shell": Company({"KILLS": 1, "EVICTIONS": 1, "SHELLS": 1}),
    "tidied": Company({"KILLS": 2, "SHELLS": 1, "OPERATORS": 1, "TIDYINGS": 1}, lanes=(2,)),
}


@dataclass(frozen=True)
class Mutation:
    """One line broken: what the code would do instead, in whose company it shows, and which property breaks."""

    what: str
    company: str
    breaks: str


OUTLIVES = "outlives_its_token"
MUTATIONS = {
    "FREE_FIRST": Mutation("the token is freed before the payload has ended", "lanes", OUTLIVES),
    "LEFT_ALONE": Mutation("a ghost's payload is not ended before its token is taken over", "lanes", OUTLIVES),
    "OVERWRITE": Mutation("the token is renamed into place over what lies there", "shell", OUTLIVES),
    "UNCHECKED": Mutation("a taker does not look whether its own ticket is still there", "lanes", "evicted_one_starts"),
    "JOIN_UNLOCKED": Mutation("the sequence is read and written without the lock", "lanes", "same_number"),
    "TAKE_UNLOCKED": Mutation("the token is taken without the lock", "lanes", "names_a_strangers_file"),
    "LOCK_STAYS": Mutation("the lock is a file that a killed process leaves", "lanes", "invalid end state"),
    "GHOST_STAYS": Mutation("nobody recovers a dead hold's token", "lanes", "invalid end state"),
    "BLIND": Mutation("a release does not compare identities: an heir releases once more", "lanes", OUTLIVES),
    "LOOK_NOT_AGAIN": Mutation("recovery exchanges without another look under the lock", "operator", OUTLIVES),
    "NO_PIN": Mutation("the judged token is not kept open: its number comes back", "tidied", OUTLIVES),
    "UNLINK_AND_LINK": Mutation("recovery verifies, unlinks and links instead of exchanging", "tidied", OUTLIVES),
    "NOT_BACK": Mutation("what comes out of an exchange is not given back", "tidied", OUTLIVES),
    "NOT_RESTORED": Mutation("nobody completes the exchange of a killed one", "tidied", OUTLIVES),
    "ROBBED_UNSEEN": Mutation("a taker does not look who runs without a token", "robbed", "two_holders"),
    "UNPUBLISHED": Mutation("the command is executed before the record is written", "robbed", "two_holders"),
    "PUT_BACK_UNLOCKED": Mutation("a removed token is put back without the lock", "robbed", "names_a_strangers_file"),
    "RELEASE_UNLOCKED": Mutation("a release compares and unlinks without the lock", "robbed", OUTLIVES),
    "NO_DESCRIPTOR": Mutation("a holder remembers its token's number without keeping it open", "robbed", OUTLIVES),
}


@dataclass(frozen=True)
class Verdict:
    """What the search came to; ``broken`` names the property that does not hold, ``None`` when all do."""

    states: int
    depth: int
    mebibytes: float
    seconds: float
    broken: str | None


def verdict(company: Company, lanes: int, mutation: str | None = None) -> Verdict:
    """Search all states. Raises ``RuntimeError`` when spin, the compiler or the search itself fails."""
    flags = {**dict.fromkeys((*QUIET, *MUTATIONS), 0), **company.flags, "LANES": lanes}
    if mutation:
        flags[mutation] = 1
    search = ("-DNFAIR=3", "-a", "-f") if flags["SERVED"] else ("-DSAFETY",)
    optimised = "-O2" if lanes == 3 else "-O0"  # with two, compiling takes longer than most searches
    with tempfile.TemporaryDirectory(prefix="model-") as aside:
        _run(aside, "spin", *(f"-D{name}={value}" for name, value in flags.items()), "-a", str(MODEL))
        _run(aside, "cc", optimised, "-w", "-DCOLLAPSE", search[0], "-o", "pan", "pan.c")
        return _read(_run(aside, "./pan", f"-m{DEEPEST}", f"-w{18 + 3 * (lanes - 1)}", *search[1:]))


def _run(aside: str, *words: str) -> str:
    done = subprocess.run(words, cwd=aside, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def _read(text: str) -> Verdict:
    def figure(form: str) -> float:
        found = re.search(form, text)
        if found is None:
            raise RuntimeError(f"spin says something unknown: {text}")
        return float(found[1])

    broken = re.search(r"pan:\d+: (?:assertion violated +!\((\w+)\)|(.+?) \(at depth)", text)
    if broken is None and (figure(r"errors: (\d+)") or "not completed" in text or "too small" in text):
        raise RuntimeError(f"the search is not complete: {text}")
    return Verdict(
        states=int(figure(r"(\d+) states, stored")),
        depth=int(figure(r"depth reached (\d+)")),
        mebibytes=figure(r"([\d.]+)\s+total actual memory usage"),
        seconds=figure(r"elapsed time ([\d.e+-]+)"),
        broken=(broken[1] or broken[2]) if broken else None,
    )


def _page() -> Iterator[str]:
    spin = _run(".", "spin", "-V").strip()
    yield "# The protocol's model\n"
    yield f"{made.line(made.head('make model', os.getloadavg()[0]))},\nwith {spin}."
    yield "What the columns mean: [docs/protocol](../../docs/protocol/README.md).\n"
    yield "| company | lanes | states | depth | MiB | seconds | broken |\n|---|---|---|---|---|---|---|"
    for name, company in COMPANIES.items():
        for lanes in company.lanes:
            found = verdict(company, lanes)
            size = f"{found.states:,} | {found.depth} | {found.mebibytes:.0f} | {found.seconds:.1f}"
            yield f"| {name} | {lanes} | {size} | {found.broken or '–'} |"
    yield "\n| mutation | what it does | company | property that breaks |\n|---|---|---|---|"
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        found_all = workers.map(lambda name: verdict(COMPANIES[MUTATIONS[name].company], 2, name), MUTATIONS)
        for (name, mutation), found in zip(MUTATIONS.items(), found_all, strict=True):
            yield f"| {name} | {mutation.what} | {mutation.company} | {found.broken or '**not caught**'} |"


def main() -> int:
    lines = []
    for line in _page():
        print(line, flush=True)
        lines.append(line)
    page = "\n".join(lines) + "\n"
    RESULTS.write_text(page)
    wanted = [mutation.breaks for mutation in MUTATIONS.values()]
    whole = ["–" for company in COMPANIES.values() for _ in company.lanes]
    return 0 if re.findall(r"\| ([^|]+) \|$", page, re.M) == ["broken", *whole, "property that breaks", *wanted] else 1


if __name__ == "__main__":
    sys.exit(main())
