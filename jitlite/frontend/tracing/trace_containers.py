"""Lists, tuples and dicts in a trace: as arguments of compiled functions, and as results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.tracing.trace_values import tuple_type
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


def is_container(argument: object, t: Type) -> bool:
    """Is the argument a container of the kind that the type is?"""
    if isinstance(argument, dict):
        return isinstance(t, T.DictType)
    return isinstance(argument, list | tuple) and isinstance(t, T.ListType | T.TupleType)


class Containers:
    """Makes them of their elements.

    Args:
        constant: inserts a constant.
    """

    def __init__(self, builder: Builder, constant: Callable[[Any], Value]) -> None:
        self._builder = builder
        self._constant = constant

    def argument(self, argument: Any, t: Type, value_of: Callable[[Any, Type], Value | None]) -> Value | None:
        """The value of what `is_container`; None where an element has none."""
        if isinstance(t, T.DictType):
            made = _all_of([value_of(v, t.value) for v in argument.values()])
            return None if made is None else self._builder.make_dict(t, [self._constant(k) for k in argument], made)
        types = t.contained if isinstance(t, T.TupleType) else t.contained * len(argument)
        made = _all_of([value_of(a, part) for a, part in zip(argument, types, strict=True)])
        if made is None:
            return None
        return (
            self._builder.make_tuple(made, t)
            if isinstance(t, T.TupleType)
            else self._builder.make_list(t.contained[0], made)
        )

    def result(
        self, result: object, value_of: Callable[[Any], Value], common: Callable[[Sequence[Value], str], Type]
    ) -> Value | None:
        """The value of a list, tuple or dict that a trace gives; None for anything else.

        Args:
            common: the type of the elements of a list or dict.
        """
        if isinstance(result, tuple):
            parts = [value_of(r) for r in result]
            return self._builder.make_tuple(parts, tuple_type(result, [p.type for p in parts]))
        if isinstance(result, list):
            parts = [value_of(r) for r in result]
            return self._builder.make_list(common(parts, "list"), parts)
        if isinstance(result, dict):
            keys = [self._constant(k) for k in result]
            parts = [value_of(r) for r in result.values()]
            key = common(keys, "dict") if keys else T.STRING
            return self._builder.make_dict(T.DictType.of(key, common(parts, "dict")), keys, parts)
        return None


def _all_of(values: Sequence[Value | None]) -> list[Value] | None:
    made = [v for v in values if v is not None]
    return made if len(made) == len(values) else None
