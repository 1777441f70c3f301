"""Lists and dicts that keep to one type, for programs that fill them in Python and hand them to scripts.

Scripts work on the caller's own lists and dicts, so plain ones serve as well; these tell of a wrong element where it
is put in, and not only where a script is called.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar

from jitlite.interpreter.binding import bind_value
from jitlite.ir import types as T
from jitlite.ir.types import Type
from jitlite.ir.values import type_of_value

E = TypeVar("E")
K = TypeVar("K")


def _checked(t: Type, value: object, what: str) -> Any:
    try:
        return bind_value(t, value, what)
    except RuntimeError as error:
        raise TypeError(str(error)) from None


class ScriptList(list[E]):
    """A list whose elements are of the type of those it was made from; an empty one takes the type of the first.

    Everything that names an element raises TypeError where it is of another type, so `in` does too.
    """

    def __init__(self, elements: Iterable[E] = ()) -> None:
        self._element: Type | None = None
        super().__init__()
        self.extend(elements)

    @property
    def type(self) -> Type | None:
        """The list's type, None where it has never had an element."""
        return None if self._element is None else T.ListType.of(self._element)

    def _fitting(self, elements: Iterable[object]) -> list[Any]:
        new = list(elements)
        if self._element is None and new:
            found = type_of_value(new)
            assert isinstance(found, T.ListType)
            self._element = found.element
        return new if self._element is None else [_checked(self._element, e, "an element of the list") for e in new]

    def append(self, element: E) -> None:
        super().extend(self._fitting([element]))

    def extend(self, elements: Iterable[E]) -> None:
        super().extend(self._fitting(elements))

    def insert(self, index: SupportsIndex, element: E) -> None:
        super().insert(index, *self._fitting([element]))

    def __iadd__(self, elements: Iterable[E]) -> ScriptList[E]:  # type: ignore[override,misc]
        self.extend(elements)
        return self

    def __setitem__(self, index: Any, new: Any) -> None:
        if isinstance(index, slice):
            super().__setitem__(index, self._fitting(new))
        else:
            super().__setitem__(index, self._fitting([new])[0])

    def remove(self, element: E) -> None:
        super().remove(*self._like([element]))

    def count(self, element: E) -> int:
        return super().count(*self._like([element]))

    def index(self, element: E, *bounds: SupportsIndex) -> int:
        return super().index(*self._like([element]), *bounds)

    def __contains__(self, element: object) -> bool:
        return super().__contains__(*self._like([element]))

    def _like(self, asked: list[object]) -> list[Any]:
        """An element that is asked for, checked; an empty list holds none of any type."""
        return asked if self._element is None else self._fitting(asked)

    def __reduce__(self) -> Any:
        return ScriptList, (list(self),)


class ScriptDict(dict[K, E]):
    """A dict whose keys and values are of the types of those it was made from; an empty one takes those of the first.

    A key or value of another type raises TypeError; `in` raises KeyError for such a key, as torch.jit's dict does.
    """

    def __init__(self, entries: object = ()) -> None:
        self._types: tuple[Type, Type] | None = None
        super().__init__()
        self.update(entries)

    @property
    def type(self) -> Type | None:
        """The dict's type, None where it has never had an entry."""
        return None if self._types is None else T.DictType.of(*self._types)

    def _key(self, key: object) -> Any:
        return key if self._types is None else _checked(self._types[0], key, "a key of the dict")

    def __setitem__(self, key: K, value: E) -> None:
        self.update({key: value})

    def update(self, entries: Any = (), **more: Any) -> None:
        new: dict[Any, Any] = dict(entries, **more)
        if self._types is None and new:
            found = type_of_value(new)
            assert isinstance(found, T.DictType)
            self._types = found.key, found.value
        if self._types is not None:
            value_type = self._types[1]
            new = {self._key(k): _checked(value_type, v, "a value of the dict") for k, v in new.items()}
        super().update(new)

    def setdefault(self, key: K, default: Any = None) -> E:
        if super().__contains__(self._key(key)):
            return self[key]
        self[key] = default
        return self[key]

    def __ior__(self, entries: object) -> ScriptDict[K, E]:  # type: ignore[override,misc]
        self.update(entries)
        return self

    def __delitem__(self, key: K) -> None:
        super().__delitem__(self._key(key))

    def __contains__(self, key: object) -> bool:
        try:
            return super().__contains__(self._key(key))
        except TypeError:
            raise KeyError(key) from None

    def __reduce__(self) -> Any:
        return ScriptDict, (dict(self),)
