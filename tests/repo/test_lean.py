"""``holdtop.lean`` beside what it stands for: a type checker believes that they are the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from holdtop import lean


def classes(module: Any) -> tuple[type[Any], type[Any], type[Any]]:
    @module.dataclass(frozen=True, slots=True)
    class Value:
        one: int
        two: list[int] = module.field(default_factory=list)
        three: str = "3"

        @property
        def both(self) -> str:
            return f"{self.one}{self.three}"

    @module.dataclass(slots=True, kw_only=True)
    class Base:
        named: int

    @module.dataclass(slots=True, kw_only=True)
    class Below(Base):
        further: int = 2

    return Value, Base, Below


def outcome(attempt: Callable[[], object]) -> object:
    """What comes of it: a value, or the kind of the failure."""
    try:
        return attempt()
    except TypeError:
        return TypeError
    except AttributeError:
        return AttributeError


ATTEMPTS: dict[str, Callable[..., object]] = {
    "shown": lambda value, *_: repr(value(1, three="x")),
    "a property": lambda value, *_: value(1).both,
    "equal": lambda value, *_: (value(1) == value(1, []), value(1) == value(2), value(1) == (1, [], "3")),
    "hashed": lambda value, *_: len({value(1, (), "3"), value(1, (), "3"), value(2, ())}),
    "a default of its own": lambda value, *_: value(1).two is value(1).two,
    "too few": lambda value, *_: value(),
    "too many": lambda value, *_: value(1, [], "3", 4),
    "twice": lambda value, *_: value(1, one=1),
    "unknown": lambda value, *_: value(1, four=4),
    "frozen": lambda value, *_: setattr(value(1), "one", 2),
    "undeletable": lambda value, *_: delattr(value(1), "one"),
    "slots": lambda _, base, _below: setattr(base(named=1), "other", 2),
    "mutable": lambda _, base, _below: setattr(base(named=1), "named", 2),
    "mutable has no hash": lambda _, base, _below: hash(base(named=1)),
    "by name only": lambda _, _base, below: below(1),
    "inherited": lambda _, base, below: (repr(below(named=1)), below(named=1) == base(named=1)),
    "matched": lambda value, _base, below: (value.__match_args__, below.__match_args__),
    "replaced": lambda value, *_: repr(dataclasses.replace(value(1), one=2)),
    "as a mapping": lambda value, *_: dataclasses.asdict(value(1)),
    "names": lambda _value, _base, below: [one.name for one in dataclasses.fields(below)],
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_it_does_what_the_standard_library_does(name: str) -> None:
    ours, theirs = (outcome(lambda of=of: ATTEMPTS[name](*classes(of))) for of in (lean, dataclasses))  # type: ignore[misc]
    assert ours == theirs


def test_a_value_is_replaced_by_a_new_one() -> None:
    make = classes(lean)[0]
    before = make(1, [5])
    assert (lean.replace(before, one=2), before) == (make(2, [5]), make(1, [5]))
