"""The bytes of a segment, format 1: a head, then records; each with the CRC-32 of all that it says.

::

    head    magic (8), format u16, length u32, CRC u32, JSON of so many bytes: ring, host, holdtop
    record  magic (4), length u32, CRC u32; of so many bytes: kind u8, sequence u64, milliseconds since 1970 i64,
            length of the side u32, the side, the body

Little-endian. Body and side are zstandard frames of JSON; an empty side says nothing. A whole body stands for itself.
A delta has the whole body before it as its raw-content dictionary: of a box that hardly changes it takes a thirtieth.
The frame's own checksum tells whether it was unpacked against the right one.
"""

from __future__ import annotations

import json
import struct
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import zstandard

from holdtop.errors import RecordingError

FORMAT = 1
WHOLE, DELTA = 0, 1
#: No record unpacks to more, in bytes: what looks so was made to fill a memory.
LARGEST_BODY = 64 * 1024 * 1024
#: Between speed and size; measured in bench/recorder.py.
LEVEL = 3
_NONE, _SHORT = "no record begins there", "the record there is cut short"
_MAGIC, _RECORD = b"\x89HOLDTOP", b"\x89REC"
_HEAD, _FRAME, _META = struct.Struct("<8sHII"), struct.Struct("<4sII"), struct.Struct("<BQqI")


class Frame(NamedTuple):
    """One record as it lies in its segment; ``unpack`` opens its body."""

    kind: int
    seq: int
    at_ms: int
    side: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """A segment, as far as it is whole."""

    head: Mapping[str, Any]
    frames: tuple[Frame, ...]
    #: Where each begins.
    places: tuple[int, ...]
    #: Where the first byte lies that is not good, or the end.
    good: int
    #: What is wrong from there on; ``None``: nothing.
    why: str | None
    #: The bytes end within the record there, as a writer leaves them that was killed.
    torn: bool = False


def head(said: Mapping[str, object]) -> bytes:
    content = json.dumps(said).encode("ascii")
    return _HEAD.pack(_MAGIC, FORMAT, len(content), _head_crc(FORMAT, content)) + content


def frame(one: Frame) -> bytes:
    rest = _META.pack(one.kind, one.seq, one.at_ms, len(one.side)) + one.side + one.body
    return _FRAME.pack(_RECORD, len(rest), zlib.crc32(rest)) + rest


def scan(data: bytes) -> Scan:
    """All whole records up to the first that is not. Raises ``RecordingError`` where already the head is none."""
    said, place = _read_head(data)
    frames: list[Frame] = []
    places: list[int] = []
    why = None
    while place < len(data):
        found = read_frame(data, place)
        if isinstance(found, str):
            why = found
            break
        places.append(place)
        one, place = found
        frames.append(one)
    # A length that was changed looks cut short, too: then there are records in what it claims.
    torn = why == _SHORT and data.find(_RECORD, place + len(_RECORD)) < 0
    return Scan(said, tuple(frames), tuple(places), place, why, torn)


def _read_head(data: bytes) -> tuple[Mapping[str, Any], int]:
    if len(data) < _HEAD.size or not data.startswith(_MAGIC):
        raise RecordingError("it is no recording, or one whose first bytes are damaged")
    _, number, length, crc = _HEAD.unpack_from(data)
    content = data[_HEAD.size : _HEAD.size + length]
    if len(content) < length or crc != _head_crc(number, content):
        raise RecordingError("the head of the recording is damaged")
    if number > FORMAT:
        raise RecordingError(f"a newer holdtop made it (format {number}); this one reads up to format {FORMAT}")
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise RecordingError("the head of the recording is none of holdtop's")
    return said, _HEAD.size + length


def _head_crc(number: int, content: bytes) -> int:
    return zlib.crc32(content, number)


def read_frame(data: bytes, place: int) -> tuple[Frame, int] | str:
    """The record there and where the next one begins, or what is wrong with it."""
    if not _RECORD.startswith(data[place : place + len(_RECORD)]):
        return _NONE
    if len(data) - place < _FRAME.size:
        return _SHORT
    _, length, crc = _FRAME.unpack_from(data, place)
    begin = place + _FRAME.size
    if length < _META.size:
        return _NONE
    rest = data[begin : begin + length]
    if len(rest) < length:
        return _SHORT
    if zlib.crc32(rest) != crc:
        return "the record there is damaged"
    kind, seq, at_ms, side = _META.unpack_from(rest)
    if kind not in (WHOLE, DELTA) or side > length - _META.size:
        return "the record there is of an unknown kind"
    middle = _META.size + side
    return Frame(kind, seq, at_ms, rest[_META.size : middle], rest[middle:]), begin + length


class Packer:
    """Packs bodies of one segment, the first of each ``every`` whole."""

    def __init__(self, every: int = 64) -> None:
        self._every, self._count = every, 0
        self._plain = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._delta = self._plain

    def pack(self, body: bytes) -> tuple[int, bytes]:
        """Kind and bytes; the first one is whole."""
        kind = DELTA if self._count % self._every else WHOLE
        self._count += 1
        if kind == DELTA:
            return DELTA, self._delta.compress(body)
        before = zstandard.ZstdCompressionDict(body, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        self._delta = zstandard.ZstdCompressor(level=LEVEL, dict_data=before, write_checksum=True)
        return WHOLE, self._plain.compress(body)


def pack_side(said: Mapping[str, object]) -> bytes:
    """Nothing for nothing."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(json.dumps(said).encode("ascii")) if said else b""


def unpacked_size(packed: bytes) -> int:
    """What it says that it unpacks to, in bytes; 0 for nothing and for what is none."""
    try:
        return max(0, zstandard.frame_content_size(packed)) if packed else 0
    except zstandard.ZstdError:
        return 0


def unpack_side(side: bytes) -> Mapping[str, Any]:
    """Raises ``RecordingError``."""
    try:
        said = json.loads(unpack(side)) if side else {}
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"what is told beside a snapshot is damaged: {error}") from error
    return said if isinstance(said, dict) else {}


class _Unpackers(threading.local):
    """One for each thread, as the library asks: to make one costs more than to unpack a side."""

    def __init__(self) -> None:
        self.plain = zstandard.ZstdDecompressor()


_unpackers = _Unpackers()


def unpack(packed: bytes, before: bytes | None = None) -> bytes:
    """A body; ``before`` is the whole one that a delta was packed against. Raises ``RecordingError``."""
    unpacker = _unpackers.plain
    if before:
        past = zstandard.ZstdCompressionDict(before, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
        unpacker = zstandard.ZstdDecompressor(dict_data=past)
    try:
        if not 0 <= zstandard.frame_content_size(packed) <= LARGEST_BODY:
            raise RecordingError("a record says that it is too large")
        return unpacker.decompress(packed)
    except zstandard.ZstdError as error:
        raise RecordingError(f"a record cannot be unpacked: {error}") from error
