"""The matrix as a page: one table of ends, one of means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench import made
from tests.hold.orphans import DAEMONS, KINDS

#: In words, for the head of the page.
WORDS = {
    "plain": "a child",
    "ignoring": "a child that ignores TERM, INT and HUP",
    "setsid": "a child in a session of its own that keeps its descriptors",
    "daemon": "a double-forked daemon without descriptors",
    "disguised": "the same, with an empty environment and another name",
    "chain": "a fork chain of 20 ms a link in the job's process group",
    "chainsid": "the same, each link a session of its own",
    "root": "the command itself",
}

HEAD = """\
# What outlives its job

{made}. Each line is one run; **S** lived {wait_s:g} s after
the end. *Gone* is when the last one was seen, *slot* when the next job ran, in seconds after the end, with the number
that lived then. holdtop ran with `--grace {grace_s:g}`. The last column is the slot of a second run, whose payload
leaves only the two daemons. holdtop's operator verbs count from their own start; what `KILL both` left was ended by
the next job in the queue.
"""
MEANS = """
## What each means finds

The same payload, one second after its root has exited, each means asked alone, as a share of 40 looks. A scan of
`/proc` misses a link that ends before the scan comes to it; a cgroup and a subreaper's wait (ECHILD) are the kernel's
own word (less than all of a chain there: the listed link was dead before its kind was read). For the pid namespace
(`unshare --pid --fork --kill-child`): what was ended with its first process.
"""


def page(result: Mapping[str, Any]) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    yield HEAD.format(made=made.line(result), **result)
    yield from (f"- *{kind}*: {WORDS[kind]}" for kind in KINDS)
    yield from (f"- not here, and not installed: {name}" for name in result["skipped"])
    yield ""
    yield from _table(["tool", "end", *KINDS, "gone", "slot", "slot, daemons only"], _runs(result["rows"]))
    yield MEANS
    others = [kind for kind in KINDS if kind != "root"]
    shares = ([means, *(_share(found[kind]) for kind in others)] for means, found in result["means"].items())
    yield from _table(["means", *others], shares)


def _runs(rows: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    daemons = {(row["tool"], row["end"]): row for row in rows if set(row["kinds"]) == {*DAEMONS}}
    for row in rows:
        if set(row["kinds"]) == {*KINDS}:
            lived = ["**S**" if kind in row["survivors"] else "." for kind in KINDS]
            gone = "never" if row["last_gone"] is None else f"{row['last_gone']:.1f}"
            second = daemons.get((row["tool"], row["end"]))
            slots = [_slot(row), _slot(second)] if second else ["no queue"] * 2
            yield [row["tool"], row["end"], *lived, gone, *slots]


def _slot(row: Mapping[str, Any]) -> str:
    if row["slot_free"] is not None:
        return f"{row['slot_free']:.1f}, {len(row['alive_then']) or 'none'} alive"
    if row["lost"] is not None:
        return f"queued job lost; a new one ran, {len(row['lost']) or 'none'} alive"
    return "held"


def _share(share: float) -> str:
    return "." if not share else "all" if share == 1 else f"{share:.0%}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
