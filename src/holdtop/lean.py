"""``dataclass``, ``field`` and ``replace`` at a price that every start can pay.

The standard library's decorator writes and compiles six functions for each class, and imports ``inspect`` for it: for
the fifty classes of a hold that was half of its start. These share one set of functions. A type checker sees the
standard library's own; ``dataclasses.replace``, ``fields`` and ``asdict`` work, and pay then. All have slots.
"""

from __future__ import annotations

__all__ = ["dataclass", "field", "replace"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
else:

    class _Fresh:
        """A default that is made anew for each instance."""

        def __init__(self, make):
            self.make = make

    class _Introspection:
        """``__dataclass_fields__``, from a twin that the standard library makes when somebody asks."""

        def __get__(self, instance, owner):
            import dataclasses

            defaults = {
                name: dataclasses.field(default_factory=default.make) if isinstance(default, _Fresh) else default
                for name, default in owner._fields.items()
                if default is not _REQUIRED
            }
            body = {"__annotations__": dict.fromkeys(owner._fields, object), **defaults}
            return dataclasses.dataclass(kw_only=True)(type(owner.__name__, (), body)).__dataclass_fields__

    _REQUIRED = object()

    def field(*, default_factory):
        return _Fresh(default_factory)

    def replace(value, /, **changes):
        return type(value)(**{name: getattr(value, name) for name in value._fields} | changes)

    def dataclass(*, slots, frozen=False, kw_only=False):
        assert slots

        def made(cls):
            body = dict(vars(cls))
            own = {name: body.pop(name, _REQUIRED) for name in body.get("__annotations__", ())}
            fields = {**getattr(cls, "_fields", {}), **own}
            for name in ("__dict__", "__weakref__"):
                body.pop(name, None)
            body |= _FROZEN if frozen else _SHARED
            body |= {"__qualname__": cls.__qualname__, "__slots__": tuple(own), "_fields": fields}
            return type(cls)(cls.__name__, cls.__bases__, body | {"__match_args__": () if kw_only else tuple(fields)})

        return made

    def _init(self, *values, **named):
        if not values and named.keys() == self._fields.keys():  # as whoever reads thousands of them says it
            for name, value in named.items():
                object.__setattr__(self, name, value)
            return
        if len(values) > len(self.__match_args__):
            raise TypeError(f"{type(self).__name__} takes {len(self.__match_args__)} positional arguments")
        for name, value in zip(self.__match_args__, values, strict=False):
            if name in named:
                raise TypeError(f"{type(self).__name__} has got two values for {name!r}")
            named[name] = value
        for name, default in self._fields.items():
            value = named.pop(name, default)
            if value is _REQUIRED:
                raise TypeError(f"{type(self).__name__} needs {name!r}")
            object.__setattr__(self, name, value.make() if type(value) is _Fresh else value)
        if named:
            raise TypeError(f"{type(self).__name__} has no {', '.join(named)}")

    def _values(self):
        return tuple([getattr(self, name) for name in self._fields])

    def _repr(self):
        said = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._fields)
        return f"{type(self).__qualname__}({said})"

    def _eq(self, other):
        return _values(self) == _values(other) if type(self) is type(other) else NotImplemented

    def _hash(self):
        return hash(_values(self))

    def _refuse(self, name, *_value):
        raise AttributeError(f"{type(self).__name__} is frozen: {name!r} cannot be changed")

    _SHARED = {
        "__init__": _init,
        "__repr__": _repr,
        "__eq__": _eq,
        "__hash__": None,
        "__dataclass_fields__": _Introspection(),
    }
    _FROZEN = {**_SHARED, "__hash__": _hash, "__setattr__": _refuse, "__delattr__": _refuse}
