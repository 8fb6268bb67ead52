"""The units of CI runners as the snapshot has them."""

from __future__ import annotations

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Role, Span, line
from holdtop.model.values import Runner

ROWS = 2
#: What is said where no snapshot names a runner: not that there is none.
NOTHING_KNOWN = (
    "Nothing is known of CI runners on this box: no source of this program has read their units.",
    "That does not mean that there are none: systemctl list-units '*runner*' asks the service manager.",
)


def runner_rows(runner: Runner, width: int, glyphs: Glyphs, *, selected: bool) -> tuple[Line, Line]:
    well = runner.active_state == "active" and not runner.problems
    role: Role = "ok" if well else "critical" if runner.active_state != "active" else "warning"
    restarts = "?" if runner.restarts is None else str(runner.restarts)
    head = line(
        Span(f" {glyphs.fine if well else glyphs.severity['critical']:<2}", role, True),
        Span(glyphs.column(runner.unit, max(20, width // 3)) + " ", "text", True),
        Span(f"{glyphs.clean(runner.active_state, 16)}/{glyphs.clean(runner.sub_state, 16)} ", role, True),
        Span(f"{runner.registration} {glyphs.dot} restarts {restarts} {glyphs.dot} ", "muted"),
        Span(f"result {glyphs.clean(runner.result, 24)}", "muted"),
        selected=selected,
    )
    policies = (("OOM", runner.oom_policy), ("Restart", runner.restart), ("Kill", runner.kill_mode))
    said = "; ".join(runner.problems) or ", ".join(f"{name} {value or 'unknown'}" for name, value in policies)
    tail = line(
        Span(f"   {glyphs.arrow} ", "muted"),
        Span(glyphs.clean(said, width), "warning" if runner.problems else "muted"),
        selected=selected,
    )
    return head, tail
