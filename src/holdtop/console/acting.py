"""From what is selected to a plan, and from a plan to its execution, in daemon threads: both may block."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from textual.message_pump import MessagePump

from holdtop.console.feeds import Operator
from holdtop.console.messages import ActEnded, PlanMade, StepTaken, tell
from holdtop.console.view.subject import FlagKey, Subject, find_entry, find_flag, find_resource, find_ticket
from holdtop.console.view.tree import Node
from holdtop.errors import GoneError, HoldtopError, RefusedError
from holdtop.model.values import Snapshot, Ticket
from holdtop.operator.values import Plan, Verb


@dataclass(frozen=True, slots=True)
class Wish:
    """What is meant, frozen when the key was pressed."""

    #: May block. Raises what the operator raises.
    plan: Callable[[], Plan]
    #: What else the selection named, for the dialog's title.
    note: str = ""


def wish(
    operator: Operator,
    snapshot: Snapshot,
    verb: Verb,
    subject: Subject | None,
    node: Node | None,
    state_dir: str | None,
) -> Wish:
    """What to plan for the selection; ``node`` is the tree's row when keys go to the tree.

    Raises ``RefusedError`` when the verb has nothing to act on here.
    """
    ticket = find_ticket(snapshot, subject)
    if subject is not None and not _stands(snapshot, subject):
        raise RefusedError(f"{verb}: what was selected is gone, nothing done; select again")
    if verb == "kill":
        return _kill(operator, snapshot, ticket, subject, node, state_dir)
    if verb == "evict":
        meant = ticket or find_entry(snapshot, subject)
        if meant is None:
            raise RefusedError("evict: select a ticket of the queue first")
        ticket_id = meant.id
        return Wish(lambda: operator.plan_evict(snapshot, ticket_id, state_dir=state_dir))
    name = _ghost(snapshot, subject)
    return Wish(lambda: operator.plan_recover(snapshot, name, state_dir=state_dir))


def _stands(snapshot: Snapshot, subject: Subject) -> bool:
    """Whether what is selected is still on the screen: nobody acts on a row that has vanished."""
    if isinstance(subject, FlagKey):
        return find_flag(snapshot, subject) is not None
    return (find_ticket(snapshot, subject) or find_entry(snapshot, subject)) is not None


def _kill(
    operator: Operator,
    snapshot: Snapshot,
    ticket: Ticket | None,
    subject: Subject | None,
    node: Node | None,
    state_dir: str | None,
) -> Wish:
    left = {process.pid for process in snapshot.leftovers}
    named = [pid for pid in subject.pids if pid in left] if isinstance(subject, FlagKey) else []
    one = node.process.pid if node is not None and node.process.pid in left else next(iter(named), None)
    if one is not None:
        others = f"one of {len(named)} that the flag names; select another in Processes" if len(named) > 1 else ""
        return Wish(lambda: operator.plan_kill(snapshot, None, pid=one, state_dir=state_dir), others)
    if ticket is None:
        raise RefusedError("end tree: select a running ticket, a process, or a flag that names one")
    if ticket.state == "waiting":
        raise RefusedError("end tree: this ticket waits and has no process; evict takes it out of the queue")
    part = node.process.pid if node is not None and node.trail else None
    ticket_id = ticket.id
    return Wish(lambda: operator.plan_kill(snapshot, ticket_id, subtree=part, state_dir=state_dir))


def _ghost(snapshot: Snapshot, subject: Subject | None) -> str:
    selected = find_resource(snapshot, subject)
    if selected is not None:
        return selected.name
    ghosts = [resource.name for resource in snapshot.resources if resource.state == "ghost"]
    if len(ghosts) != 1:
        raise RefusedError("recover: select a ticket or a flag of the resource first")
    return ghosts[0]


def make_plan(target: MessagePump, plan: Callable[[], Plan]) -> None:
    """Plan in a daemon thread and post ``PlanMade`` to ``target``."""

    def work() -> None:
        try:
            made = PlanMade(plan())
        except GoneError as error:
            made = PlanMade(None, str(error), gone=True)
        except HoldtopError as error:
            made = PlanMade(None, str(error))
        except Exception as error:  # noqa: BLE001 - a thread's failure must be seen, not lost
            made = PlanMade(None, f"cannot plan this: {error!r}")
        tell(target, made)

    threading.Thread(target=work, name="holdtop-plan", daemon=True).start()


def carry_out(target: MessagePump, operator: Operator, plan: Plan, reason: str, *, read_only: bool) -> None:
    """Execute in a daemon thread; post ``StepTaken`` for each step and ``ActEnded`` at the end."""

    def work() -> None:
        try:
            outcome = operator.execute(
                plan,
                reason=reason,
                progress=lambda step: tell(target, StepTaken(step)),
                read_only=read_only,
            )
            ended = ActEnded(outcome)
        except HoldtopError as error:
            ended = ActEnded(None, str(error))
        except Exception as error:  # noqa: BLE001 - a thread's failure must be seen, not lost
            ended = ActEnded(None, f"failed: {error!r}; see holdtop audit for what was begun")
        tell(target, ended)

    threading.Thread(target=work, name="holdtop-act", daemon=True).start()
