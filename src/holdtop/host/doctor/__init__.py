"""The sections of ``holdtop doctor``. Each is a file with one function of a ``Case``; to add one, list it here."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

from holdtop.host import amdsmi
from holdtop.host.doctor.box import box
from holdtop.host.doctor.devices import devices
from holdtop.host.doctor.findings import Case, Fact, Finding, Said, Section, Unlooked
from holdtop.host.doctor.memory import memory
from holdtop.host.doctor.readings import readings
from holdtop.host.doctor.runners import runners
from holdtop.host.doctor.second_opinion import second_opinion
from holdtop.host.doctor.state import state

__all__ = ["SECTIONS", "Case", "Fact", "Finding", "Said", "Section", "Unlooked", "examine"]

SECTIONS: Mapping[str, Section] = {
    "devices": devices,
    "readings": readings,
    "memory": memory,
    "second opinion": second_opinion,
    "box": box,
    "state": state,
    "runners": runners,
}
#: Seconds for all sections, which run side by side: the longest is the second opinion.
DEADLINE = amdsmi.DEADLINE + 2.0


_SILENT = Unlooked("timeout", "this section", "a read has not returned")


def examine(
    case: Case, sections: Mapping[str, Section] = SECTIONS, deadline: float = DEADLINE
) -> dict[str, tuple[Said, ...]]:
    """What each section says, within ``deadline`` seconds: one that hangs says that it could not look.

    Each has a daemon thread of its own, as each sensor has: nobody joins one that hangs.
    """
    said: dict[str, tuple[Said, ...]] = {}

    def answer(name: str, section: Section) -> None:
        said[name] = _tried(section, case)

    until = time.monotonic() + deadline
    threads = [threading.Thread(target=answer, args=item, daemon=True) for item in sections.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {name: said.get(name, (_SILENT,)) for name in sections}


def _tried(section: Section, case: Case) -> tuple[Said, ...]:
    said: list[Said] = []
    try:
        said.extend(section(case))
    except Exception as error:  # noqa: BLE001  a fault of ours in one section takes no other with it
        said.append(Unlooked("error", "the rest of this section", str(error) or type(error).__name__))
    return tuple(said)
