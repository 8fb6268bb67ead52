"""What an act leaves in the audit: one intent and one outcome, or one refusal."""

from __future__ import annotations

import atexit
import contextlib
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from holdtop.errors import HoldtopError, RefusedError
from holdtop.hold import audit
from holdtop.hold.files import Dir
from holdtop.hold.places import resolve
from holdtop.hold.redact import redact_text
from holdtop.operator.interruption import held_back
from holdtop.operator.values import Plan, Step, Target

#: A reason is cut to this many characters.
LONGEST_REASON = 1000
#: The outcome of an act that did not come to its end.
INTERRUPTED = "interrupted: what had been asked or signalled by then goes on"


@dataclass(slots=True, eq=False)
class Ledger:
    """The records of one act."""

    #: Those with an intent and no outcome, in any thread.
    begun: ClassVar[set[Ledger]] = set()
    lock: ClassVar[threading.Lock] = threading.Lock()

    queue: Dir
    plan: Plan
    reason: str
    #: Act even when nothing can be written; the journal is still told.
    unaudited: bool = False
    act: str = field(default_factory=lambda: secrets.token_hex(8))
    records: list[Mapping[str, object]] = field(default_factory=list)
    #: Why a record is missing.
    gaps: list[str] = field(default_factory=list)

    def intent(self, targets: Sequence[Target]) -> None:
        """On the disk when this returns. Raises ``RefusedError``, unless ``unaudited``."""
        content = {
            "how": self.plan.how,
            "owner": self.plan.uid,
            "targets": [_described(one) for one in targets],
            "weak": [_described(one) for one in self.plan.weak],
            "expected_bytes": self.plan.expected_bytes,
        }
        with held_back():
            self._write("intent", content, must=not self.unaudited)
            self.begun.add(self)

    def outcome(self, status: int, text: str, steps: Sequence[Step], returned_bytes: int | None) -> None:
        """Once for each intent; the first one counts. What was done is done: never raises an error."""
        fates = [{"pid": step.pid, "fate": step.fate, "text": step.text} for step in steps]
        content = {"status": status, "text": text, "fates": fates, "returned_bytes": returned_bytes}
        with held_back(), self.lock:
            if self in self.begun:
                self.begun.discard(self)
                self._write("outcome", content, must=False)

    def refused(self, why: str) -> None:
        """Nothing is done; never raises."""
        self._write("refused", {"why": why, "status": RefusedError.status}, must=False)

    def _write(self, kind: str, content: Mapping[str, object], *, must: bool) -> None:
        said = {**_header(self.plan.verb, kind, self.act, self.plan.resource, self.reason), **content}
        said.update(ticket=self.plan.ticket, lane=self.plan.lane)
        try:
            self.records.append(audit.append(self.queue, said))
        except RefusedError as error:
            if must:
                raise
            self.gaps.append(str(error.__cause__ or error))
            audit.to_journal(said)


@atexit.register
def interrupt_all() -> None:
    """End every record that was begun: for a process that leaves while an act is under way. Never raises an error."""
    for ledger in list(Ledger.begun):
        with (
            contextlib.suppress(HoldtopError),
            resolve(ledger.plan.resource, ledger.plan.state_dir).open_queue() as queue,
        ):
            ledger.queue = queue
            ledger.outcome(5, INTERRUPTED, (), None)


@contextlib.contextmanager
def refusals(verb: str, asked: str, resource: str, state_dir: str | None, dry_run: bool) -> Iterator[None]:
    """Put a refusal of the block on record, where there is a queue to have one, and in the journal anyway."""
    try:
        yield
    except RefusedError as error:
        if not dry_run:
            said = _header(verb, "refused", secrets.token_hex(8), resource, "")
            _note({**said, "asked": asked, "why": str(error), "status": error.status}, resource, state_dir)
        raise


def _note(said: Mapping[str, object], resource: str, state_dir: str | None) -> None:
    try:
        with resolve(resource, state_dir).open_queue() as queue:
            audit.append(queue, said)
    except HoldtopError:
        audit.to_journal(said)


def _header(verb: str, kind: str, act: str, resource: str, reason: str) -> dict[str, object]:
    return {
        "act": act,
        "kind": kind,
        "verb": verb,
        "resource": resource,
        "reason": redact_text(reason)[:LONGEST_REASON],
    }


def _described(target: Target) -> dict[str, object]:
    """Without the command line: the name tells enough, and a record is for good."""
    return {
        "pid": target.pid,
        "start_ticks": target.start_ticks,
        "uid": target.uid,
        "name": target.name,
        "found_by": target.found_by,
    }
