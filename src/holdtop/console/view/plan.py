"""The dialog's words: what will be done and to whom, what is left alone; then how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import command_text, short_id
from holdtop.console.view.text import Line, Role, Span, line, wrapped
from holdtop.console.view.when import coarse, process_age
from holdtop.operator.values import Fate, Outcome, Plan, Step, Target
from holdtop.render import bytes_text, counted

VERBS = {"kill": "End tree", "evict": "Evict", "recover": "Recover"}
_FATES: Mapping[Fate, Role] = {
    "asked": "info",
    "terminated": "ok",
    "killed": "warning",
    "left": "critical",
    "already gone": "muted",
}


def act_name(plan: Plan) -> str:
    """What the plan does, in two words: a flagged process is ended alone, a part of a payload with what is below it."""
    if plan.verb != "kill":
        return VERBS[plan.verb]
    if plan.ticket is None:
        return "End process"
    return "End subtree" if plan.with_descendants and plan.nonce is None else "End tree"


def heading(plan: Plan, glyphs: Glyphs) -> str:
    """What the dialog is about, on one line."""
    first = next(iter(plan.targets), None)
    named = short_id(plan.ticket) if plan.ticket else f"pid {first.pid} ({first.name})" if first else plan.typed
    parts = (act_name(plan), plan.resource, plan.lane or "", named)
    return f" {glyphs.dot} ".join(glyphs.clean(part, 60) for part in parts if part)


def plan_lines(plan: Plan, at: float, width: int, glyphs: Glyphs) -> list[Line]:
    """The frozen plan. ``at``: the monotonic instant of the snapshot, for ages."""
    back = bytes_text(plan.expected_bytes)
    lines = [*wrapped(plan.how, width, glyphs, indent=1), line()]
    if plan.means == "remove":
        lines.append(line(Span(" Will leave the queue by itself", "text", True)))
    else:
        many = counted(len(plan.targets), "process", "processes")
        lines.append(line(Span(f" {many} will end", "text", True), Span(f"   device memory expected back: {back}")))
    lines += _targets(plan.targets, at, width, glyphs)
    if plan.weak:
        lines += [line(), line(Span(" Found only by marker or device, a weaker proof", "warning", True))]
        lines += _targets(plan.weak, at, width, glyphs)
    if plan.spared:
        lines += [line(), line(Span(" Will not be touched", "ok", True))]
        lines += [part for spared in plan.spared for part in wrapped(spared, width, glyphs, "muted")]
    return lines


def _targets(targets: Iterable[Target], at: float, width: int, glyphs: Glyphs) -> list[Line]:
    rows = []
    for target in targets:
        user = target.user or ("?" if target.uid is None else str(target.uid))
        rows.append(
            line(
                Span(f" {target.pid:>9} "),
                Span(glyphs.column(user, 9) + " ", "muted"),
                Span(f"{coarse(process_age(target.start_ticks, at)):>6} ", "muted"),
                Span(f"{bytes_text(target.device_bytes, glyphs.dash):>9} ", "held"),
                Span(f"{glyphs.column(target.found_by, 8)} ", "muted"),
                Span(glyphs.clean(target.name, 32) + " ", "text", True),
                Span(glyphs.clean(command_text(target.command), width), "muted"),
            )
        )
    return rows


def reason_lines(reasons: Sequence[str], chosen: str, width: int, glyphs: Glyphs) -> list[Line]:
    """The preset reasons with their digits, on as many lines as they need."""
    lines: list[list[Span]] = [[Span(" ")]]
    room = width - 1
    for number, reason in enumerate(reasons, 1):
        text = glyphs.fit(reason, max(8, width - 6))
        taken = len(text) + 5
        if taken > room and len(lines[-1]) > 1:
            lines.append([Span(" ")])
            room = width - 1
        picked = reason == chosen
        lines[-1] += [
            Span(f"{number} ", "accent", True),
            Span(f"{text}   ", "accent" if picked else "text", picked),
        ]
        room -= taken
    return [line(*spans) for spans in lines]


def step_line(step: Step, glyphs: Glyphs) -> Line:
    who = "" if step.pid is None else f"{step.pid}"
    return line(
        Span(f" {who:>9} "),
        Span(f"{step.fate:<13}", _FATES[step.fate], True),
        Span(glyphs.clean(step.text, 400), "muted"),
    )


def outcome_lines(outcome: Outcome, plan: Plan, width: int, glyphs: Glyphs) -> list[Line]:
    """The result, memory returned beside what was expected, and the audit's records."""
    role: Role = "ok" if outcome.status == 0 else "critical" if outcome.status == 5 else "warning"
    sign = glyphs.fine if outcome.status == 0 else glyphs.severity["critical" if outcome.status == 5 else "warning"]
    lines = [line(), *wrapped(f"{sign} {outcome.text}", width, glyphs, role, indent=1)]
    if plan.verb != "evict":
        returned = f"{bytes_text(outcome.returned_bytes)} of {bytes_text(plan.expected_bytes)} expected"
        lines.append(line(Span(f" device memory returned: {returned}")))
    if outcome.records:
        lines += [line(), line(Span(" On record", "accent", True), Span("   holdtop audit shows all of it", "muted"))]
    return [*lines, *(_record(record, glyphs) for record in outcome.records)]


def _record(record: Mapping[str, object], glyphs: Glyphs) -> Line:
    """An audit record's identity: enough to find it again, and to see that both are there."""
    said = {key: glyphs.clean(str(record.get(key, "?")), 40) for key in ("at", "kind", "act", "seq", "hash", "reason")}
    return line(
        Span(f"   {said['at']} "),
        Span(f"{said['kind']:<8}", "text", True),
        Span(f" act {said['act']} #{said['seq']} hash {said['hash'][:12]} {said['reason']}", "muted"),
    )
