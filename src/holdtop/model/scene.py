"""What the flags are judged from: one look, put in order."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from holdtop.hold.view import QueueView, SurvivorRecord
from holdtop.model.facts import Facts
from holdtop.model.resources import Seen
from holdtop.model.values import Flag, Memory, Process, Readings, Severity


@dataclass(frozen=True, slots=True)
class Survivors:
    """What outlived one token, and lives."""

    seen: Seen
    record: SurvivorRecord
    processes: tuple[Process, ...]


@dataclass(frozen=True, slots=True)
class Stray:
    """Who uses a device much whose token is not theirs."""

    resource: str
    process: Process
    #: Of the device's memory; more where that is not the whole.
    size: int
    whole: bool

    @property
    def said(self) -> str:
        return amount(self.size) if self.whole else f"at least {amount(self.size)}"


@dataclass(frozen=True, slots=True)
class Scene:
    facts: Facts
    seen: tuple[Seen, ...]
    readings: Readings
    memory: Memory
    survivors: tuple[Survivors, ...]
    strays: tuple[Stray, ...]


def flag(
    kind: str,
    severity: Severity,
    text: str,
    remedy: str,
    resource: str | None = None,
    ticket: str | None = None,
    pids: tuple[int, ...] = (),
    about: str | None = None,
) -> Flag:
    """A flag; ``build`` fills in since when it stands."""
    return Flag(kind, severity, resource, ticket, pids, "", text, remedy, about)


def command(verb: str, view: QueueView | None, target: str = "", reason: str = "REASON") -> str:
    """The exact command that mends something, for this very state."""
    words = ["holdtop", *verb.split()]
    if target:
        words.append(target)
    if view is not None and view.resource != "gpu":
        words += ["-r", view.resource]
    if view is not None and view.rule == "flag":
        words += ["--state-dir", view.token_path.rpartition("/")[0]]
    return shlex.join([*words, "--reason", reason])


def named(process: Process) -> str:
    """``pid 12 (python3, dana)``."""
    who = process.user or (f"uid {process.uid}" if process.uid is not None else "unknown user")
    return f"pid {process.pid} ({process.name}, {who})"


def amount(size: int | None) -> str:
    return "unknown memory" if size is None else f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size >> 20} MiB"
