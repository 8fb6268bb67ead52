"""Draw the documentation's pictures from the real program, and write its key tables: ``python docs/make_pictures.py``.

The demo is set up as ``holdtop demo`` does it (real processes in a real queue, recorded sensors that move), and one
console runs headless on it: each of its screens is drawn in three sizes and three themes. Only the units on the page
of the runners are made up, since the demo has none. It takes about five minutes; ``--only NAME`` draws fewer.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from compact_svg import compact
from textual.pilot import Pilot

from holdtop import config, operator
from holdtop.cli.acts import seen
from holdtop.cli.earlier import Earlier
from holdtop.console import themes
from holdtop.console.app import Console, Setup
from holdtop.console.keys import KEYS, Key, markdown, table
from holdtop.console.replaying.keys import TIME_KEYS, replay_table
from holdtop.console.screens.act import ActScreen
from holdtop.console.screens.deed import DeedScreen
from holdtop.console.view.glyphs import UNICODE
from holdtop.demo.sandbox import sandbox
from holdtop.model.values import Finding, Runner, Snapshot
from holdtop.sampler import Sampler

DOCS = Path(__file__).parent
KEYS_BEGIN, KEYS_END = "<!-- keys: made by make_pictures.py -->\n", "<!-- end of keys -->\n"
#: Where the demo lives meanwhile, and the name of its box: what a picture shows is nobody's own.
PLACE, HOST = "/tmp/demo", "strix-halo"
#: What must have been seen before the first picture.
FLAGS = {"survivor", "ghost", "stray"}
#: The longest that anything here may take, in seconds.
PATIENCE = 60.0
SIZES = ((80, 24), (120, 40), (200, 60))
THEMES = ("dark", "light", "high-contrast")


class Page(NamedTuple):
    """A screen, and the keys that lead to it from the first page."""

    name: str
    keys: str
    #: Only gone through: another screen looks back on what is done here.
    passed: bool = False
    #: Keeps the colours in which it was opened.
    anew: bool = False


#: In this order: what is ended under ``result`` is gone, and those below look back on it.
PAGES = (
    Page("now", "j"),
    Page("ticket", "j down 2"),
    Page("logs", "3"),
    Page("runners", "5"),
    Page("help", "question_mark"),
    Page("palette", "ctrl+p", anew=True),
    Page("dialog", "j k 1 right"),
    Page("evicted", "j down down down e 3 right enter", passed=True),
    Page("result", "j k 1 right enter"),
    Page("audit", "4"),
    Page("act", "4 enter"),
    Page("replay", "left_square_bracket left_curly_bracket"),
    Page("changes", "left_square_bracket left_curly_bracket D"),
)
WELL = Runner(
    unit="actions-runner-gpu.service",
    active_state="active",
    sub_state="running",
    result="success",
    restarts=0,
    oom_policy="continue",
    restart="always",
    kill_mode="mixed",
    registration="online",
    problems=(),
    memory_high_bytes=96 << 30,
    memory_max_bytes=104 << 30,
    up=True,
    guarded=True,
)
DEAD = replace(
    WELL,
    unit="actions-runner-old.service",
    active_state="failed",
    sub_state="failed",
    result="oom-kill",
    restarts=7,
    registration="offline",
    problems=("one job's OOM kill stops it", "nothing starts it again"),
    up=False,
    guarded=False,
    findings=(Finding("restart", "nothing starts it again", "it stays dead", "holdtop runner install --name old"),),
)


def console(state_dir: str, logs: Sequence[str]) -> Console:
    """The program as ``holdtop`` puts it together, for no terminal in particular."""
    settings, earlier = config.Config(), Earlier()
    loaded = themes.load([themes.packaged()]).loaded

    def feed(on_snapshot: Callable[[Snapshot], None]) -> Sampler:
        heard = earlier.on_the_way(on_snapshot)

        def named(snapshot: Snapshot) -> None:
            heard(replace(snapshot, host=HOST, runners=(DEAD, WELL), runners_why=None))

        return Sampler(refresh=settings.refresh, on_snapshot=named, state_dir=state_dir)

    return Console(
        Setup(
            feed=feed,
            operator=operator,
            keys=table({}),
            remapped={},
            themes={name: loaded[name] for name in THEMES},
            theme=THEMES[0],
            glyphs=UNICODE,
            reasons=settings.reasons,
            logs=tuple(logs),
            acts=lambda: seen(None, state_dir),
            tape=earlier.tape,
            time_keys=replay_table({}),
            state_dir=state_dir,
        )
    )


async def draw(app: Console, pilot: Pilot[None], page: Page) -> AsyncIterator[tuple[str, str]]:
    """The page's pictures by their names. It is opened once, and left again."""
    await go(app, pilot, page)
    for theme in () if page.passed else THEMES:
        while app.look.painter.theme.name != theme:
            app.action_next_theme()
        if page.anew:
            await go_back(app, pilot)
            await go(app, pilot, page)
        app._main().say("")
        for width, height in SIZES:
            await pilot.resize_terminal(width, height)
            await pilot.pause(0.5)
            yield f"{page.name}-{width}x{height}-{theme}", compact(app.export_screenshot())
    await go_back(app, pilot)


async def go(app: Console, pilot: Pilot[None], page: Page) -> None:
    await pilot.resize_terminal(*SIZES[1])
    for key in page.keys.split():
        await pilot.press(key)
        await pilot.pause(1.0)
    if isinstance(app.screen, ActScreen | DeedScreen):
        await until(pilot, lambda: settled(app))


async def go_back(app: Console, pilot: Pilot[None]) -> None:
    while len(app.screen_stack) > 1 or app.world.page != "now":
        await pilot.press("escape")
        await pilot.pause(0.2)


def settled(app: Console) -> bool:
    """Whether an act that goes on is over, and the audit is read."""
    screen = app.screen
    return not (isinstance(screen, ActScreen) and screen.stage in ("planning", "acting")) and not app.world.reading_acts


async def until(pilot: Pilot[None], ask: Callable[[], bool]) -> None:
    for _ in range(int(PATIENCE / 0.2)):
        if ask():
            return
        await pilot.pause(0.2)
    raise SystemExit(f"not within {PATIENCE:.0f} s: look at holdtop demo")


async def pictures(app: Console, pages: Sequence[Page], warm: float) -> None:
    def ready() -> bool:
        snapshot = app.world.snapshot
        return snapshot is not None and {flag.kind for flag in snapshot.flags} >= FLAGS

    async with app.run_test(size=SIZES[1]) as pilot:
        await until(pilot, ready)
        await pilot.pause(warm)
        for page in pages:
            async for name, svg in draw(app, pilot, page):
                (DOCS / "pictures" / f"{name}.svg").write_text(svg)


def gallery() -> str:
    """All pictures by screen: what ``pictures/README.md`` says."""
    told = ["# Pictures\n\nMade by `python docs/make_pictures.py`; what they show: [the screens](../screens.md).\n"]
    told.append(f"\n| screen | {' | '.join(THEMES)} |\n|---|{'---|' * len(THEMES)}\n")
    for name in (page.name for page in PAGES if not page.passed):
        sizes = [f"{width}x{height}" for width, height in SIZES]
        cells = [" ".join(f"[{size}]({name}-{size}-{theme}.svg)" for size in sizes) for theme in THEMES]
        told.append(f"| {name} | {' | '.join(cells)} |\n")
    return "".join(told)


def write_keys(page: Path, keys: Sequence[Key]) -> None:
    before, rest = page.read_text().split(KEYS_BEGIN)
    after = rest.split(KEYS_END)[1]
    page.write_text(before + KEYS_BEGIN + markdown(keys) + KEYS_END + after)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--warm", type=float, default=60.0, help="seconds of history in the graphs (default 60)")
    parser.add_argument("--only", nargs="+", choices=[page.name for page in PAGES], help="these screens alone")
    given = parser.parse_args()
    write_keys(DOCS / "console.md", KEYS)
    write_keys(DOCS / "recording.md", TIME_KEYS)
    (DOCS / "pictures/README.md").write_text(gallery())
    with sandbox(PLACE) as box:
        os.environ.update(box.told["environ"])
        app = console(box.told["state_dir"], [f"{PLACE}/logs/ml-team.log"])
        pages = [page for page in PAGES if given.only is None or page.name in given.only]
        asyncio.run(pictures(app, pages, given.warm))


if __name__ == "__main__":
    main()
