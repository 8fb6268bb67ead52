"""What a section of the doctor's can say. Nothing else is printed, and findings alone make its status 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdtop.host.said import Fact, Finding, Said, Unlooked
from holdtop.model.values import Reading, Snapshot
from holdtop.sources.roots import Roots

__all__ = ["Case", "Fact", "Finding", "Said", "Section", "Unlooked", "hangs"]


@dataclass(frozen=True, slots=True)
class Case:
    """What is examined."""

    roots: Roots
    #: As named on the command line, ``None``: by the rules.
    state_dir: str | None
    #: One look at the box with all sensors, its first: no rate is known.
    snapshot: Snapshot

    @property
    def recorded(self) -> bool:
        """The devices are a recording's: what lacks there need not have lacked on the machine."""
        return self.roots.sys != "/sys"


#: Looks for itself as far as the snapshot does not say it. May raise ``OSError`` and ``HoldtopError``, and may hang.
Section = Callable[[Case], Iterable[Said]]


def hangs(reading: Reading) -> bool:
    """There is no value because the read has not come back (or has not begun for want of its card)."""
    return reading.cause == "pending"
