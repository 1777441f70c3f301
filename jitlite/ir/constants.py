"""Which Python values can be constants of a graph, and their types."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch

from jitlite.ir import types as T
from jitlite.ir.code_text import is_identifier
from jitlite.ir.types import Type

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
"""The ints that TorchScript's files and torch's operators can hold."""

_SCALARS: dict[type, Type] = {
    bool: T.BOOL, int: T.INT, float: T.FLOAT, complex: T.COMPLEX, str: T.STRING, type(None): T.NONE,
    torch.dtype: T.INT, torch.layout: T.INT, torch.memory_format: T.INT, torch.qscheme: T.INT, torch.device: T.DEVICE,
    torch.Stream: T.STREAM, torch.Generator: T.GENERATOR,
}  # fmt: skip
"""Types of values that have no parts. dtypes, layouts and memory formats are ints to TorchScript."""


class QualifiedClassName(str):
    """The qualified name of a class that carries the class itself, so that a local class can be found at run time."""

    __slots__ = ("python_class",)
    python_class: type

    def __new__(cls, name: str, python_class: type) -> QualifiedClassName:
        made = super().__new__(cls, name)
        made.python_class = python_class
        return made

    def __getnewargs__(self) -> tuple[str, type]:  # type: ignore[override]
        return str(self), self.python_class


def type_of_constant(value: object) -> Type | None:
    """The type of a value that can be a constant, else None. An empty list is a List[Tensor], as in TorchScript."""
    simple = _SCALARS.get(type(value))
    if simple is not None:
        return simple
    if isinstance(value, torch.Tensor):
        return T.TENSOR
    if isinstance(value, QualifiedClassName):
        return T.STRING
    if isinstance(value, enum.Enum):
        return enum_type(type(value))
    if isinstance(value, list):
        return _list_type(value)
    if isinstance(value, dict):
        return _dict_type(value)
    if isinstance(value, tuple):
        return _tuple_type(value)
    return _set_type(value) if isinstance(value, set | frozenset) else None


def _set_type(value: set[object] | frozenset[object]) -> Type | None:
    element = _common_type(list(value)) if value else T.STRING
    return None if element is None else T.SetType.of(element, isinstance(value, frozenset))


def _list_type(value: list[object]) -> Type | None:
    element = _common_type(value) if value else T.TENSOR
    return None if element is None else T.ListType.of(element)


def _dict_type(value: dict[object, object]) -> Type | None:
    if not value:
        return T.DictType.of(T.STRING, T.TENSOR)
    key, element = _common_type(list(value)), _common_type(list(value.values()))
    return None if key is None or element is None else T.DictType.of(key, element)


def plain_tuple(value: tuple[object, ...]) -> tuple[Any, ...]:
    """The elements of a tuple, whatever its class makes of `len`, iteration and indices."""
    return value if type(value) is tuple else tuple.__getitem__(value, slice(None))


def _tuple_type(value: tuple[object, ...]) -> Type | None:
    elements = [type_of_constant(v) for v in plain_tuple(value)]
    if any(e is None for e in elements):
        return None
    known = [e for e in elements if e is not None]
    if type(value) is tuple:
        return T.TupleType.of(known)
    names = getattr(type(value), "_fields", None)
    if names is None:
        return T.TupleType.of(known) if isinstance(value, torch.Size) else None
    return T.TupleType.of(known, names, qualified_name(type(value)), type(value))


def _common_type(values: list[object]) -> Type | None:
    types = [type_of_constant(v) for v in values]
    if any(t is None for t in types):
        return None
    return T.unify_all([t for t in types if t is not None])


def attribute_or_none(found: object, name: str) -> Any:
    """An attribute; None where there is none, in whatever way the object says so."""
    try:
        return getattr(found, name, None)
    except Exception:  # of a user's `__getattr__`
        return None


def module_name(found: object) -> str:
    """The module that a class or function says it is from; generated code often says None, which is "" here."""
    name = getattr(found, "__module__", None)
    return name if isinstance(name, str) else ""


def qualified_name(cls: type) -> str:
    """The TorchScript name of a Python class: `__torch__.module.Class`."""
    name = cls.__qualname__.replace("<locals>.", "").replace("<", "").replace(">", "")
    module = module_name(cls)
    return f"__torch__.{name}" if module in ("", "__main__") else f"__torch__.{module}.{name}"


def enum_type(cls: type[enum.Enum]) -> Type | None:
    """The type of a Python Enum; None where its members' values have no common type."""
    value_type = _common_type([member.value for member in cls])
    return None if value_type is None else T.EnumType.of(qualified_name(cls), cls, value_type)


def made_enum(name: str, members: Sequence[tuple[str, object]], module: str) -> type[enum.Enum]:
    """The Enum that a text declares. Members of one value are one member, as in Python.

    Raises:
        ValueError: a name is given twice, or is one that enums keep for themselves (`_order_`, `__new__`, `mro`).
    """
    names: set[str] = set()
    for member, _ in members:
        is_kept = member == "mro" or (member.startswith("_") and member.endswith("_"))
        if is_kept or not is_identifier(member):
            raise ValueError(f"an Enum has no member {member!a}")
        if member in names:
            raise ValueError(f"the member {member!a} is defined twice")
        names.add(member)
    make: Any = enum.Enum
    made: type[enum.Enum] = make(name, list(members), module=module)
    return made
