"""What is wrong with the state on disk: tokens, tickets, deadlines, places."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping

from holdtop.hold.view import QueueView, TicketFile, TokenFile
from holdtop.model import clock, trees
from holdtop.model.facts import Facts
from holdtop.model.resources import CLOCK_SLACK, Seen
from holdtop.model.scene import Scene, command, flag, named
from holdtop.model.values import Flag, Process, Severity

#: Seconds for which a take or a release may be between two of its steps.
TAKE_TIME = 3.0
#: Seconds after which a live head in front of a free token is not just about to start.
STALL_TIME = 10.0
#: Seconds by which two clocks may differ without a word.
SKEW = 60.0
#: How many dead tickets are named.
NAMED = 3


def ghost(scene: Scene) -> Iterator[Flag]:
    """A token whose hold is dead, or that nobody can read."""
    for seen, view, token in _tokens(scene):
        if token.kind == "garbled":
            yield flag(
                "ghost",
                "warning",
                f"{view.token_path} cannot be read as a token ({token.why}); it counts as held",
                command("recover", view),
                seen.resource.name,
            )
        elif seen.resource.state == "ghost":
            left = _living(seen, scene)
            severity, clause = _leftovers(left, token, scene.facts)
            holder = scene.facts.forest.unreaped(token.ticket) if token.ticket else None
            unreaped = f", though its parent {holder.ppid} has not reaped it," if holder else ""
            yield flag(
                "ghost",
                severity,
                f"the hold of {token.lane} (pid {token.pid}) is dead{unreaped} and its token is still there{clause}",
                command("recover", view),
                seen.resource.name,
                token.ticket_id or view.token_path,
                tuple(process.pid for process in left),
            )


def _leftovers(left: tuple[Process, ...], token: TokenFile, facts: Facts) -> tuple[Severity, str]:
    if not left:
        return "warning", ", nothing is known to be left of its payload"
    ours = facts.raw.uid == 0 or all(_uid(process, token) == facts.raw.uid for process in left)
    names = ", ".join(map(named, left))
    if ours:
        return "warning", f"; left: {names}"
    return "critical", f"; left and not ours to signal, their owner or root must: {names}"


def _uid(process: Process, token: TokenFile) -> int:
    return token.uid if process.uid is None else process.uid


def over_deadline(scene: Scene) -> Iterator[Flag]:
    """A payload that runs on after its time, and after all the time that ending it may take."""
    for seen, view, _ in _tokens(scene):
        holder = seen.resource.holder
        if holder is None or holder.deadline_at is None or seen.resource.state == "ghost":
            continue
        over = clock.since(holder.deadline_at, scene.facts.raw.taken_at)
        allowed = CLOCK_SLACK
        if holder.state == "ending":
            allowed += _seconds(holder.limits, "grace") + _seconds(holder.limits, "survive-wait")
        if over is not None and over > allowed:
            yield flag(
                "over-deadline",
                "warning",
                f"{holder.lane} should have ended {over:.0f} s ago and is {holder.state}",
                command("kill", view, holder.id),
                seen.resource.name,
                holder.id,
            )


def _seconds(limits: Mapping[str, str], name: str) -> float:
    with contextlib.suppress(ValueError):
        return float(limits.get(name, "").removesuffix("s"))
    return 0.0


def split_state(scene: Scene) -> Iterator[Flag]:
    """Two lanes that resolve differently meet in no queue."""
    for seen in scene.seen:
        name = seen.resource.name
        if seen.look.half_named:
            upper = name.upper().replace("-", "_")
            yield flag(
                "split-state",
                "critical",
                seen.look.problem or "only half of a place is named",
                f"unset {upper}_QUEUE_DIR {upper}_TOKEN_FILE",
                name,
            )
        for other in seen.look.elsewhere:
            yield flag(
                "split-state",
                "critical",
                f"two queues of {name} are alive: {seen.resource.queue_path} ({seen.resource.rule}) and"
                f" {other.queue_path} ({other.rule}); their lanes do not exclude each other",
                f"start no lane there and wait until it is empty: ls -A {other.queue_path} {other.token_path}",
                name,
            )


def state_permissions(scene: Scene) -> Iterator[Flag]:
    """Accounts outside the state's group may put another state in its place."""
    for seen, view in _views(scene):
        for path, mend in view.exposed.items():
            yield flag(
                "state-permissions",
                "critical",
                f"others than the state's own group may exchange what lies below {path}",
                f"chmod {mend} {shlex.quote(path)}",
                seen.resource.name,
                about=path,
            )


def lost_token(scene: Scene) -> Iterator[Flag]:
    """A live hold whose token vanished or is another's."""
    for seen, view in _views(scene):
        for ticket in view.tickets:
            record = trees.believed(ticket, view.records)
            if record is None or not ticket.locked or record.state == "ending":
                continue
            if view.token is not None and view.token.nonce == ticket.nonce:
                continue
            held = clock.since(record.taken_at, scene.facts.raw.taken_at)
            if held is not None and held > TAKE_TIME:
                what = "is gone" if view.token is None else f"is {view.token.lane}'s"
                yield flag(
                    "lost-token",
                    "critical",
                    f"{ticket.lane} (pid {ticket.pid}) runs under {view.token_path}, which {what}",
                    command("kill", view, ticket.id),
                    seen.resource.name,
                    ticket.id,
                )


def stalled_queue(scene: Scene) -> Iterator[Flag]:
    """Nobody holds, a live hold waits at the head, and nothing starts."""
    now = scene.facts.raw.taken_at
    for seen, view in _views(scene):
        if any(trees.believed(ticket, view.records) for ticket in view.ran):
            continue  # somebody runs, or has to be ended first: the token is being taken, or lost
        head = next((ticket for ticket in view.tickets if not ticket.dead), None)
        if seen.resource.state != "free" or head is None or not head.locked or not _free_before(seen, scene):
            continue
        if head.limits.get("after-survivor") == "wait" and view.survivors:
            continue  # as it was asked to; the survivor has its own flag
        released = clock.since((view.last_receipt or {}).get("at"), now)
        waits = [age for age in (clock.since(head.queued_at, now), released) if age is not None]
        if waits and min(waits) > STALL_TIME:
            yield flag(
                "stalled-queue",
                "critical",
                f"nobody holds {view.resource}, yet {head.lane} (pid {head.pid}) at the head has not taken it"
                f" for {min(waits):.0f} s",
                command("evict", view, head.id),
                seen.resource.name,
                head.id,
            )


def _free_before(seen: Seen, scene: Scene) -> bool:
    if scene.facts.previous is None:
        return True
    return any(old.name == seen.resource.name and old.state == "free" for old in scene.facts.previous.resources)


def dead_ticket(scene: Scene) -> Iterator[Flag]:
    """Tickets whose holds are dead, in one flag a resource: waiters pass them by, however many there are."""
    for seen, view in _views(scene):
        holder = seen.resource.holder
        dead = [ticket for ticket in view.tickets if ticket.dead and (holder is None or holder.id != ticket.id)]
        if dead:
            yield flag(
                "dead-ticket",
                "info",
                _dead_text(dead, view),
                command("evict", view, dead[0].id),
                seen.resource.name,
                dead[0].id if len(dead) == 1 else None,
            )


def _dead_text(dead: list[TicketFile], view: QueueView) -> str:
    if len(dead) == 1:
        how = "died, its token is gone" if dead[0].id in view.records else "died while it waited"
        return f"the hold of {dead[0].lane} (pid {dead[0].pid}) {how}"
    more = ", …" if len(dead) > NAMED else ""
    return f"the holds of {len(dead)} tickets are dead: {', '.join(ticket.id for ticket in dead[:NAMED])}{more}"


def clock_skew(scene: Scene) -> Iterator[Flag]:
    """A stamp that no clock of this box can have written when it says."""
    now = scene.facts.raw.taken_at
    for seen, view in _views(scene):
        for ticket in view.tickets:
            record = trees.believed(ticket, view.records)
            stamps = (ticket.queued_at, record.taken_at if record else None)
            for age in (clock.since(stamp, now) for stamp in stamps):
                if age is not None and _impossible(age, ticket, scene.facts):
                    yield flag(
                        "clock-skew",
                        "info",
                        f"{ticket.lane} (pid {ticket.pid}) has a stamp {abs(age):.0f} s "
                        f"{'ahead' if age < 0 else 'back, before it started'}: the clock was set",
                        "timedatectl",
                        seen.resource.name,
                        ticket.id,
                    )
                    break


def _impossible(age: float, ticket: TicketFile, facts: Facts) -> bool:
    alive = facts.forest.alive(ticket.pid, ticket.start_ticks)
    oldest = clock.age_of(alive.start_ticks, facts.raw) if alive else None
    return age < -SKEW or (oldest is not None and age > oldest + SKEW)


def starter_gone(scene: Scene) -> Iterator[Flag]:
    """The session in which a hold was started is over: nobody waits for it at a terminal."""
    stats = scene.facts.forest.stats
    for seen, view in _views(scene):
        for ticket in view.tickets:
            stat = scene.facts.forest.alive(ticket.pid, ticket.start_ticks)
            if stat is None or stat.session <= 1 or stat.session in stats or stat.ppid not in stats:
                continue
            if stats[stat.ppid].session != stat.session:
                yield flag(
                    "starter-gone",
                    "info",
                    f"the session that started {ticket.lane} (pid {ticket.pid}) is over",
                    command("kill" if seen.own & {ticket.pid} else "evict", view, ticket.id),
                    seen.resource.name,
                    ticket.id,
                )


KINDS: tuple[Callable[[Scene], Iterator[Flag]], ...] = (
    ghost,
    over_deadline,
    split_state,
    state_permissions,
    lost_token,
    stalled_queue,
    dead_ticket,
    clock_skew,
    starter_gone,
)


def _views(scene: Scene) -> Iterator[tuple[Seen, QueueView]]:
    for seen in scene.seen:
        if seen.view is not None and not scene.facts.raw.looks_why:
            yield seen, seen.view


def _tokens(scene: Scene) -> Iterator[tuple[Seen, QueueView, TokenFile]]:
    for seen, view in _views(scene):
        if view.token is not None:
            yield seen, view, view.token


def _living(seen: Seen, scene: Scene) -> tuple[Process, ...]:
    """Of the payload: a dead process that its parent does not reap is shown in the tree, but nobody has to end it."""
    payload = seen.resource.holder.payload if seen.resource.holder else None
    processes = payload.processes if payload else ()
    return tuple(one for one in processes if scene.facts.forest.alive(one.pid, one.start_ticks))
