"""Values of a pickle in the form that their types ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.types import ClassType, DictType, EnumType, InterfaceType, ListType, TupleType, Type
from jitlite.ir.values import class_type_of


class WrongType(Exception):
    """A value is of another type than it is to be; the text says what it is."""


def _is(*classes: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, classes)


_SIMPLE: dict[Type, Callable[[object], bool]] = {
    T.NONE: lambda value: value is None, T.BOOL: _is(bool), T.STRING: _is(str), T.TENSOR: _is(torch.Tensor),
    T.INT: lambda value: isinstance(value, int) and not isinstance(value, bool),
    T.FLOAT: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    T.COMPLEX: _is(complex, float, int), T.NUMBER: _is(complex, float, int), T.DEVICE: _is(torch.device),
}  # fmt: skip


class Shaper:
    """Checks values and makes named tuples of tuples. Lists and dicts stay the objects that they are.

    A value that occurs in many places is looked at once, so that the time is that of the size of the pickle.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, Type], tuple[object, object]] = {}

    def shaped(self, value: object, wanted: Type) -> Any:
        """The value, or the named tuple that it stands for.

        Raises:
            WrongType: it is of another type.
        """
        simple = _SIMPLE.get(wanted)
        if simple is not None:
            if not simple(value):
                raise WrongType(_shown(value))
            return value
        if wanted is T.ANY:
            return value
        known = self._known.get((id(value), wanted))
        if known is None:
            if isinstance(value, list | dict):  # which may hold itself
                self._known[id(value), wanted] = value, value
            known = self._known[id(value), wanted] = value, self._parts(value, wanted)
        return known[1]

    def _parts(self, value: object, wanted: Type) -> Any:
        if isinstance(wanted, T.UnionType):
            return self._member(value, wanted)
        if isinstance(wanted, ListType) and isinstance(value, list):
            for index, element in enumerate(value):
                value[index] = self.shaped(element, wanted.element)
            return value
        if isinstance(wanted, DictType) and isinstance(value, dict):
            for key, element in value.items():
                self.shaped(key, wanted.key)
                value[key] = self.shaped(element, wanted.value)
            return value
        if isinstance(wanted, TupleType) and isinstance(value, tuple) and len(value) == len(wanted.elements):
            parts = [self.shaped(part, t) for part, t in zip(value, wanted.elements, strict=True)]
            return wanted.python_class(*parts) if wanted.names and wanted.python_class else tuple(parts)
        if _is_object(value, wanted):
            return value
        raise WrongType(_shown(value))

    def _member(self, value: object, wanted: T.UnionType) -> Any:
        for member in T.members_of(wanted):
            try:
                return self.shaped(value, member)
            except WrongType:
                continue
        raise WrongType(_shown(value))


def _is_object(value: object, wanted: Type) -> bool:
    if isinstance(wanted, ClassType):
        if wanted.definition is None:  # a class in C++
            return not isinstance(value, list | dict | tuple | int | float | str | torch.nn.Module)
        return class_type_of(value) is wanted
    if isinstance(wanted, InterfaceType):
        found = class_type_of(value)
        return isinstance(found, ClassType) and all(name in found.methods for name in wanted.methods)
    if isinstance(wanted, EnumType):
        return isinstance(value, wanted.python_class)
    return not isinstance(wanted, ListType | DictType | TupleType)


def _shown(value: object) -> str:
    found = class_type_of(value)
    return f"an object of {found.annotation}" if found is not None else f"a {type(value).__name__}"
