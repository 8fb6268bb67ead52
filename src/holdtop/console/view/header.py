"""The first line: where we are, what is wrong, and whether acting is possible."""

from __future__ import annotations

from collections import Counter

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.text import Line, Role, Span, line, spread, width_of
from holdtop.model.values import SEVERITIES, Severity, Snapshot
from holdtop.render import duration_text

WORDS: dict[Severity, str] = {"critical": "critical", "warning": "warning", "info": "note"}
#: Seconds without a new snapshot after which the screen says so.
STALE_AFTER = 5.0


def header(
    snapshot: Snapshot | None,
    width: int,
    glyphs: Glyphs,
    *,
    read_only: bool,
    silent_for: float | None,
    replay: str = "",
) -> Line:
    """``silent_for``: seconds since the last snapshot, or ``None`` while they come.

    ``replay``: where in a recording this is; then nothing can be acted on in any case.
    """
    left = [Span(" holdtop ", "accent", True)]
    if replay and snapshot is not None:  # in the place that is never cut off
        clock = glyphs.clean(snapshot.taken_at[11:19], 8)
        left = [Span(f" {'RECORDING' if width >= 60 else 'REC'} {clock} ", "warning", True), Span(" ")]
    if snapshot is None:
        return line(*left, Span("looking at the box" + glyphs.ellipsis, "muted"))
    left += [Span(glyphs.fit(snapshot.host, 24) + "  "), *_counts(snapshot, glyphs)]
    right: list[Span] = []
    if silent_for is not None and silent_for >= STALE_AFTER:
        right.append(Span(f" data {duration_text(silent_for)} old ", "warning", True))
    if snapshot.roots:
        right.append(Span(" recorded sensors ", "info"))  # the help page says which
    if replay:
        right.append(Span(f" {glyphs.clean(snapshot.taken_at[:10], 10)} {glyphs.dot} {replay} ", "warning", True))
        if width_of([*left, *right]) > width:
            right = [Span(f" {replay} ", "warning", True)]  # the way back matters more than the day
    elif read_only:
        right.append(Span(" READ-ONLY ", "warning", True))
    return spread(left, right, width) if right else line(*left)


def _counts(snapshot: Snapshot, glyphs: Glyphs) -> list[Span]:
    counted = Counter(flag.severity for flag in snapshot.flags)
    if not counted:
        return [Span(f"{glyphs.fine} nothing is wrong", "ok")]
    spans: list[Span] = []
    for severity in SEVERITIES:
        if number := counted[severity]:
            plural = "s" if number > 1 and severity != "critical" else ""
            role: Role = severity
            text = f"{glyphs.severity[severity]} {number} {WORDS[severity]}{plural}"
            spans += [Span(text, role, severity != "info"), Span("  ")]
    return spans
