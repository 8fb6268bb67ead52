"""Draw the documentation's pictures from the real program, and write its key table: ``python docs/make_pictures.py``.

The demo is set up as ``holdtop demo`` does it (real processes in a real queue, recorded sensors that move), and one
console runs headless on it, sized and dressed anew for each picture; the last one shows a tree that was really ended.
With ``--png DIR`` also as PNG, by a headless chromium, to be looked at. It takes about two minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from textual.pilot import Pilot

from holdtop import config, operator
from holdtop.console import themes
from holdtop.console.app import Console, Setup
from holdtop.console.keys import KEYS, Key, markdown, table
from holdtop.console.replaying.keys import TIME_KEYS
from holdtop.console.screens.act import ActScreen
from holdtop.console.view.glyphs import UNICODE
from holdtop.demo.sandbox import sandbox
from holdtop.model.values import Snapshot
from holdtop.sampler import Sampler

DOCS = Path(__file__).parent
KEYS_BEGIN, KEYS_END = "<!-- keys: made by make_pictures.py -->\n", "<!-- end of keys -->\n"
#: Where the demo lives meanwhile, and the name of its box: what a picture shows is nobody's own.
PLACE, HOST = "/tmp/demo", "strix-halo"
#: What must have been seen before the first picture.
FLAGS = {"survivor", "ghost", "stray"}
#: The longest that anything here may take, in seconds.
PATIENCE = 60.0


class Picture(NamedTuple):
    name: str
    size: tuple[int, int]
    theme: str = "dark"
    keys: str = "J"


PICTURES = (
    Picture("console", (120, 40), keys="j"),
    Picture("console-80x24", (80, 24)),
    Picture("console-200x60", (200, 60), keys="j"),
    Picture("console-light", (120, 40), "light"),
    Picture("console-high-contrast", (120, 40), "high-contrast", "j down"),
    Picture("ticket", (120, 40), keys="j down 2"),
    Picture("logs", (100, 30), keys="3"),
    Picture("help", (100, 42), keys="question_mark"),
    Picture("dialog", (100, 30), keys="j k 1 right"),
    Picture("result", (100, 30), keys="j k 1 right enter"),
)


def console(state_dir: str) -> Console:
    """The program as ``holdtop`` puts it together, for no terminal in particular."""
    settings = config.Config()

    def feed(on_snapshot: Callable[[Snapshot], None]) -> Sampler:
        def named(snapshot: Snapshot) -> None:
            on_snapshot(replace(snapshot, host=HOST))

        return Sampler(refresh=settings.refresh, on_snapshot=named, state_dir=state_dir)

    return Console(
        Setup(
            feed=feed,
            operator=operator,
            keys=table({}),
            remapped={},
            themes=themes.load([themes.packaged()]).loaded,
            theme=themes.DEFAULT,
            glyphs=UNICODE,
            reasons=settings.reasons,
            logs=(),
            state_dir=state_dir,
        )
    )


async def draw(app: Console, pilot: Pilot[None], picture: Picture) -> str:
    while app.look.painter.theme.name != picture.theme:
        app.action_next_theme()
    app._main().say("")
    await pilot.resize_terminal(*picture.size)
    for key in picture.keys.split():
        await pilot.press(key)
        await pilot.pause(0.4)
    if isinstance(act := app.screen, ActScreen) and picture.keys.endswith("enter"):
        await until(pilot, lambda: act.stage == "over")
    await pilot.pause(1.0)
    svg = fonts_of_the_reader(app.export_screenshot())
    await pilot.press("escape")
    return svg


async def until(pilot: Pilot[None], ask: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE / 0.2)):
        if ask():
            return
        await pilot.pause(0.2)
    raise SystemExit(f"not within {PATIENCE:.0f} s: look at holdtop demo")


async def pictures(state_dir: str, warm: float) -> dict[str, str]:
    app = console(state_dir)

    def ready() -> bool:
        snapshot = app.world.snapshot
        return snapshot is not None and {flag.kind for flag in snapshot.flags} >= FLAGS

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, ready)
        await pilot.pause(warm)
        return {picture.name: await draw(app, pilot, picture) for picture in PICTURES}


def fonts_of_the_reader(svg: str) -> str:
    """The same picture without fonts from the network, and without names that change from run to run."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"terminal-\d+", "terminal", svg)


def write_keys(page: Path, keys: Sequence[Key]) -> None:
    before, rest = page.read_text().split(KEYS_BEGIN)
    after = rest.split(KEYS_END)[1]
    page.write_text(before + KEYS_BEGIN + markdown(keys) + KEYS_END + after)


def to_png(svg: Path, png: Path) -> None:
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text())[0]
    with tempfile.TemporaryDirectory() as profile:
        command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={profile}", f"--window-size={math.ceil(float(width))},{math.ceil(float(height))}"]
        subprocess.run([*command, f"--screenshot={png}", svg.resolve().as_uri()], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--png", type=Path, help="also write PNGs to this directory")
    parser.add_argument("--warm", type=float, default=60.0, help="seconds of history in the graphs (default 60)")
    given = parser.parse_args()
    write_keys(DOCS / "console.md", KEYS)
    write_keys(DOCS / "recording.md", TIME_KEYS)
    with sandbox(PLACE) as box:
        os.environ.update(box.told["environ"])
        drawn = asyncio.run(pictures(box.told["state_dir"], given.warm))
    for name, text in drawn.items():
        svg = DOCS / "pictures" / f"{name}.svg"
        svg.write_text(text)
        if given.png is not None:
            to_png(svg, given.png.resolve() / f"{name}.png")


if __name__ == "__main__":
    main()
