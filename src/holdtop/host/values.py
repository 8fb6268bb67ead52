"""What the verbs of the host share: the steps of a change to the box, and what a forge says."""

from __future__ import annotations

from collections.abc import Callable

from holdtop.lean import dataclass
from holdtop.model.values import Registered


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


@dataclass(frozen=True, slots=True)
class Online:
    """What is known of a runner's registration at its forge. ``why``: it is ``unknown``."""

    state: Registered = "unknown"
    why: str | None = "no token for the forge is configured"
