"""What those that only look can say of this box: the doctor and ``holdtop state check``."""

from __future__ import annotations

from dataclasses import dataclass


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
