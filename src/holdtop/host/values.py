"""The steps of a change to the box."""

from __future__ import annotations

from collections.abc import Callable

from holdtop.lean import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One change, told before it is done."""

    text: str
    act: Callable[[], object]


def carry_out(steps: list[Step], say: Callable[[str], None]) -> None:
    """In this order; each is told once it is done. Raises what a step raises."""
    for step in steps:
        step.act()
        say(step.text)
