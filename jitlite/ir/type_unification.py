"""One type for several values, and types for a schema's variables. See `types.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from jitlite.ir.type_kinds import NONE, DictType, FutureType, ListType, TensorType, TupleType, Type, VarType
from jitlite.ir.type_relations import OptionalType, UnionType, is_subtype, unshaped, without_none


def unify(a: Type, b: Type, *, default_to_union: bool = False) -> Type | None:
    """The type of a value that is an `a` on one path and a `b` on another; None where TorchScript has none.

    With `default_to_union`, unrelated types give their union.
    """
    if a is b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return _merge_tensors(a, b)
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    if a is NONE or b is NONE:
        return OptionalType.of(b if a is NONE else a)
    found = _unify_parts(a, b)
    return UnionType.of([a, b]) if found is None and default_to_union else found


def _unify_parts(a: Type, b: Type) -> Type | None:
    """The type that is made of what the parts of both unify to; None where there is none."""
    if isinstance(a, OptionalType) or isinstance(b, OptionalType):
        inner = unify(without_none(a), without_none(b))
        return None if inner is None else OptionalType.of(inner)
    if isinstance(a, TupleType) and isinstance(b, TupleType):
        return _unify_tuples(a, b)
    if isinstance(a, FutureType) and isinstance(b, FutureType):
        element = unify(a.element, b.element)
        return None if element is None else FutureType.of(element)
    if isinstance(a, ListType | DictType) and unshaped(a) is unshaped(b):
        return unshaped(a)
    return None


def _unify_tuples(a: TupleType, b: TupleType) -> Type | None:
    if len(a.elements) != len(b.elements):
        return None
    parts = [unify(x, y) for x, y in zip(a.elements, b.elements, strict=True)]
    elements = [p for p in parts if p is not None]
    if len(elements) < len(parts):
        return None
    if a.names == b.names and a.qualified_name == b.qualified_name:
        return TupleType.of(elements, a.names, a.qualified_name, a.python_class, a.defaults)
    return TupleType.of(elements)


def _merge_tensors(a: TensorType, b: TensorType) -> TensorType:
    def agree(name: str) -> Any:
        x, y = getattr(a, name), getattr(b, name)
        return x if x == y else None

    def agree_each(name: str) -> Any:
        x, y = getattr(a, name), getattr(b, name)
        if x is None or y is None or len(x) != len(y):
            return None
        return tuple(p if p == q else None for p, q in zip(x, y, strict=True))

    sizes = agree_each("sizes")
    symbols = None if sizes is None or a.symbols is None or b.symbols is None else agree_each("symbols")
    return TensorType.of(agree("dtype"), sizes, agree("strides"), agree("device"), agree("requires_grad"), symbols)


def unify_all(types: Iterable[Type], *, default_to_union: bool = False) -> Type | None:
    """`unify` over several types; None for no types or where they do not unify."""
    result: Type | None = None
    for position, t in enumerate(types):
        result = t if position == 0 else unify(cast(Type, result), t, default_to_union=default_to_union)
        if result is None:
            return None
    return result


def has_variables(t: Type) -> bool:
    """Does a schema variable occur in the type?"""
    return isinstance(t, VarType) or any(has_variables(p) for p in t.contained)


def substitute(t: Type, bindings: dict[str, Type]) -> Type:
    """Put the bound types in place of variables; an unbound variable stays."""
    if isinstance(t, VarType):
        return bindings.get(t.name, t)
    parts = t.contained
    if not parts or not has_variables(t):
        return t
    return t.with_contained([substitute(p, bindings) for p in parts])


def _bind(variable: VarType, actual: Type, bindings: dict[str, Type]) -> str | None:
    bound = bindings.setdefault(variable.name, actual)
    if bound is actual or unify(bound, actual) is not None:
        return None
    return (
        f"type variable {variable.name} was previously matched to type {bound.annotation} but here "
        f"{actual.annotation} is given"
    )


def match_variables(formal: Type, actual: Type, bindings: dict[str, Type]) -> str | None:
    """Bind the variables of `formal` so that it fits `actual`; the reason where it cannot, else None.

    The first use of a variable decides. A later use must unify with it but does not change it: whether it is a subtype
    of what was decided is for the caller to test.
    """
    if isinstance(formal, VarType):
        return _bind(formal, actual, bindings)
    if not has_variables(formal):
        return None
    if isinstance(formal, OptionalType):
        if actual is NONE:
            return None
        return match_variables(formal.element, without_none(actual), bindings)
    if isinstance(formal, ListType) and isinstance(actual, TupleType):
        common = unify_all(actual.elements)
        if common is None:
            return f"a tuple of several types is no {formal.annotation}"
        return match_variables(formal.element, common, bindings)
    return _match_parts(formal, actual, bindings)


def _match_parts(formal: Type, actual: Type, bindings: dict[str, Type]) -> str | None:
    if type(formal) is type(actual) and len(formal.contained) == len(actual.contained):
        parts = zip(formal.contained, actual.contained, strict=True)
        return next(filter(None, (match_variables(f, a, bindings) for f, a in parts)), None)
    return f"{actual.annotation} is no {formal.annotation}"


def readable_list(t: Type) -> Type | None:
    """The type as which one of several lists can be read, of what any of them may hold; None for other types."""
    if not isinstance(t, UnionType) or not all(isinstance(m, ListType) for m in t.members):
        return None
    return ListType.of(UnionType.of([m.contained[0] for m in t.members]))
