"""What those that only look can say of this box: the doctor and ``holdtop state check``."""

from __future__ import annotations

from dataclasses import dataclass

from holdtop.model.values import Finding

__all__ = ["Fact", "Finding", "Said", "Unlooked"]


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
