"""What is worth telling, and worth a bookmark: a flag that went up, became worse, or is resolved; each once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from holdtop.model.flags_setup import OF_STATE
from holdtop.model.values import Flag, Snapshot
from holdtop.render import clean

#: Longest foreign text on a line, in characters.
LONG = 400


@dataclass(frozen=True, slots=True)
class Notice:
    state: Literal["raised", "resolved"]
    flag: Flag

    @property
    def line(self) -> str:
        """One line of clean text."""
        where = " ".join(filter(None, (self.flag.resource, self.flag.ticket)))
        said = f"{self.state} {self.flag.severity} {self.flag.kind}{f' ({where})' if where else ''}: {self.flag.text}"
        return clean(f"{said}; remedy: {self.flag.remedy}" if self.state == "raised" else said, LONG)


class Standing:
    """The flags that were told and are not resolved yet."""

    def __init__(self) -> None:
        self._told: dict[tuple[object, ...], Flag] = {}

    def compare(self, snapshot: Snapshot) -> Iterator[Notice]:
        """What is new since the look before. While a state cannot be read, nothing of it counts as resolved.

        Nor of a resource that is not among those that were looked at: which there are could not be read then.
        """
        now = {flag_key(flag): flag for flag in reversed(snapshot.flags)}
        states: dict[str | None, str] = {resource.name: resource.state for resource in snapshot.resources}
        absent = "unknown" if "unknown" in states.values() else "free"
        states.setdefault(None, "free")
        unseen = {runner.unit for runner in snapshot.runners if runner.up is None or snapshot.runners_why}
        if snapshot.state_why is not None:
            unseen |= {old.about for old in self._told.values() if old.kind in OF_STATE and old.about}
        for key, old in list(self._told.items()):
            if key not in now and states.get(old.resource, absent) != "unknown" and old.about not in unseen:
                yield Notice("resolved", self._told.pop(key))
        for key, flag in reversed(now.items()):
            told = self._told.get(key)
            if told is None or told.severity != flag.severity:
                self._told[key] = flag
                yield Notice("raised", flag)


def flag_key(flag: Flag) -> tuple[object, ...]:
    """A ghost whose leftovers end one by one stays one notice; without a ticket pids and remedy tell two apart."""
    return flag.kind, flag.resource, flag.ticket or flag.about or (flag.pids, flag.remedy)
