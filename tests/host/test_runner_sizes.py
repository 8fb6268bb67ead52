"""Sizes mean what systemd means by them, or are refused with the accepted forms."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtop.errors import UsageError
from holdtop.host.runner import sizes
from holdtop.host.runner.sizes import INFINITY, LEAST_BYTES, Size

#: Not by the code's own table.
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("48G", 51539607552),
        ("512M", 536870912),
        ("1.5T", 1649267441664),
        ("1.5G", 1610612736),
        ("2T", 2199023255552),
        ("900000K", 921600000),
        ("51539607552", 51539607552),
    ],
)
def test_a_size_is_what_systemd_makes_of_it(text: str, size: int) -> None:
    assert sizes.parse(text) == Size(text, size)


def test_a_part_of_the_memory_and_no_limit_are_no_number_of_bytes() -> None:
    assert sizes.parse("85%") == Size("85%", percent=Decimal(85))
    assert sizes.parse("infinity") == Size("infinity")
    assert sizes.parse("100%").bytes_here > sizes.parse("50%").bytes_here > 0


@pytest.mark.parametrize(
    "text",
    [
        *("32Mb", "16 G", "-1", "", " 48G", "48G ", "48g", "48GB", "48GiB", "+48G", "1e9", "0x10", "0", "0G", "48"),
        *("1G 512M", "1G512M", "1.5", ".5G", "5.G", "1,5G", "٤٨G", "48G\n", "48G\nExecStart=/bin/sh", "0%", "101%"),
        *("8.555%", "Infinity", "max", "nan", "16E", "99999999999999999999999G", "18446744073709551615"),
    ],
)
def test_anything_else_is_refused_with_the_accepted_forms(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(sizes.ACCEPTED)):
        sizes.parse(text)


@given(st.text(alphabet="0123456789.KMGTPEB% inftyb-+e\n", max_size=12))
def test_what_is_accepted_is_one_number_and_one_unit(text: str) -> None:
    try:
        size = sizes.parse(text)
    except UsageError:
        return
    assert size.text == text
    if size.bytes is not None:
        number = text.rstrip("KMGTPE")
        assert size.bytes == pytest.approx(float(number) * UNITS[text[len(number) :]], rel=1e-9)


@pytest.mark.parametrize(
    ("maximum", "high"),
    [
        ("48G", "43.2G"),
        ("512M", "460.8M"),
        ("2T", "1.8T"),
        ("1.5G", "1.35G"),
        ("900000K", "810000K"),
        ("100G", "90G"),
        ("1M", "0.9M"),
        ("1025K", "922.5K"),
        ("1048577", "943719"),
    ],
)
def test_high_is_nine_tenths_in_the_same_unit(maximum: str, high: str) -> None:
    found = sizes.high_for(sizes.parse(maximum))
    assert found is not None
    assert found.text == high


@given(st.integers(LEAST_BYTES, 2**62), st.sampled_from(sorted(UNITS)))
def test_high_is_always_a_size_below_max(count: int, unit: str) -> None:
    maximum = sizes.parse(f"{max(count // UNITS[unit], LEAST_BYTES // UNITS[unit], 1)}{unit}")
    high = sizes.high_for(maximum)
    assert high is not None
    assert maximum.bytes is not None
    assert high.bytes == pytest.approx(maximum.bytes * 0.9, rel=1e-5)
    sizes.check_order(high, maximum)


@pytest.mark.parametrize("maximum", ["infinity", "85%"])
def test_of_no_number_of_bytes_no_high_is_made_up(maximum: str) -> None:
    assert sizes.high_for(sizes.parse(maximum)) is None


@pytest.mark.parametrize(
    ("high", "maximum"),
    [("48G", "48G"), ("49G", "48G"), ("infinity", "48G"), ("infinity", "infinity"), ("85%", "85%"), ("100%", "1M")],
)
def test_a_high_that_is_not_below_max_is_refused(high: str, maximum: str) -> None:
    with pytest.raises(UsageError, match="not below"):
        sizes.check_order(sizes.parse(high), sizes.parse(maximum))


def test_a_size_below_max_is_not_refused() -> None:
    for high, maximum in (("40G", "48G"), ("80%", "85%"), ("40G", "infinity")):
        sizes.check_order(sizes.parse(high), sizes.parse(maximum))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (51539607552, "51539607552 = 48G"),
        (1649267441664, "1649267441664 = 1.5T"),
        (12, "12 bytes"),
        (INFINITY, "infinity"),
        (None, "unknown"),
    ],
)
def test_a_size_is_said_in_both_forms(size: int | None, text: str) -> None:
    assert sizes.said(size) == text


@given(st.integers(LEAST_BYTES, INFINITY - 1))
def test_what_is_in_force_is_written_as_what_means_the_same(size: int) -> None:
    assert sizes.of(size).bytes == size
    assert sizes.parse(sizes.of(size).text) == sizes.of(size)
