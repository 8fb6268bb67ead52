"""What a section of the doctor's can say. Nothing else is printed, and findings alone make its status 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdtop.model.values import Reading, Snapshot
from holdtop.sources.roots import Roots


@dataclass(frozen=True, slots=True)
class Finding:
    """Something is wrong, and can be mended."""

    #: One stable word for programs, as ``no-tctl``.
    kind: str
    #: What was seen, in one clause.
    what: str
    #: What is lost by it.
    why: str
    #: The exact command, or what to boot with or to install where there is no command for it.
    remedy: str


@dataclass(frozen=True, slots=True)
class Fact:
    """So it is; nothing to mend."""

    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class Unlooked:
    """Could not look: neither well nor ill is known."""

    kind: str
    what: str
    why: str


Said = Finding | Fact | Unlooked


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
    return reading.value is None and (reading.why or "").startswith(("timeout", "not read yet"))
