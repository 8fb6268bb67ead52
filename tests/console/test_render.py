"""The gate: what may reach a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import iter_graphemes, wcswidth

from holdtop import render
from holdtop.render import GIB, MIB, bytes_text, cells, clean, duration_text, fit

ANYTHING = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("foreign", "shown"),
    [
        ("plain [/red] a) R 1 1 (b", "plain [/red] a) R 1 1 (b"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("two\nlines\ttab", "two␊lines␉tab"),
        ("del\x7f", "del␡"),
        ("c1\x9b31m", "c1<9B>31m"),
        ("evil\u202egpj", "evil<U+202E>gpj"),
        ("a\u2067b\u2069", "a<U+2067>b<U+2069>"),
        ("👨\u200d👩", "👨<U+200D>👩"),
        ("⚠\ufe0f", "⚠<U+FE0F>"),
        ("byte \udcff", "byte <FF>"),
        ("lone \ud800", "lone <U+D800>"),
        ("\u0301first", "<U+0301>first"),
        ("e\u0301", "e\u0301"),
        ("世蓮", "世蓮"),
        ("line\u2028sep", "line<U+2028>sep"),
        ("soft\u00adhyphen", "soft<AD>hyphen"),
    ],
)
def test_stand_ins(foreign: str, shown: str) -> None:
    assert clean(foreign) == shown


def test_a_pile_of_marks_is_not_drawn() -> None:
    assert clean("e" + "\u0301" * 5) == "e" + "\u0301" * 3 + "<U+0301><U+0301>"


def test_ascii_only() -> None:
    assert clean("世\x1b…", ascii_only=True) == "<U+4E16><1B><U+2026>"


@given(ANYTHING)
def test_nothing_dangerous_passes(text: str) -> None:
    for char in clean(text):
        assert unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"}
    assert clean(text, ascii_only=True).isascii()


@given(ANYTHING, st.integers(0, 30))
def test_limit_bounds_the_result(text: str, limit: int) -> None:
    assert len(clean(text, limit)) <= limit


@given(ANYTHING.map(clean), st.integers(0, 40))
def test_fit_fits(text: str, width: int) -> None:
    assert cells(fit(text, width)) <= width
    assert cells(fit(text, width, pad=True)) == width


@pytest.mark.parametrize(
    ("text", "width", "fitted"),
    [
        ("abcdef", 4, "abc…"),
        ("abcd", 4, "abcd"),
        ("世世世", 4, "世…"),
        ("世世世", 5, "世世…"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
        ("abc", 1, "…"),
        ("abc", 0, ""),
    ],
)
def test_fit_keeps_clusters_whole(text: str, width: int, fitted: str) -> None:
    assert fit(text, width) == fitted


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "unknown"), (0, "0 MiB"), (1, "<1 MiB"), (512 * MIB, "512 MiB"), (39.9 * GIB, "39.9 GiB")],
)
def test_bytes(count: float | None, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0, "0s"),
        (38.9, "38s"),
        (252, "4m12s"),
        (7440, "2h04m"),
        (273600, "3d04h"),
        (-65, "-1m05s"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


def test_what_is_called_narrow_is_narrow() -> None:
    for point in range(0x3000):
        if render._NARROW.fullmatch(char := chr(point)):
            assert wcswidth(char) == 1, hex(point)
            assert list(iter_graphemes(f"a{char}b")) == ["a", char, "b"], hex(point)
            assert char.isprintable(), hex(point)
