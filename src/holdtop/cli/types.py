"""Types of the command line's values, shared by the verbs."""

from __future__ import annotations

import argparse
import math
import os
import re

_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)?")
LONGEST = 10 * 366 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


def duration(text: str) -> float:
    """``90``, ``90s``, ``15m``, ``2h`` in seconds. Raises ``ArgumentTypeError``."""
    form = _DURATION.fullmatch(text)
    if form is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration: write 90, 90s, 15m or 2h")
    seconds = float(form[1]) * _SECONDS[form[2]]
    if seconds > LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is longer than ten years")
    return seconds


def positive_duration(text: str) -> float:
    """A duration greater than zero."""
    seconds = duration(text)
    if not seconds > 0 or math.isinf(seconds):
        raise argparse.ArgumentTypeError(f"{text!r}: a limit must be longer than nothing")
    return seconds


def niceness(text: str) -> int:
    """-20 to 19, as nice(1). Raises ``ArgumentTypeError``."""
    if not re.fullmatch(r"-?[0-9]{1,2}", text) or not -20 <= int(text) <= 19:
        raise argparse.ArgumentTypeError(f"{text!r} is no niceness: -20 to 19")
    return int(text)


def number(text: str) -> float:
    """A number of zero or more. Raises ``ArgumentTypeError``."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of zero or more")
    return value


def positive_number(text: str) -> float:
    """A number greater than zero."""
    value = number(text)
    if value == 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a limit must be greater than zero")
    return value


def celsius(text: str) -> float:
    """A temperature in degrees Celsius that a sensor can show: beyond it a limit would be armed and never act."""
    from holdtop.sources.files import CELSIUS

    value = positive_number(text)
    if value > CELSIUS[1]:
        raise argparse.ArgumentTypeError(f"{text!r}: above {CELSIUS[1]} C a reading is taken for a sensor's fault")
    return value


def pause_celsius(text: str) -> float:
    """The same for a pause, which has an end: a payload that nothing resumes would keep the accelerator for ever."""
    from holdtop.payload.limits import HYSTERESIS
    from holdtop.sources.files import CELSIUS

    value = celsius(text)
    if value - HYSTERESIS <= CELSIUS[0]:
        raise argparse.ArgumentTypeError(f"{text!r}: the pause would end {HYSTERESIS:g} C below, where no sensor gets")
    return value


def cpus(text: str) -> frozenset[int]:
    """``0-3,8`` is a list; a plain number is how many. Raises ``ArgumentTypeError``."""
    mine = sorted(os.sched_getaffinity(0))
    if text.isdigit():
        count = int(text)
        if not 1 <= count <= len(mine):
            raise argparse.ArgumentTypeError(f"{count} CPUs: this process may use {len(mine)}")
        return frozenset(mine[:count])
    wanted: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} is no list of CPUs: write 4, or 0-3,8")
        wanted.update(range(int(low), int(high or low) + 1) if len(low) < 5 and len(high) < 5 else ())
    if not wanted or not wanted.issubset(mine):
        raise argparse.ArgumentTypeError(f"{text!r}: this process may use the CPUs {','.join(map(str, mine))}")
    return frozenset(wanted)


def take_spans(parser: argparse.ArgumentParser) -> None:
    """``--at -10m``: a minus before a digit begins an instant, and no option of ``parser``."""
    parser._negative_number_matcher = re.compile(r"-\d", re.ASCII)  # argparse knows them as -10 only
