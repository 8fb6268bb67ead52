"""The units of CI runners as the snapshot has them."""

from __future__ import annotations

from collections.abc import Sequence

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.console.view.when import coarse, seconds_until
from holdtop.model.values import Runner, Snapshot
from holdtop.render import counted, short_bytes

ROWS = 3
NONE = "No CI runner of holdtop's is installed on this box: holdtop runner install makes one."


def empty_words(snapshot: Snapshot | None) -> tuple[str, ...]:
    """What is said where the snapshot names no runner: there is none, or it is not known whether there is."""
    why = snapshot.runners_why if snapshot else "the box was not looked at yet"
    if why is None:
        return (NONE,)
    return (f"Nothing is known of CI runners on this box: {why}.", "That does not mean that there are none.")


def runner_rows(runner: Runner, now: str, width: int, glyphs: Glyphs, *, selected: bool) -> tuple[Line, ...]:
    """Its state; what is wrong with it; the remedy, or what it may have where nothing is to be mended."""
    role = _role(runner)
    restarts = "?" if runner.restarts is None else str(runner.restarts)
    result = "" if runner.result == "success" else f"{glyphs.clean(runner.result, 24)} {glyphs.dot} "
    sign = {"ok": glyphs.fine, "muted": "?"}.get(role, glyphs.severity["critical"])
    seconds = seconds_until(runner.since, now)
    head = line(
        Span(f" {sign:<2}", role, True),
        Span(glyphs.column(runner.unit, max(20, width // 3)) + " ", "text", True),
        Span(f"{glyphs.clean(runner.active_state, 16)}/{glyphs.clean(runner.sub_state, 16)} ", role, True),
        Span("" if seconds is None else f"{coarse(-seconds)} ", "muted"),
        Span(result, "text"),
        Span(f"{runner.registration} {glyphs.dot} restarts {restarts}", "muted"),
        selected=selected,
    )
    said = "; ".join(runner.problems) or runner.why or _policies(runner)
    remedy = "; ".join(dict.fromkeys(one.remedy for one in runner.findings))
    mend = f"   {glyphs.arrow} {glyphs.clean(remedy, width)}" if remedy else f"     {_limits(runner, glyphs)}"
    told = Span(glyphs.clean(said, width), "warning" if runner.problems else "muted")
    return head, line(Span("     "), told, selected=selected), line(Span(mend, "muted"), selected=selected)


def summary(runners: Sequence[Runner]) -> str:
    """For the title; empty where there is none."""
    bad = sum(_role(runner) in ("critical", "warning") for runner in runners)
    return f"{counted(len(runners), 'unit', 'units')}, {bad or 'none'} in trouble" if runners else ""


def _role(runner: Runner) -> Role:
    if runner.why is not None:
        return "muted"
    if runner.active_state != "active" or runner.up is False:
        return "critical"
    return "warning" if runner.problems else "ok"


def _policies(runner: Runner) -> str:
    policies = (("OOM", runner.oom_policy), ("Restart", runner.restart), ("Kill", runner.kill_mode))
    return ", ".join(f"{name} {value or 'unknown'}" for name, value in policies)


def _limits(runner: Runner, glyphs: Glyphs) -> str:
    high, most = (short_bytes(size, "unknown") for size in (runner.memory_high_bytes, runner.memory_max_bytes))
    return glyphs.clean(f"memory: slowed from {high} on, at most {most}; its manager: {runner.manager}")
