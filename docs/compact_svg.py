"""An SVG of a terminal, small enough to keep a hundred of: Textual's own takes three to five times the room."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

#: Of a cell, in Textual's drawing and in ours: whole numbers are short.
THEIRS, OURS = (12.2, 24.4), (10, 20)
HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" xml:space="preserve"'
    ' font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="16.6">\n<style>{style}</style>\n'
)
#: What has to touch its neighbours: box drawing and blocks.
JOINED = re.compile("[\u2500-\u259f]{2}")


class Run(NamedTuple):
    """Cells in one row that look alike."""

    row: int
    column: int
    cells: int
    look: str
    text: str = ""


def compact(svg: str) -> str:
    """The same cells without window, names, clips and empty text. ``svg``: of ``App.export_screenshot``."""
    looks = dict(re.findall(r"\.terminal-\w+-(r\d+|matrix) \{\s*(.*?);?\s*\}", svg, re.DOTALL))
    screen = re.findall(r'<rect x="0" y="0" width="([\d.]+)" height="([\d.]+)"', svg)[0]
    columns, rows = (round(float(size) / cell) for size, cell in zip(screen, THEIRS, strict=True))
    texts, grounds = [*_joined(_texts(svg, columns))], [*_joined(_grounds(svg))]
    names = {look: f"{number:x}" for number, look in enumerate(dict.fromkeys(run.look for run in texts))}
    style = "".join(f".t{name}{{{looks[look].replace(' ', '')}}}" for look, name in names.items())
    width, height = columns * OURS[0], rows * OURS[1]
    head = HEAD.format(width=width, height=height, style=style)
    return head + "".join(_paths(grounds)) + "".join(_drawn(run, names[run.look]) for run in texts) + "</svg>\n"


def _texts(svg: str, columns: int) -> Iterator[Run]:
    for look, x, y, length, text in re.findall(
        r'<text class="terminal-\w+-(r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"[^>]*>([^<]*)</text>', svg
    ):
        column, cells = round(float(x) / THEIRS[0]), round(float(length) / THEIRS[0])
        if column < columns:  # behind the last one stands each line's end
            yield Run(int(float(y) / THEIRS[1]), column, cells, look, html.unescape(text).replace("\xa0", " "))


def _grounds(svg: str) -> Iterator[Run]:
    for color, x, y, width in re.findall(
        r'<rect fill="(#\w+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="[\d.]+" shape', svg
    ):
        column, cells = round(float(x) / THEIRS[0]), round(float(width) / THEIRS[0])
        yield Run(int(float(y) / THEIRS[1]), column, cells, color)


def _joined(runs: Iterator[Run]) -> Iterator[Run]:
    """Neighbours of one look as one."""
    last: Run | None = None
    for run in sorted(runs):
        if last and (last.row, last.column + last.cells, last.look) == (run.row, run.column, run.look):
            last = last._replace(cells=last.cells + run.cells, text=last.text + run.text)
            continue
        if last:
            yield last
        last = run
    if last:
        yield last


def _paths(grounds: list[Run]) -> Iterator[str]:
    """One for each colour."""
    for color, runs in groupby(sorted(grounds, key=lambda run: run.look), key=lambda run: run.look):
        cell, line = OURS
        boxes = (
            f"M{run.column * cell} {run.row * line}h{run.cells * cell}v{line}h-{run.cells * cell}z" for run in runs
        )
        yield f'<path fill="{color}" shape-rendering="crispEdges" d="{"".join(boxes)}"/>\n'


def _drawn(run: Run, name: str) -> str:
    text = run.text.lstrip(" ")
    before, cells = len(run.text) - len(text), run.cells - len(run.text)
    text = text.rstrip(" ")
    if not text:
        return ""
    cells += len(text)  # wider than characters where some take two cells
    x, y = (run.column + before) * OURS[0], run.row * OURS[1] + 15
    stretch = ' lengthAdjust="spacingAndGlyphs"' if JOINED.search(text) else ""
    words = html.escape(text, quote=False)
    return f'<text class="t{name}" x="{x}" y="{y}" textLength="{cells * OURS[0]}"{stretch}>{words}</text>\n'
