"""Which samples decide: distinct ones of now, in a row; by a clock that can be set, since no test can suspend."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from holdtop.payload.limits import PERIOD, STALE, Limit, Limits, PauseLimit, Sample, Sensor

Said = float | None | Exception


class Probe:
    """A sensor that says what it is told to, on clocks of its own: a suspend stops only CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self.now = {time.CLOCK_BOOTTIME: 900.0, time.CLOCK_MONOTONIC: 500.0}
        self.says: Said = 50.0
        self.sensor = Sensor("Tctl", "C", self._read, self.now.__getitem__)
        self.during: Callable[[], None] = lambda: None

    def _read(self) -> Sample:
        self.during()
        if isinstance(self.says, Exception):
            raise self.says
        return Sample(self.says, "no value" if self.says is None else "temp2_input")

    def run(self, seconds: float) -> None:
        self.now = {clock: at + seconds for clock, at in self.now.items()}
        self.sensor.clock = self.now.__getitem__

    def suspend(self, seconds: float) -> None:
        self.now[time.CLOCK_BOOTTIME] += seconds

    def sample(self, says: Said) -> None:
        self.run(PERIOD)
        self.says = says
        self.sensor.sample()


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def ceiling(probe: Probe) -> Limit:
    return Limit(name="tctl-abort", threshold=95, sensor=probe.sensor, ceiling=True, status=123)


@pytest.fixture
def pause(probe: Probe) -> PauseLimit:
    return PauseLimit(name="tctl-pause", threshold=90, sensor=probe.sensor)


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ([96, 96, 96], True),
        ([95, 95, 95], True),
        ([96, 96], False),
        ([96, 96, 94, 96, 96], False),
        ([96, 96, 94, 96, 96, 96], True),
        ([96, None, 96, OSError("EIO"), 96], True),
        ([96, 96, None, None], False),
        ([math.nan, math.inf, math.nan, math.inf], False),
        ([96, 96, *[None] * 6, 96], False),
    ],
)
def test_a_row_is_of_known_bad_samples(probe: Probe, ceiling: Limit, said: list[Said], ends: bool) -> None:
    """What is unknown is neither bad nor good; when it lasts, what came before it is of another time."""
    found = None
    for says in said:
        probe.sample(says)
        found = found or ceiling.check()
    assert (found is not None) is ends
    if found:
        assert (found.reason, found.status) == ("tctl-abort", 123)


def test_one_sample_counts_once_however_often_it_is_looked_at(probe: Probe, ceiling: Limit) -> None:
    probe.sample(99)
    assert [ceiling.check() for _ in range(9)] == [None] * 9


def test_samples_before_a_suspend_do_not_count_after_it(probe: Probe, ceiling: Limit) -> None:
    for _ in range(2):
        probe.sample(99)
        assert ceiling.check() is None
    probe.sample(99)
    probe.suspend(3600)
    assert ceiling.check() is None, "the third was not looked at before"
    assert probe.sensor.blind() is None, "nobody is blind for having slept"
    for _ in range(2):
        probe.sample(99)
        assert ceiling.check() is None
    probe.sample(99)
    assert ceiling.check()


@pytest.mark.parametrize("how", ["suspend", "run"])
def test_an_answer_that_comes_too_late_is_none(probe: Probe, ceiling: Limit, how: str) -> None:
    probe.during = lambda: getattr(probe, how)(STALE + 1)
    for _ in range(5):
        probe.sample(99)
        assert ceiling.check() is None
    assert probe.sensor.blind() == ("it took more than 5 s to answer" if how == "suspend" else "no answer for 6 s")


def test_a_row_goes_on_over_an_unlucky_look(probe: Probe, pause: PauseLimit) -> None:
    """The keeper looks less often than the sensor speaks: it sees the newest, and that is enough."""
    for _ in range(3):
        probe.sample(50)
        probe.sample(92)
        found = pause.check()
    assert found


def test_hysteresis(probe: Probe, pause: PauseLimit) -> None:
    turns = []
    for says in [*[90] * 5, *[86] * 5, *[84, 84, 85, 84, 84], *[84.9] * 3, *[89.9] * 5]:
        probe.sample(says)
        turns += [turn.paused for turn in [pause.check()] if turn]
    assert turns == [True, False]


def test_a_paused_payload_goes_on_only_when_its_sensor_stays_blind(probe: Probe, pause: PauseLimit) -> None:
    for _ in range(3):
        probe.sample(91)
        pause.check()
    assert pause.paused
    probe.sample(None)
    assert pause.check() is None, "one missing sample is nothing yet"
    probe.run(STALE)
    turn = pause.check()
    assert turn
    assert (turn.paused, turn.value) == (False, None)
    assert turn.text.startswith("::warning::--tctl-pause is blind, the payload goes on: no answer")


def test_limits_that_share_a_sensor_warn_once_and_once_again(probe: Probe, ceiling: Limit, pause: PauseLimit) -> None:
    limits = Limits((ceiling, pause))
    assert limits.sensors == [probe.sensor]
    probe.sample(50)
    said = list(limits.news())
    for _ in range(9):
        probe.sample(None)
        said += limits.news()
    probe.sample(50)
    said += limits.news()
    assert said == [
        "::warning::--tctl-abort, --tctl-pause: the sensor is blind: no value",
        "::warning::--tctl-abort, --tctl-pause: the sensor is back",
    ]
