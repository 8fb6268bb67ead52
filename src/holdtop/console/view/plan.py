"""The dialog's words: what will be done and to whom, what is left alone; then how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import command_text, short_id
from holdtop.console.view.text import Line, Role, Span, line, width_of, wrapped
from holdtop.console.view.when import coarse, process_age
from holdtop.model.values import Severity
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


def together(plans: Sequence[Plan]) -> Plan:
    """Several plans as one to be shown, never to be carried out. Of many to be confirmed the number is typed."""
    if len(plans) == 1:
        return plans[0]
    typed = [plan.typed for plan in plans if plan.needs_typing]
    sizes = [plan.expected_bytes for plan in plans]
    return replace(
        plans[0],
        resource=" ".join(dict.fromkeys(plan.resource for plan in plans)),
        how=f"each is an act of its own, with its own record: {'; '.join(dict.fromkeys(plan.how for plan in plans))}",
        targets=tuple(target for plan in plans for target in plan.targets),
        weak=tuple(target for plan in plans for target in plan.weak),
        spared=tuple(dict.fromkeys(spared for plan in plans for spared in plan.spared)),
        expected_bytes=None if None in sizes else sum(size for size in sizes if size is not None),
        needs_typing=bool(typed),
        typed=typed[0] if len(typed) == 1 else counted(len(plans), "process", "processes"),
    )


def act_name(plan: Plan) -> str:
    """What the plan does, in two words: a flagged process is ended alone, a part of a payload with what is below it."""
    if plan.verb != "kill":
        return VERBS[plan.verb]
    if plan.ticket is None:
        return "End process" if len(plan.targets) == 1 else f"End {len(plan.targets)} processes"
    return "End subtree" if plan.with_descendants and plan.nonce is None else "End tree"


def heading(plan: Plan, glyphs: Glyphs) -> str:
    """What the dialog is about, on one line."""
    first = next(iter(plan.targets), None)
    named = short_id(plan.ticket) if plan.ticket else f"pid {first.pid} ({first.name})" if first else plan.typed
    if plan.ticket is None and len(plan.targets) > 1:
        named = ""  # the act's name says how many
    parts = (act_name(plan), plan.resource, plan.lane or "", named)
    return f" {glyphs.dot} ".join(glyphs.clean(part, 60) for part in parts if part)


def plan_lines(plan: Plan, refused: Sequence[str], at: float, width: int, glyphs: Glyphs) -> list[Line]:
    """The frozen plan. ``refused``: why others are left out. ``at``: monotonic instant of the snapshot, for ages."""
    lines = [*wrapped(plan.how, width, glyphs, indent=1), line()]
    if plan.means == "remove":
        lines.append(line(Span(" Will leave the queue by itself", "text", True)))
    else:
        many = counted(len(plan.targets), "process", "processes") if plan.targets else "No process"
        lines.append(line(Span(f" {many} will end", "text", True), Span(f"   {_expected(plan)}", "muted")))
    lines += _targets(plan.targets, at, width, glyphs)
    if plan.weak:
        lines += [line(), line(Span(" Found only by marker or device, a weaker proof", "warning", True))]
        lines += _targets(plan.weak, at, width, glyphs)
    if refused:
        lines += [line(), line(Span(" Left out", "warning", True))]
        lines += [part for why in refused for part in wrapped(why, width, glyphs)]
    if plan.spared:
        lines += [line(), line(Span(" Will not be touched", "ok", True))]
        lines += [part for spared in plan.spared for part in wrapped(spared, width, glyphs, "muted")]
    return lines


def _expected(plan: Plan) -> str:
    if plan.expected_bytes is not None:
        return f"device memory expected back: {bytes_text(plan.expected_bytes)}"
    if not plan.targets:
        return "no device memory is expected back"
    return "how much device memory comes back is not known: what these have of it could not be read"


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


class Account:
    """What becomes of an act, told while it goes on: a row for each process, then each plan's result."""

    def __init__(self, plan: Plan, reason: str) -> None:
        """``plan``: what was shown."""
        self._plan, self._reason = plan, reason
        self._steps: dict[int | str, list[Step]] = {}
        self._results: list[tuple[Plan, Outcome | None, str]] = []

    def add(self, step: Step) -> None:
        self._steps.setdefault(step.text if step.pid is None else step.pid, []).append(step)

    def end(self, plan: Plan, outcome: Outcome | None, failed: str) -> None:
        self._results.append((plan, outcome, failed))

    @property
    def over(self) -> int:
        """How many plans have ended."""
        return len(self._results)

    @property
    def words(self) -> str:
        """The result in a word or two, of the worst of them."""
        words = {0: "done", 7: "already gone, nothing done"}
        said = {words.get(outcome.status, "see above") if outcome else failed for _, outcome, failed in self._results}
        return said.pop() if len(said) == 1 else "see above"

    @property
    def role(self) -> Role:
        """How the result is coloured: there is nothing to warn of where all was done."""
        return "ok" if all(outcome and outcome.status == 0 for _, outcome, _ in self._results) else "warning"

    def lines(self, width: int, glyphs: Glyphs) -> list[Line]:
        told = [line(Span(f" {act_name(self._plan)}: {self._reason}", "text", True)), line()]
        told += [_steps(steps, glyphs) for steps in self._steps.values()]
        if self._results:
            told.append(line())
        for plan, outcome, failed in self._results:
            named = f"pid {plan.targets[0].pid}: " if len(self._plan.targets) > 1 and plan.ticket is None else ""
            told += _result(outcome, f"{named}{outcome.text if outcome else failed}", width, glyphs)
        outcomes = [outcome for _, outcome, _ in self._results if outcome]
        if outcomes and self._plan.verb != "evict":
            told.append(line(Span(f" device memory returned: {_returned(outcomes, self._plan)}")))
        records = [record for outcome in outcomes for record in outcome.records]
        if records:
            told += [
                line(),
                line(Span(" On record", "accent", True), Span("   holdtop audit shows all of it", "muted")),
            ]
        return [*told, *(_record(record, glyphs) for record in records)]


def fate_role(fate: str) -> Role:
    """Of a fate as it is on record; any other word is none that is known."""
    return next((role for known, role in _FATES.items() if known == fate), "warning")


def _steps(steps: Sequence[Step], glyphs: Glyphs) -> Line:
    """One process: what was done to it so far, in order, and what was said last."""
    fates: list[Span] = []
    for fate in dict.fromkeys(step.fate for step in steps):
        fates += [*([Span(f" {glyphs.arrow} ", "muted")] if fates else []), Span(fate, _FATES[fate], True)]
    room = max(0, 26 - width_of(fates))
    pid = "" if steps[-1].pid is None else str(steps[-1].pid)
    text = glyphs.clean(steps[-1].text, 400)
    return line(Span(f" {pid:>9} "), *fates, Span(" " * room + f" {text}", "muted"))


def _result(outcome: Outcome | None, words: str, width: int, glyphs: Glyphs) -> list[Line]:
    severity: Severity = "critical" if outcome and outcome.status == 5 else "warning"
    done = outcome is not None and outcome.status == 0
    sign = glyphs.fine if done else glyphs.severity[severity]
    return wrapped(f"{sign} {words}", width, glyphs, "ok" if done else severity, indent=1)


def _returned(outcomes: Sequence[Outcome], plan: Plan) -> str:
    known = [outcome.returned_bytes for outcome in outcomes if outcome.returned_bytes is not None]
    back = bytes_text(sum(known)) if known else "not known"
    expected = f" of {bytes_text(plan.expected_bytes)} expected" if plan.expected_bytes is not None else ""
    return f"{back}{expected}"


def _record(record: Mapping[str, object], glyphs: Glyphs) -> Line:
    """An audit record's identity: enough to find it again, and to see that both are there."""
    said = {key: glyphs.clean(str(record.get(key, "?")), 40) for key in ("at", "kind", "act", "seq", "hash", "reason")}
    return line(
        Span(f"   {said['at']} "),
        Span(f"{said['kind']:<8}", "text", True),
        Span(f" act {said['act']} #{said['seq']} hash {said['hash'][:12]} {said['reason']}", "muted"),
    )
