"""What the verbs of the box say: findings, and the steps of a change."""

from __future__ import annotations

from collections.abc import Callable

from holdtop.lean import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong with the set-up of this box."""

    #: Stable, for programs: ``writable``, ``old-tool``, …
    kind: str
    #: The path, account or process it is about; foreign text, as are the others.
    about: str
    what: str
    why: str
    #: The command that mends it, or what has to be done.
    remedy: str


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
