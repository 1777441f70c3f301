"""Small classes of fields, declared as dataclasses are.

`dataclass` writes and compiles methods for each class, which takes most of a module's import where it has dozens of
them. Records share their constructor and their comparison, which take twice as long as generated ones: what every
statement of a program makes some of stays a dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from typing_extensions import dataclass_transform


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
class Record:
    """Takes its fields in order or by name.

    Nobody changes a record, and each is equal to itself only. With `eq=True` behind the base class, records of equal
    fields are equal; with `frozen=False` they may be changed.
    """

    field_names: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, object]] = {}
    _factories: ClassVar[dict[str, Any]] = {}
    """What makes the defaults of fields that are not one object for all records."""
    _values: ClassVar[Callable[[object], object]]
    """Gives what is compared."""

    def __init_subclass__(cls, *, eq: bool = False, frozen: bool = True) -> None:
        names = [name for name in cls.__annotations__ if name not in cls.field_names]
        given = {name: vars(cls)[name] for name in names if name in vars(cls)}
        made = {name: default.default_factory for name, default in given.items() if isinstance(default, Field)}
        for name in made:
            delattr(cls, name)
        cls.field_names += tuple(names)
        cls._defaults = {**cls._defaults, **{name: given[name] for name in given if name not in made}}
        cls._factories = {**cls._factories, **made}
        cls._values = attrgetter(*cls.field_names) if cls.field_names else type
        if eq:
            cls.__eq__ = _equals  # type: ignore[method-assign, assignment]
            cls.__hash__ = _hash_of if frozen else None  # type: ignore[method-assign, assignment]

    def __init__(self, *given: object, **named: object) -> None:
        """
        Raises:
            TypeError: where a field without a default is not given, or something is no field. That one is given twice
                is left to type checkers.
        """
        fields, names = self.__dict__, self.field_names
        if named or len(given) != len(names):
            fields.update(self._defaults)
            if self._factories:
                fields.update((name, make()) for name, make in self._factories.items() if name not in named)
            fields.update(named)
        fields.update(zip(names, given))  # noqa: B905 (to say `strict` takes as long as all else)
        if len(fields) != len(names) or len(given) > len(names):
            raise TypeError(f"{type(self).__name__} is made of {', '.join(names)}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.field_names)
        return f"{type(self).__name__}({shown})"


def _equals(self: Record, other: object) -> bool:
    cls = type(self)
    return type(other) is cls and cls._values(self) == cls._values(other)


def _hash_of(self: Record) -> int:
    return hash(type(self)._values(self))


_R = TypeVar("_R", bound=Record)


def replace(record: _R, **changes: object) -> _R:
    """A record that differs in these fields."""
    fields = {name: getattr(record, name) for name in record.field_names}
    return type(record)(**{**fields, **changes})
