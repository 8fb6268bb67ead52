"""Where the panels stand at any size, and what is seen of a flag wherever it is shown."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.console.arrange import DROPPED_FIRST, Demand, arrange
from holdtop.console.view.flags import flag_rows
from holdtop.console.view.glyphs import UNICODE
from holdtop.console.view.memory import memory_lines
from holdtop.console.view.queue import queue_row
from holdtop.console.view.resources import resource_lines
from holdtop.console.view.text import width_of
from holdtop.console.world import World
from holdtop.model.values import Severity
from tests.console.boxes import BUSY, FLAGS, HOLDER, NOW, resource

DEMANDS = st.builds(
    Demand, st.integers(0, 40), st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 40).map(lambda n: 2 * n)
)


@given(st.integers(0, 320), st.integers(0, 110), DEMANDS)
def test_panels_lie_inside_and_never_overlap(width: int, height: int, demand: Demand) -> None:
    boxes = arrange(width, height, demand)
    for box in boxes.values():
        assert box.width > 0
        assert box.height > 0
        assert 0 <= box.x <= box.x + box.width <= width
        assert 0 <= box.y <= box.y + box.height <= height
    for one, two in itertools.combinations(boxes.values(), 2):
        apart = one.x + one.width <= two.x or two.x + two.width <= one.x
        assert apart or one.y + one.height <= two.y or two.y + two.height <= one.y


@given(DEMANDS.filter(lambda demand: demand.flags > 0))
def test_panels_are_dropped_in_one_order_only(demand: Demand) -> None:
    for height in range(60, 2, -1):
        shown = [name for name in DROPPED_FIRST if name in arrange(80, height, demand)]
        assert shown == list(DROPPED_FIRST[len(DROPPED_FIRST) - len(shown) :])


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_all_panels_are_there_from_80x24_on(size: tuple[int, int]) -> None:
    assert set(DROPPED_FIRST) < set(arrange(*size, Demand(2, 4, 6, 6)))


USUAL = DEMANDS.map(lambda demand: demand._replace(resources=1 + demand.resources % 2))


@given(st.integers(80, 220), st.integers(24, 70), USUAL)
def test_four_of_the_queue_and_one_event_are_seen_from_80x24_on(width: int, height: int, demand: Demand) -> None:
    boxes = arrange(width, height, demand)
    assert boxes["queue"].height - 2 >= min(4, demand.queue)
    assert boxes["events"].height - 1 >= 1


@pytest.mark.parametrize("path", ["/srv/a/very/long/path/of/a/state/directory", "'/srv/a path with/ blanks, and more'"])
def test_the_place_of_the_state_does_not_eat_the_remedy(path: str) -> None:
    flag = replace(FLAGS[0], remedy=f"holdtop kill --pid 3977 --state-dir {path} --reason REASON")
    for width, shown in ((80, "--state-dir … --reason REASON"), (160, f"--state-dir {path} --reason REASON")):
        _, row = flag_rows(flag, NOW, width, UNICODE, {"kill": "k"}, selected=True)
        assert "".join(span.text for span in row.spans).endswith(shown)
        assert width_of(row.spans) <= width


@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_what_a_flag_is_about_has_its_colour_everywhere(severity: Severity) -> None:
    """A ghost was red in its row and yellow among the flags; a stray red in the bar of memory."""
    flags = (
        replace(FLAGS[0], kind="ghost", severity=severity, resource="gpu"),
        replace(FLAGS[0], kind="survivor", severity=severity),
    )
    box = replace(BUSY, flags=flags, resources=(resource("gpu", HOLDER, state="ghost"),))
    world = World()
    world.take(box)
    drawn = [
        *flag_rows(flags[0], NOW, 120, UNICODE, {}, selected=False),
        *resource_lines(box, 120, UNICODE),
        queue_row(HOLDER, NOW, 120, UNICODE, ghost=world.ghosts()["gpu"]),
        queue_row(HOLDER, NOW, 80, UNICODE, ghost=world.ghosts()["gpu"]),
        *memory_lines(box, 120, 2, UNICODE),
    ]
    ghosts = {span.role for row in drawn for span in row.spans if "ghost" in span.text.lower()}
    strays = {span.role for row in drawn for span in row.spans if UNICODE.fills[1] in span.text}
    assert ghosts == strays == {severity}
