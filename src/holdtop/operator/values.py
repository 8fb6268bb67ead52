"""What an operator's act is made of: a plan that is frozen when shown, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verb = Literal["kill", "evict", "recover"]
Fate = Literal["asked", "terminated", "killed", "left", "already gone"]
#: How an act is done: the hold is asked, processes are signalled, a file is removed, a ghost is freed.
Means = Literal["ask", "signal", "remove", "recover"]


@dataclass(frozen=True, slots=True)
class Target:
    """One process as it was when the plan was made; ``(pid, start_ticks)`` is its identity."""

    pid: int
    start_ticks: int
    uid: int | None
    user: str | None
    name: str
    command: tuple[str, ...]
    found_by: str
    device_bytes: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, to whom, and what will not be touched. A dry run prints this."""

    verb: Verb
    resource: str
    #: The ticket's id, or the token's path for a shell holder, or ``None`` for a flagged process.
    ticket: str | None
    nonce: str | None
    lane: str | None
    #: One sentence: how it will be done (asked by a stop request, its file removed, …).
    how: str
    targets: tuple[Target, ...]
    #: Members found only by marker or device: named apart, since weaker proof.
    weak: tuple[Target, ...]
    #: What stays alive, with the reason, one line each.
    spared: tuple[str, ...]
    #: Device memory expected back; ``None`` when unknown.
    expected_bytes: int | None
    #: True when the dialog must ask for the ticket's id (or pid) to be typed.
    needs_typing: bool
    #: What has to be typed.
    typed: str
    means: Means = "ask"
    #: Where the state was looked for: ``--state-dir``, or ``None`` for the rule.
    state_dir: str | None = None
    #: With whose powers: the owner of the ticket, token or process. Root acts as this account.
    uid: int | None = None
    #: The hold itself, (pid, start ticks), when it is to be asked.
    hold: tuple[int, int] | None = None
    #: With ``signal``: what has been started below the first target since then goes with it.
    with_descendants: bool = False
    #: With ``signal``: the hold's own seconds from TERM to KILL, for when the operator says none.
    grace: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One line of live progress."""

    pid: int | None
    fate: Fate
    text: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an act; ``status`` is the exit status of the verb."""

    status: Literal[0, 5, 6, 7]
    text: str
    steps: tuple[Step, ...]
    returned_bytes: int | None
    #: The audit records written, intent before outcome.
    records: tuple[Mapping[str, object], ...]
