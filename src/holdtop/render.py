"""The one gate for foreign text, numbers and units: all that reaches a terminal or a pipe passes here.

Names, command lines, lanes, reasons, log lines, file names and error texts belong to whoever wrote them.
``clean`` leaves of them only what is visible and has a width on which terminals agree; the rest becomes a
visible stand-in, so that two different texts do not look the same and none of them moves the cursor.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

UNKNOWN = "unknown"
ELLIPSIS = "…"
#: More combining marks than this on one letter become stand-ins: living scripts need no more.
MAX_MARKS = 3

MIB = 1024**2
GIB = 1024**3

#: One cell each and no clusters: ASCII, Latin letters, and the signs, rules and blocks that tables are drawn with.
_NARROW = re.compile("[ -~\u00a1-\u00ac\u00ae-\u02af\u2010-\u2027\u2190-\u21ff\u2500-\u259f]*")
#: Printable for Python, yet drawn as nothing, or with a width on which terminals differ.
_TREACHEROUS = frozenset(
    chr(point)
    for first, last in (
        (0x034F, 0x034F),  # combining grapheme joiner
        (0x115F, 0x1160),  # Hangul fillers
        (0x17B4, 0x17B5),  # Khmer inherent vowels
        (0x180B, 0x180F),  # Mongolian variation selectors
        (0x2800, 0x2800),  # blank Braille pattern
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),  # variation selectors
        (0xFFA0, 0xFFA0),
        (0x1F3FB, 0x1F3FF),  # skin tones: two cells or none
        (0xE0100, 0xE01EF),
    )
    for point in range(first, last + 1)
)


def clean(text: str, limit: int | None = None, *, ascii_only: bool = False) -> str:
    """``text`` on one line, made harmless. ``limit`` bounds the result (and the work) in characters.

    C0 and DEL become control pictures (``␛``), bytes that were no UTF-8 ``<FF>``, all else that is invisible
    or changes direction ``<U+202E>``. With ``ascii_only`` no character above 126 is left at all.
    """
    cut = limit is not None and len(text) > limit
    part = text[:limit] if cut else text
    if not (part.isascii() and part.isprintable()):
        part = _cleaned(part, ascii_only)
    if limit is not None and (cut or len(part) > limit):
        mark = "~" if ascii_only else ELLIPSIS
        part = part[: max(0, limit - 1)] + mark if limit else ""
    return part


def _cleaned(text: str, ascii_only: bool) -> str:
    parts: list[str] = []
    marks = MAX_MARKS  # a mark without a letter before it would sit on whatever stands there
    for char in text:
        combining = unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me")
        marks = marks + 1 if combining else 0
        safe = char < "\x7f" if ascii_only else char not in _TREACHEROUS
        visible = (char.isprintable() or unicodedata.category(char) == "Zs") and safe and marks <= MAX_MARKS
        parts.append(char if visible else _stand_in(char, ascii_only))
        if combining and not visible:
            marks = MAX_MARKS
    return "".join(parts)


def _stand_in(char: str, ascii_only: bool) -> str:
    point = ord(char)
    if 0xDC80 <= point <= 0xDCFF:  # a byte that was no UTF-8 (PEP 383)
        return f"<{point - 0xDC00:02X}>"
    if not ascii_only and point < 0x20:
        return chr(0x2400 + point)
    if not ascii_only and point == 0x7F:
        return "␡"
    return f"<{point:02X}>" if point < 0x100 else f"<U+{point:04X}>"


def cells(text: str) -> int:
    """How many terminal cells a cleaned text takes."""
    if text.isascii() or _NARROW.fullmatch(text):
        return len(text)
    from wcwidth import wcswidth  # 10 ms, which a start without such a text need not wait for

    return max(0, wcswidth(text))


def fit(text: str, width: int, *, pad: bool = False, ellipsis: str = ELLIPSIS) -> str:
    """A cleaned text in at most ``width`` cells (with ``pad`` exactly), never cut inside a cluster."""
    taken = cells(text)
    if taken > width:
        text = _cut(text, width, ellipsis)
        taken = cells(text) if pad else 0
    return text + " " * (width - taken) if pad else text


def _cut(text: str, width: int, ellipsis: str) -> str:
    room = width - len(ellipsis)
    if room < 0:
        return ""
    if text.isascii():
        return text[:room] + ellipsis
    if _NARROW.fullmatch(text):
        return text[:room] + ellipsis
    from wcwidth import iter_graphemes

    kept: list[str] = []
    for cluster in iter_graphemes(text):
        room -= cells(cluster)
        if room < 0:
            break
        kept.append(cluster)
    return "".join(kept) + ellipsis


def bytes_text(count: float | None, unknown: str = UNKNOWN) -> str:
    """A size of so many bytes: ``39.9 GiB``, ``512 MiB``, ``<1 MiB``; ``unknown`` for ``None``."""
    if count is None:
        return unknown
    if abs(count) >= GIB:
        return f"{count / GIB:.1f} GiB"
    whole = round(count / MIB)
    return "<1 MiB" if not whole and count > 0 else f"{whole} MiB"


def short_bytes(count: float | None, unknown: str = "?") -> str:
    """The same in at most six cells, for tables: ``39.9G``, ``512M``, ``<1M``."""
    return bytes_text(count, unknown).replace(" GiB", "G").replace(" MiB", "M")


def whole(value: object) -> int | None:
    """A number that somebody else has written; ``None`` for anything else that stands there."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def objects(value: object) -> list[Mapping[str, object]]:
    """The objects of a list that somebody else has written; none where something else stands there."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def counted(number: int, one: str, many: str) -> str:
    """``1 process``, ``3 processes``."""
    return f"{number} {one if number == 1 else many}"


def duration_text(seconds: float | None, unknown: str = UNKNOWN) -> str:
    """A span of so many seconds, in its two greatest units: ``38s``, ``4m12s``, ``2h04m``, ``3d04h``."""
    if seconds is None:
        return unknown
    sign, whole = ("-", int(-seconds)) if seconds < 0 else ("", int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{sign}{days}d{hour:02}h"
    if hours:
        return f"{sign}{hours}h{minute:02}m"
    return f"{sign}{minutes}m{second:02}s" if minutes else f"{sign}{second}s"
