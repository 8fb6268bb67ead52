"""Draw the documentation's pictures from the real program, and write its key table: ``python docs/make_pictures.py``.

The program runs headless on the hand-made boxes of its own tests, so the pictures show what the tests hold.
With ``--png DIR`` also as PNG, by a headless chromium, to be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from tests.console.boxes import BUSY, GIB, readings  # noqa: E402
from tests.console.fakes import FakeOperator, console  # noqa: E402

from holdtop.console.app import Console  # noqa: E402
from holdtop.console.events import parse_event  # noqa: E402
from holdtop.console.keys import markdown  # noqa: E402

KEYS_BEGIN, KEYS_END = "<!-- keys: made by make_pictures.py -->\n", "<!-- end of keys -->\n"


class Picture(NamedTuple):
    name: str
    size: tuple[int, int]
    theme: str = "dark"
    keys: str = ""


PICTURES = (
    Picture("console", (120, 40)),
    Picture("console-80x24", (80, 24), keys="j"),
    Picture("console-200x60", (200, 60), keys="j tab down"),
    Picture("console-light", (120, 40), "light", "j down"),
    Picture("console-high-contrast", (100, 30), "high-contrast", "j"),
    Picture("dialog", (100, 30), keys="j k 1 right"),
    Picture("result", (100, 30), keys="j k 1 right enter"),
    Picture("help", (100, 42), keys="question_mark"),
)
#: Most fonts of most readers have these letters.
_GPU, *_OTHERS = BUSY.resources
_FIRST, _SECOND, _THIRD = _GPU.waiting
BOX = replace(BUSY, resources=(replace(_GPU, waiting=(_FIRST, replace(_SECOND, lane="asr-tuning"), _THIRD)), *_OTHERS))
EVENTS = (
    '{"at": "2030-01-02T01:33:55+00:00", "event": "taken", "ticket": "0000000012-4012", "max_hold": "2h"}',
    '{"at": "2030-01-02T02:10:00+00:00", "event": "released", "ticket": "0000000010-3970", "verdict": "dirty"}',
    '{"at": "2030-01-02T03:01:55+00:00", "event": "queued", "ticket": "0000000013-4013", "lane": "eval-7"}',
    '{"at": "2030-01-02T03:03:00+00:00", "event": "warned", "ticket": "0000000012-4012", "text": "Tctl 84 °C"}',
    '{"at": "2030-01-02T03:03:20+00:00", "event": "queued", "ticket": "0000000014-4014", "lane": "asr-tuning"}',
    '{"at": "2030-01-02T03:04:01+00:00", "event": "queued", "ticket": "0000000015-4015", "lane": "ci-7731"}',
)


def history(app: Console) -> None:
    """Three minutes of a device at work, so that the graphs have something to show."""
    for second in range(180):
        load = 0.5 + 0.5 * math.sin(second / 9)
        values = readings(
            gtt_used_bytes=(8 + 38 * min(1, second / 120)) * GIB,
            mem_available_bytes=(92 - 40 * min(1, second / 120)) * GIB,
            gpu_busy_percent=20 + 78 * load,
            gpu_power_watts=40 + 52 * load,
            tctl_celsius=62 + 20 * min(1, second / 150) + 3 * load,
            memory_pressure_some_avg10_percent=4 * load,
        )
        app.world.history.add(replace(BUSY, readings=values))


async def draw(picture: Picture) -> str:
    operator = FakeOperator(text="only what does not answer is signalled", lane="nightly-build")
    app = console(BOX, operator, theme=picture.theme)
    app._logs.follow = lambda paths: None  # type: ignore[method-assign]  # noqa: ARG005 - there is no log to follow
    async with app.run_test(size=picture.size) as pilot:
        history(app)
        app.world.add_log(parse_event("gpu", text) for text in EVENTS)
        app._now().look_again()
        for key in picture.keys.split():
            await pilot.press(key)
            await pilot.pause(0.2)
        await pilot.pause(0.2)
        return fonts_of_the_reader(app.export_screenshot())


def fonts_of_the_reader(svg: str) -> str:
    """The same picture without fonts from the network, and without names that change from run to run."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"terminal-\d+", "terminal", svg)


def write_keys(page: Path) -> None:
    before, rest = page.read_text().split(KEYS_BEGIN)
    after = rest.split(KEYS_END)[1]
    page.write_text(before + KEYS_BEGIN + markdown() + KEYS_END + after)


def to_png(svg: Path, png: Path) -> None:
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())[0]
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={math.ceil(float(width))},{math.ceil(float(height))}"]
        subprocess.run([*command, f"--screenshot={png}", svg.resolve().as_uri()], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", type=Path, help="also write PNGs to this directory")
    given = parser.parse_args()
    write_keys(DOCS / "console.md")
    for picture in PICTURES:
        svg = DOCS / "pictures" / f"{picture.name}.svg"
        svg.write_text(asyncio.run(draw(picture)))
        if given.png is not None:
            to_png(svg, given.png.resolve() / f"{picture.name}.png")


if __name__ == "__main__":
    main()
