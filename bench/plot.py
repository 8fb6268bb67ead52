"""Curves as an SVG, both axes logarithmic; drawn here, so that no bench needs a library for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 420, 64, 210, 36, 44
#: Told apart also by those who do not see colours as most do, and by the marks.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555")
Curve = Sequence[tuple[float, float]]


def drawn(title: str, across: str, curves: Mapping[str, Curve], faint: Mapping[str, Curve]) -> str:
    """``faint``: the same curves at another time, dashed and in the same colours. All values are above zero."""
    points = [point for curve in (*curves.values(), *faint.values()) for point in curve]
    spans = [_decades(values) for values in zip(*points, strict=True)]
    return "".join(_parts(title, across, curves, faint, spans)) + "</svg>\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    return math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))


def _parts(
    title: str,
    across: str,
    curves: Mapping[str, Curve],
    faint: Mapping[str, Curve],
    spans: Sequence[tuple[int, int]],
) -> Iterator[str]:
    (least_x, most_x), (least_y, most_y) = spans

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(value) - least_x) / max(1, most_x - least_x)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(value) - least_y) / max(1, most_y - least_y)

    head = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {head}>\n'
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n<text x="{LEFT}" y="20">{escape(title)}</text>\n'
    yield f'<text x="{LEFT}" y="{HEIGHT - 8}">{escape(across)}</text>\n'
    for power in range(least_y, most_y + 1):
        at = y(10.0**power)
        yield f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>\n'
        yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>\n'
    for power in range(least_x, most_x + 1):
        at = x(10.0**power)
        yield f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>\n'
        yield f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{10.0**power:,.0f}</text>\n'
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        for some, style in ((curve, ""), (faint.get(name, ()), ' stroke-dasharray="5 4" opacity="0.6"')):
            line = " ".join(f"{x(one):.1f},{y(other):.1f}" for one, other in some)
            yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{style}/>\n'
        yield from (f'<circle cx="{x(one):.1f}" cy="{y(other):.1f}" r="3" fill="{colour}"/>\n' for one, other in curve)
        at = TOP + 16 * number
        yield f'<path d="M{WIDTH - RIGHT + 12} {at}h18" stroke="{colour}" stroke-width="3"/>\n'
        yield f'<text x="{WIDTH - RIGHT + 36}" y="{at + 4}">{escape(name)}</text>\n'
