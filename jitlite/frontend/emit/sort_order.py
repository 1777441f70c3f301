"""What can be sorted."""

from __future__ import annotations

from jitlite.base.errors.types import NOT_SORTABLE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


def needs_order(b: Builder, range: SourceRange, subject: Value) -> None:
    """Objects that are sorted are compared by `__lt__`."""
    t = subject.type.element if isinstance(subject.type, T.ListType) else None
    if t is not None and not _may_have_order(t):
        raise NOT_SORTABLE(
            f"values of type {t.annotation} are not sortable: only lists of Tensors, ints, floats, bools, strs, a "
            "class type that defines a __lt__ method or tuples of these are",
            range,
        )
    if not isinstance(t, T.ClassType) or t.definition is None:
        return
    definition = t.definition
    method = definition.method("__lt__")
    schema = None if method is None else definition.program.ready(method, range).schema
    if schema is None or len(schema.arguments) != 2 or schema.returns[0].type is not T.BOOL:
        raise NOT_SORTABLE(
            f"To sort a list of {t.annotation}, it must define a __lt__ method with two inputs of type "
            f"{t.annotation} that returns a bool",
            range,
        )


def _may_have_order(t: Type) -> bool:
    """Can values of the type be compared by `<` at all? Objects are looked at more closely."""
    if isinstance(t, T.TupleType):
        return all(map(_may_have_order, t.elements))
    return not (isinstance(t, T.DictType | T.UnionType | T.FutureType) or t in (T.COMPLEX, T.NONE, T.DEVICE))
