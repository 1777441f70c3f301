"""Small classes of fields, declared as dataclasses are.

`dataclass` writes and compiles methods for each class, which takes most of a module's import where it has dozens of
them. Records share their constructor and their comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, field
from operator import attrgetter
from typing import ClassVar, TypeVar

from typing_extensions import dataclass_transform


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
class Record:
    """Takes its fields in order or by name.

    Nobody changes a record, and each is equal to itself only. With `eq=True` behind the base class, records of equal
    fields are equal; with `frozen=False` they may be changed.
    """

    field_names: ClassVar[tuple[str, ...]] = ()
    _all_names: ClassVar[frozenset[str]] = frozenset()
    _factories: ClassVar[dict[str, Callable[[], object]]] = {}
    """What makes the defaults of fields that are not one object for all records."""
    _values: ClassVar[Callable[[object], object]]
    """Gives what is compared."""

    def __init_subclass__(cls, *, eq: bool = False, frozen: bool = True) -> None:
        own = tuple(name for name in cls.__annotations__ if name not in cls.field_names)
        factories = dict(cls._factories)
        for name in own:
            default = vars(cls).get(name)
            if isinstance(default, Field) and callable(default.default_factory):
                factories[name] = default.default_factory
                delattr(cls, name)
        cls.field_names += own
        cls._all_names = frozenset(cls.field_names)
        cls._factories = factories
        cls._values = attrgetter(*cls.field_names) if cls.field_names else type
        if eq:
            cls.__eq__ = _equals  # type: ignore[method-assign, assignment]
            cls.__hash__ = _hash_of if frozen else None  # type: ignore[method-assign, assignment]

    def __init__(self, *given: object, **named: object) -> None:
        fields = vars(self)
        fields.update(zip(self.field_names, given, strict=False))
        if named or len(given) != len(self.field_names):
            self._complete(len(given), named)

    def _complete(self, given: int, named: dict[str, object]) -> None:
        """Add the fields that are given by name, and the defaults made for this record.

        Raises:
            TypeError: where a field without a default is not given, or what is given is no field.
        """
        fields, cls = vars(self), type(self)
        fields.update(named)
        is_once = len(fields) == given + len(named)
        for name, make in self._factories.items():
            if name not in fields:
                fields[name] = make()
        if is_once and fields.keys() == self._all_names:
            return
        others, missing = fields.keys() - self._all_names, self._all_names - fields.keys()
        if others or not is_once or not all(hasattr(cls, name) for name in missing):
            raise TypeError(f"{cls.__name__} is made of {', '.join(self.field_names)}")

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
