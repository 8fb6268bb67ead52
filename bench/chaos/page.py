"""The run as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench import made

HEAD = """\
# Chaos

{made}: {episodes} episodes with seeds {seed} to {last},
{lanes} lanes, {arenas} episodes at a time, in {seconds} s. `python -m bench.chaos --episodes 1 --seed N` plays
episode N again. How it is done and judged: [../README.md](../README.md#chaos).
"""


def page(result: Mapping[str, Any]) -> str:
    return "\n".join(_lines(result)) + "\n"


def _lines(result: Mapping[str, Any]) -> Iterator[str]:
    yield HEAD.format(made=made.line(result), **result, last=result["seed"] + result["episodes"] - 1)
    yield f"| {' | '.join(result['counts'])} |"
    yield "|---" * len(result["counts"]) + "|"
    yield f"| {' | '.join(map(str, result['counts'].values()))} |"
    yield ""
    for title, what in (("Planned acts", result["acts"]), ("What happened", result["happened"])):
        yield f"{title}: {', '.join(f'{name} {times}' for name, times in sorted(what.items()))}.\n"
    for fault in result["faults"]:
        yield f"Episode {fault['seed']}: {'; '.join(': '.join(one) for one in fault['found'])}\n"
