"""The sections of ``holdtop doctor``. Each is a file with one function of a ``Case``; to add one, list it here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial

from holdtop.errors import HoldtopError
from holdtop.host import amdsmi
from holdtop.host.doctor.box import box
from holdtop.host.doctor.devices import devices
from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Section, Unlooked
from holdtop.host.doctor.memory import memory
from holdtop.host.doctor.readings import readings
from holdtop.host.doctor.second_opinion import second_opinion
from holdtop.host.doctor.state import state
from holdtop.sampler.source import Source

__all__ = ["SECTIONS", "Case", "Fact", "Finding", "Said", "Section", "Unlooked", "examine"]

SECTIONS: Mapping[str, Section] = {
    "devices": devices,
    "readings": readings,
    "memory": memory,
    "second opinion": second_opinion,
    "box": box,
    "state": state,
}
#: Seconds for all sections, which run side by side: the longest is the second opinion.
DEADLINE = amdsmi.DEADLINE + 2.0


def examine(
    case: Case, sections: Mapping[str, Section] = SECTIONS, deadline: float = DEADLINE
) -> dict[str, tuple[Said, ...]]:
    """What each section says, within ``deadline`` seconds: one that hangs says that it could not look.

    Each has a daemon thread of its own, as each sensor has: nobody joins one that hangs.
    """
    until = time.monotonic() + deadline
    sources = {name: Source(name, partial(_tried, section, case)) for name, section in sections.items()}
    for source in sources.values():
        source.ask()
    for source in sources.values():
        source.wait(until)
    said = {name: _answer(source) for name, source in sources.items()}
    for source in sources.values():
        source.close()
    return said


def _tried(section: Section, case: Case) -> tuple[Said, ...]:
    said: list[Said] = []
    try:
        said.extend(section(case))
    except (OSError, HoldtopError) as error:
        said.append(Unlooked("error", "the rest of this section", str(error)))
    return tuple(said)


def _answer(source: Source[tuple[Said, ...]]) -> tuple[Said, ...]:
    if source.newest is not None:
        return source.newest[0]
    return (Unlooked("timeout", "this section", f"a read has not returned for {source.silent_for or 0:.0f} s"),)
