"""Release receipts: how each hold ended. Written by the holds of any account, so that every field may be odd."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdtop.console.view.glyphs import Glyphs
from holdtop.console.view.queue import WIDE, short_id
from holdtop.console.view.severity import verdict_role
from holdtop.console.view.text import Line, Span, line
from holdtop.console.view.when import coarse, parse, seconds_until
from holdtop.model.past import peaks_of, run_of, sign
from holdtop.model.values import Snapshot
from holdtop.render import bytes_text, short_bytes, whole

Receipt = Mapping[str, object]


def _receipts(snapshot: Snapshot) -> Iterator[Receipt]:
    for resource in snapshot.resources:
        for said in reversed(resource.receipts):
            yield {**said, "resource": resource.name}


def receipts(snapshot: Snapshot) -> list[Receipt]:
    """Of all resources, the newest first."""
    return sorted(_receipts(snapshot), key=_instant, reverse=True)


def _instant(said: Receipt) -> float:
    instant = parse(_text(said, "at"))
    return instant.timestamp() if instant else 0.0


def of_lane(snapshot: Snapshot, resource: str, lane: str | None, most: int = 100) -> list[Receipt]:
    """The newest ones of a lane, newest first."""
    found = [said for said in receipts(snapshot) if said["resource"] == resource and lane and said.get("lane") == lane]
    return found[:most]


def of_ticket(snapshot: Snapshot, ticket: str) -> Receipt | None:
    """The receipt of one hold, if it is among the newest."""
    return next((said for said in _receipts(snapshot) if said.get("ticket") == ticket), None)


def summed_up(said: Receipt) -> str:
    """One receipt as a sentence."""
    memory = said.get("memory")
    figures = memory if isinstance(memory, Mapping) else {}
    run = run_of(said)
    parts = [
        f"{_text(said, 'verdict') or 'unknown'}: {_text(said, 'reason') or 'no reason'}, at {_text(said, 'at')}",
        "" if run.held_seconds is None else f"held {coarse(run.held_seconds)}",
        "" if run.status is None else f"status {run.status}",
        *(
            f"{name} {bytes_text(size)}"
            for name in ("before", "peak", "after")
            if (size := whole(figures.get(f"{name}_bytes")))
        ),
    ]
    return ", ".join(filter(None, parts))


def summary(past: Sequence[Receipt]) -> str:
    """``7 holds, 5m to 40m, up to ~38.0G``."""
    if not past:
        return "no history yet"
    runs = [run_of(said) for said in past]
    spans = [run.held_seconds for run in runs if run.held_seconds is not None]
    peaks, source = peaks_of(runs)
    # One end alone where both are the same in words.
    ends = dict.fromkeys((coarse(min(spans)), coarse(max(spans)))) if spans else {}
    span = f", {' to '.join(ends)}" if ends else ""
    most = f", up to {sign(source)}{short_bytes(max(peaks))}" if peaks else ""
    return f"{len(past)} {'hold' if len(past) == 1 else 'holds'}{span}{most}"


def receipt_head(width: int, glyphs: Glyphs, *, whose: bool) -> Line:
    lane = f"{'RES':<4}{glyphs.column('LANE', 20 if width >= WIDE else 14)} " if whose else ""
    text = f"   {'AGO':>6} {lane}{'VERDICT':<9}{'HELD':>7} {'PEAK':>7} {'STATUS':>6} "
    return line(Span(glyphs.fit(text + ("TICKET         " if width >= WIDE else "") + "END", width), "muted"))


def receipt_row(said: Receipt, now: str, width: int, glyphs: Glyphs, *, whose: bool, selected: bool) -> Line:
    """``whose``: with resource and lane."""
    ago, run = seconds_until(now, _text(said, "at")), run_of(said)
    status = glyphs.dash if run.status is None else str(run.status)[:6]
    peak = sign(run.peak_source) + short_bytes(run.peak_bytes, glyphs.dash)
    verdict = _text(said, "verdict") or "unknown"
    role = verdict_role(verdict)
    lane = glyphs.column(_text(said, "lane") or glyphs.dash, 20 if width >= WIDE else 14)
    mark = glyphs.fine if role == "ok" else glyphs.severity["info" if role == "info" else "warning"]
    return line(
        Span(f" {mark:<2}", role, True),
        Span(f"{coarse(ago, '?'):>6} ", "muted"),
        *([Span(glyphs.column(_text(said, "resource"), 3) + " ", "muted"), Span(lane + " ", "text", True)] * whose),
        Span(glyphs.column(verdict, 8) + " ", role, verdict != "clean"),
        Span(f"{coarse(run.held_seconds, '?'):>7} {peak:>7} "),
        Span(f"{status:>6} "),
        *([Span(glyphs.column(short_id(_text(said, "ticket")), 14) + " ", "muted")] * (width >= WIDE)),
        Span(glyphs.clean(f"{_text(said, 'reason')} {glyphs.dot} {_text(said, 'command')}", width), "muted"),
        selected=selected,
    )


def _text(said: Receipt, key: str) -> str:
    value = said.get(key)
    return value if isinstance(value, str) else ""
