"""Gauges: the right pool, the right temperature, what is old, what is missing, and where a hold ends itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.console.view.armed import armed
from holdtop.console.view.figures import GAUGES, History, figure, gauges, other_pool
from holdtop.console.view.gauges import gauge_lines, gauge_strip, graph
from holdtop.console.view.glyphs import UNICODE
from holdtop.model.values import Device, Reading
from tests.console.boxes import AT, BUSY, GIB, readings


def test_a_graph_tells_unknown_from_low() -> None:
    assert graph([None, 0, 50, 100, 200], 0, 100, 1, UNICODE) == [" ▁▄██"]
    assert graph([0, 50, 75, 100], 0, 100, 2, UNICODE) == ["  ▄█", "▁███"]


@given(st.lists(st.none() | st.floats(-1e12, 1e12), max_size=40), st.integers(1, 3))
def test_a_graph_is_as_wide_as_its_values(values: list[float | None], rows: int) -> None:
    assert {len(row) for row in graph(values, 0, 100, rows, UNICODE)} == {len(values)}


def test_an_old_reading_and_a_missing_one() -> None:
    (tctl,) = (gauge for gauge in GAUGES if gauge.name == "tctl_celsius")
    old = {"tctl_celsius": Reading(61.0, at=AT - 42)}
    assert figure(tctl, old, AT, UNICODE).note == "42s old"
    missing = figure(tctl, {"tctl_celsius": Reading(why="denied")}, AT, UNICODE)
    assert (missing.value, missing.note) == ("unknown", "denied")
    assert figure(tctl, {"tctl_celsius": Reading(106.0, at=AT)}, AT, UNICODE).role == "warning"


@pytest.mark.parametrize(
    ("celsius", "available", "roles"),
    [(91.0, 20.0, ("text", "text")), (92.5, 7.5, ("warning", "warning")), (97.0, 5.9, ("warning", "warning"))],
)
def test_gauges_show_where_the_running_hold_ends_itself(
    celsius: float, available: float, roles: tuple[str, str]
) -> None:
    box = replace(BUSY, readings=readings(tctl_celsius=celsius, mem_available_bytes=available * GIB))
    tctl, memory = (
        figure(gauge, box.readings, AT, UNICODE, armed(box))
        for name in ("tctl_celsius", "mem_available_bytes")
        for gauge in GAUGES
        if gauge.name == name
    )
    assert (tctl.stop, memory.stop) == ("ends at 97 °C", "floor 6 GiB")
    assert (tctl.role, memory.role) == roles
    block = "\n".join("".join(span.text for span in row.spans) for row in gauge_lines(box, History(), 40, 15, UNICODE))
    assert "ends at 97 °C" in block
    assert "floor 6 GiB" in block


def test_the_carve_out_is_shown_where_it_is_known() -> None:
    for width in (80, 120):
        strip = gauge_strip(BUSY, History(), width, 2, UNICODE)
        assert "VRAM  0.4/0.5G" in "".join(span.text for row in strip for span in row.spans)
    assert other_pool(replace(BUSY, readings=readings(vram_used_bytes=None))) == ""


def test_the_gauge_is_of_the_pool_that_programs_get() -> None:
    """A carve-out that is larger than GTT: VRAM is what fills up, and GTT stands aside."""
    large = readings(vram_used_bytes=70 * GIB, vram_total_bytes=96 * GIB, gtt_used_bytes=GIB, gtt_total_bytes=15 * GIB)
    box = replace(BUSY, readings=large, device="0000:c3:00.0", devices=(Device("0000:c3:00.0", "apu", "gpu", large),))
    assert (gauges(box)[0].name, other_pool(box)) == ("vram_used_bytes", "GTT 1.0/15.0G")
    assert (gauges(BUSY)[0].name, other_pool(BUSY)) == ("gtt_used_bytes", "VRAM 0.4/0.5G")
    assert len(gauges(box)) == len(GAUGES)


def test_what_stands_in_for_tctl_says_that_it_is_not_tctl() -> None:
    box = replace(BUSY, readings=readings(tctl_celsius=None, gpu_celsius=71.0))
    block = "\n".join("".join(span.text for span in row.spans) for row in gauge_lines(box, History(), 80, 7, UNICODE))
    assert "GPU (no Tctl)    71 °C" in block
    assert "ends at" not in block.split("GPU (no Tctl)")[1].split("\n")[0], "no limit acts on it"
    neither = replace(BUSY, readings=readings(tctl_celsius=None))
    assert "tctl_celsius" in {gauge.name for gauge in gauges(neither)}
