"""A ``Snapshot`` as JSON and back, by the type hints of its classes alone.

What is recorded is foreign when it is read again: each value is held against its hint, so that nothing reaches a
screen which a live look could not have brought there. A field that this version does not know is left out, one that
the recording lacks gets its default: recordings open for ever.
"""

from __future__ import annotations

import dataclasses
import json
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from holdtop.errors import RecordingError
from holdtop.hold.redact import redact_argv, redact_command, redact_text
from holdtop.model.values import Readings, Snapshot

#: For the next look's rates alone: nobody is shown them.
_NEXT_LOOK = frozenset({"cpu_seconds", "sampled_at", "unowned_since"})
#: No number of a box is larger; of larger ones arithmetic may fail.
_LARGEST = 1 << 63
_Read = Callable[[Any], Any]
T = TypeVar("T")


def encode(snapshot: Snapshot) -> bytes:
    """Command lines without their secrets; ASCII, whatever its texts hold."""
    return _ENCODER.encode(snapshot).encode("ascii")


def decode(data: bytes) -> Snapshot:
    """Raises ``RecordingError`` for what is no snapshot."""
    try:
        return cast("Snapshot", _reader(Snapshot)(json.loads(data)))
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"what is recorded is no snapshot: {error}") from error


def decode_readings(data: bytes) -> Readings:
    """The readings of a snapshot alone. Raises as ``decode`` does."""
    try:
        return cast("Readings", _reader(get_type_hints(Snapshot)["readings"])(json.loads(data)["readings"]))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordingError(f"what is recorded is no snapshot: {error}") from error


def read_as(kind: type[T], said: object) -> T | None:
    """An instance from its plain form; ``None`` for what is no such form."""
    hint: Any = kind
    try:
        return cast("T", _reader(hint)(said))
    except ValueError:
        return None


def _mapped(value: object) -> object:
    """What JSON has no form of: data classes and mappings that are no ``dict``."""
    if isinstance(value, Mapping):
        return dict(value)
    kind: Any = type(value)
    made = {name: getattr(value, name) for name in _stored(kind)}
    for name in made.keys() & _REDACTED.keys():
        made[name] = _REDACTED[name](made[name])
    return made


@cache
def _stored(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.name not in _NEXT_LOOK)


_ENCODER = json.JSONEncoder(default=_mapped, separators=(",", ":"), check_circular=False)


@lru_cache(maxsize=4096)
def _words(command: tuple[str, ...]) -> Sequence[str]:
    """Each command line is looked through once, not every second. A very long one keeps its beginning."""
    return redact_argv(command) if sum(map(len, command)) < _LONGEST else (redact_command(command),)


#: Longest command line that is looked through word by word, in characters.
_LONGEST = 8192
_line = lru_cache(maxsize=1 << 14)(redact_text)


def _text(said: object) -> object:
    """All texts in it."""
    if isinstance(said, str):
        return _line(said)
    if isinstance(said, Mapping):
        return {_text(key): _text(value) for key, value in said.items()}
    return [_text(one) for one in said] if isinstance(said, list | tuple) else said


def _receipt(said: Mapping[str, object] | None) -> Mapping[str, object] | None:
    """Only its words: what else is in it has a form, and is in each look again."""
    return {**said, **{key: _text(said[key]) for key in _WORDS & said.keys()}} if said else said


_WORDS = {"lane", "command", "left", "suspects"}
_REDACTED: Mapping[str, Callable[[Any], object]] = {
    "command": _words,
    **dict.fromkeys(("lane", "text", "remedy", "name", "why", "about", "cwd", "log_path", "being_ended_by"), _text),
    "limits": _text,
    "last_receipt": _receipt,
    "receipts": lambda receipts: [_receipt(one) for one in receipts],
}


@cache
def _reader(hint: Any) -> _Read:
    """What makes a value of that type from JSON. It raises ``ValueError`` for anything else."""
    origin, arguments = get_origin(hint), get_args(hint)
    if dataclasses.is_dataclass(hint):
        return _of_class(hint)
    if origin is Literal:
        return _checked(lambda value: isinstance(value, str) and value in arguments, hint)
    if origin in (Union, types.UnionType):
        (one,) = (argument for argument in arguments if argument is not types.NoneType)
        read = _reader(one)
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        each = _reader(arguments[0])
        array = _checked(lambda value: isinstance(value, list), hint)
        return lambda value: tuple(map(each, array(value)))
    if origin is Mapping:
        item = _reader(arguments[1])
        table = _checked(lambda value: isinstance(value, dict), hint)
        return lambda value: {key: item(one) for key, one in table(value).items()}
    return _checked(_SIMPLE[hint], hint)


def _number(value: object) -> bool:
    """Never NaN: it is less than nothing."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST


_SIMPLE: Mapping[Any, Callable[[Any], bool]] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: lambda value: isinstance(value, int) and _number(value),
    float: _number,
    object: lambda _: True,
}


def _checked(fits: Callable[[Any], bool], hint: object) -> _Read:
    def read(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"{str(value)[:40]!r} is no {getattr(hint, '__name__', hint)}")
        return value

    return read


def _of_class(kind: Any) -> _Read:
    hints = get_type_hints(kind)
    readers = {name: _reader(hints[name]) for name in _stored(kind)}
    absent = {field.name: _absent(hints[field.name]) for field in dataclasses.fields(kind) if _required(field)}

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"{str(value)[:40]!r} is no {kind.__name__}")
        said = {name: readers[name](value[name]) for name in readers.keys() & value.keys()}
        return kind(**{**{name: make() for name, make in absent.items() if name not in said}, **said})

    return read


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _absent(hint: Any) -> Callable[[], object]:
    """What stands for a field without a default that the recording lacks: not known, or nothing."""
    if types.NoneType in get_args(hint):
        return lambda: None
    empty = {tuple: tuple, Mapping: dict}.get(get_origin(hint) or hint)
    if empty is None:
        return lambda: _lacking(hint)
    return empty


def _lacking(hint: object) -> object:
    raise ValueError(f"a field of type {getattr(hint, '__name__', hint)} is missing")
