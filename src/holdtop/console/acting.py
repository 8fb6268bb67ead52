"""From what is selected to a plan, and from a plan to its execution, in daemon threads: both may block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from textual.message_pump import MessagePump

from holdtop.console.feeds import Operator
from holdtop.console.messages import ActEnded, PlansMade, StepTaken, tell
from holdtop.console.view.subject import FlagKey, Subject, find_entry, find_flag, find_resource, find_ticket, ghost_of
from holdtop.console.view.tree import Node
from holdtop.errors import GoneError, HoldtopError, RefusedError
from holdtop.model.values import Snapshot, Ticket
from holdtop.operator.values import Plan, Verb

#: Acts that are carried out at the same time: each waits for its own process.
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Wish:
    """What is meant, frozen when the key was pressed."""

    verb: Verb
    #: One for each act. May block. Raises what the operator raises.
    plans: tuple[Callable[[], Plan], ...]


def wish(
    operator: Operator,
    snapshot: Snapshot,
    verb: Verb,
    subject: Subject | None,
    node: Node | None,
    state_dir: str | None,
    marked: Collection[int] = (),
) -> Wish:
    """What to plan for the selection; ``node`` is the tree's row when keys go to the tree, ``marked`` are pids.

    Raises ``RefusedError`` when the verb has nothing to act on here.
    """
    if verb == "kill" and marked:
        return _each(operator, snapshot, marked, state_dir)
    if subject is not None and not _stands(snapshot, subject):
        raise RefusedError(f"{verb}: what was selected is gone, nothing done; select again")
    ticket = find_ticket(snapshot, subject)
    if verb == "kill":
        return _kill(operator, snapshot, ticket, subject, node, state_dir)
    if verb == "evict":
        meant = ticket or find_entry(snapshot, subject)
        if meant is None:
            raise RefusedError("evict: select a ticket of the queue first")
        ticket_id = meant.id
        return Wish(verb, (lambda: operator.plan_evict(snapshot, ticket_id, state_dir=state_dir),))
    return _recover(operator, snapshot, _ghost(snapshot, subject), state_dir)


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
    if node is not None and node.process.pid in left:
        return _each(operator, snapshot, (node.process.pid,), state_dir)
    if (ghost := ghost_of(snapshot, subject)) is not None:
        return _recover(operator, snapshot, ghost, state_dir)
    if isinstance(subject, FlagKey) and (named := [pid for pid in subject.pids if pid in left]):
        return _each(operator, snapshot, named, state_dir)
    if ticket is None:
        raise RefusedError("end tree: select a running ticket, a process, or a flag that names one")
    if ticket.state == "waiting":
        raise RefusedError("end tree: this ticket waits and has no process; evict takes it out of the queue")
    part = node.process.pid if node is not None and node.trail else None
    ticket_id = ticket.id
    return Wish("kill", (lambda: operator.plan_kill(snapshot, ticket_id, subtree=part, state_dir=state_dir),))


def _each(operator: Operator, snapshot: Snapshot, pids: Iterable[int], state_dir: str | None) -> Wish:
    """Survivors and strays: an act each, as each has its own proof."""
    return Wish(
        "kill", tuple(partial(operator.plan_kill, snapshot, None, pid=pid, state_dir=state_dir) for pid in pids)
    )


def _recover(operator: Operator, snapshot: Snapshot, resource: str, state_dir: str | None) -> Wish:
    return Wish("recover", (lambda: operator.plan_recover(snapshot, resource, state_dir=state_dir),))


def _ghost(snapshot: Snapshot, subject: Subject | None) -> str:
    selected = find_resource(snapshot, subject)
    if selected is not None:
        return selected.name
    ghosts = [resource.name for resource in snapshot.resources if resource.state == "ghost"]
    if len(ghosts) != 1:
        raise RefusedError("recover: select a ticket or a flag of the resource first")
    return ghosts[0]


def make_plans(target: MessagePump, makers: Sequence[Callable[[], Plan]]) -> None:
    """Plan in a daemon thread and post ``PlansMade`` to ``target``."""

    def work() -> None:
        plans, refused, gone = [], [], True
        for make in makers:
            try:
                plans.append(make())
            except HoldtopError as error:
                refused.append(str(error))
                gone = gone and isinstance(error, GoneError)
            except Exception as error:  # noqa: BLE001 - a thread's failure must be seen, not lost
                refused.append(f"cannot plan this: {error!r}")
                gone = False
        tell(target, PlansMade(tuple(plans), tuple(refused), gone=gone))

    threading.Thread(target=work, name="holdtop-plan", daemon=True).start()


def carry_out(
    target: MessagePump, operator: Operator, plans: Sequence[Plan], reason: str, *, read_only: Callable[[], bool]
) -> None:
    """Execute in daemon threads; post ``StepTaken`` for each step and ``ActEnded`` at the end of each plan."""
    left = iter(tuple(plans))  # such an iterator gives each plan to one thread only

    def work() -> None:
        for plan in left:
            tell(target, _carried_out(target, operator, plan, reason, read_only()))

    for _ in range(min(AT_ONCE, len(plans))):
        threading.Thread(target=work, name="holdtop-act", daemon=True).start()


def _carried_out(target: MessagePump, operator: Operator, plan: Plan, reason: str, read_only: bool) -> ActEnded:
    try:
        outcome = operator.execute(
            plan,
            reason=reason,
            progress=lambda step: tell(target, StepTaken(step)),
            read_only=read_only,
        )
    except HoldtopError as error:
        return ActEnded(plan, None, str(error))
    except Exception as error:  # noqa: BLE001 - a thread's failure must be seen, not lost
        return ActEnded(plan, None, f"failed: {error!r}; see holdtop audit for what was begun")
    return ActEnded(plan, outcome)
