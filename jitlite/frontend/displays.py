"""Displays: lists, dicts, tuples and comprehensions, and the types they get from their elements or a hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.frontend import tree
from jitlite.frontend.emitter import Emitter, expression
from jitlite.frontend.iteration import Body, emit_for
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.source import CompileError, SourceRange


@expression(tree.TupleLiteral)
def emit_tuple(em: Emitter, expr: tree.TupleLiteral, hint: Type | None) -> Value:
    return em.make_tuple([v.in_graph(em.graph) for v in em.emit_arguments(expr.elements)])


# -- lists
@expression(tree.ListLiteral)
def emit_list(em: Emitter, expr: tree.ListLiteral, hint: Type | None) -> Value:
    values = [v.in_graph(em.graph) for v in em.emit_arguments(expr.elements)]
    candidates = _candidates(hint, T.ListType)
    if not values:
        if hint is None or hint is T.ANY or not candidates:
            # may still become a list of another type as an argument of a call; `Emitter` settles the rest
            empty = em.node("prim::EmptyListLiteral", [], [T.ListType.of(T.TENSOR)], expr.range).output
            em.empty_lists.append(empty)
            return empty
        if len(candidates) > 1:
            raise CompileError(
                f"an empty list may be any of {_names(candidates)} here", expr.range, hint="annotate a variable first"
            )
        return _as_union(em, em.make_list(_element(candidates[0]), []), hint)
    common = T.unify_all([v.type for v in values], default_to_union=True)
    assert common is not None
    if not candidates:
        return em.make_list(T.unshaped(common), values)
    fitting = [c for c in candidates if T.is_subtype(common, _element(c))]
    if not fitting:
        raise CompileError(
            f"List type annotation did not match the types of the given list elements, which were unified to "
            f"{common.annotation}",
            expr.range,
            expected=_names(candidates),
            found=T.ListType.of(common).annotation,
        )
    return _as_union(em, em.make_list(_element(_most_general(fitting, _element)), values), hint)


def _candidates(hint: Type | None, constructor: type) -> list[Type]:
    """The types of this constructor that a hint allows."""
    return [] if hint is None else [m for m in T.members_of(hint) if isinstance(m, constructor)]


def _element(t: Type) -> Type:
    assert isinstance(t, T.ListType)
    return t.element


def _names(types: Sequence[Type]) -> str:
    return " or ".join(t.annotation for t in types)


def _most_general(types: Sequence[Type], part: Callable[[Type], Type]) -> Type:
    best = types[0]
    for t in types[1:]:
        if T.is_subtype(part(best), part(t)):
            best = t
    return best


def _as_union(em: Emitter, value: Value, hint: Type | None) -> Value:
    """A display under a Union annotation has that union's type."""
    return em.cast(value, hint) if isinstance(hint, T.UnionType) else value


# -- dicts
@expression(tree.DictLiteral)
def emit_dict(em: Emitter, expr: tree.DictLiteral, hint: Type | None) -> Value:
    keys: list[Value] = []
    values: list[Value] = []
    for key, value in zip(expr.keys, expr.values, strict=True):
        keys.append(em.emit(key))
        values.append(em.emit(value))
    candidates = _candidates(hint, T.DictType)
    if not keys:
        if len(candidates) > 1:
            raise CompileError(f"an empty dict may be any of {_names(candidates)} here", expr.range)
        t = candidates[0] if candidates else T.DictType.of(T.STRING, T.TENSOR)
        return _as_union(em, em.make_dict(t, [], []), hint if candidates else None)
    found = _dict_type(expr.range, [k.type for k in keys], [v.type for v in values])
    if not candidates:
        return em.make_dict(found, keys, values)
    return _as_union(em, em.make_dict(_fitting_dict(expr.range, candidates, found), keys, values), hint)


def _dict_type(range: SourceRange, keys: Sequence[Type], values: Sequence[Type]) -> T.DictType:
    key = T.unify_all(keys)
    value = T.unify_all(values, default_to_union=True)
    if key is None or value is None:
        raise CompileError(
            "Dicts may only contain homogeneous keys", range, found=" and ".join(sorted({k.annotation for k in keys}))
        )
    check_key_type(range, key)
    return T.DictType.of(T.unshaped(key), T.unshaped(value))


def check_key_type(range: SourceRange, key: Type) -> None:
    """Raise for a type that cannot key a dict."""
    if T.unshaped(key) not in T.DICT_KEYS:
        raise CompileError(
            "this type cannot be the key of a dict", range,
            expected=_names(T.DICT_KEYS), found=key.annotation,
        )  # fmt: skip


def _fitting_dict(range: SourceRange, candidates: Sequence[Type], found: T.DictType) -> Type:
    fitting = [
        c
        for c in candidates
        if isinstance(c, T.DictType) and T.is_subtype(found.key, c.key) and T.is_subtype(found.value, c.value)
    ]
    if not fitting:
        raise CompileError(
            "Dict type annotation did not match the types of the given keys and values",
            range,
            expected=_names(candidates),
            found=found.annotation,
        )
    return _most_general(fitting, lambda t: t.contained[1])


# -- comprehensions
@expression(tree.ListComp)
def emit_list_comprehension(em: Emitter, expr: tree.ListComp, hint: Type | None) -> Value:
    candidates = _candidates(hint, T.ListType)
    start = candidates[0] if len(candidates) == 1 else T.ListType.of(T.TENSOR)
    result = em.make_list(_element(start), [])
    seen: list[Type] = []

    def emit_body() -> None:
        element = em.emit(expr.element)
        seen.append(element.type)
        common = T.unify_all(seen, default_to_union=True)
        assert common is not None
        fitting = [c for c in candidates if T.is_subtype(common, _element(c))]
        if candidates and not fitting:
            raise CompileError(
                f"List type annotation did not match the types of the given list elements, which were unified to "
                f"{common.annotation}",
                expr.element.range,
                expected=_names(candidates),
                found=T.ListType.of(common).annotation,
            )
        result.type = _most_general(fitting, _element) if fitting else T.ListType.of(T.unshaped(common))
        em.op("aten::append", [result, element], range=expr.range)

    _in_scope_of_its_own(em, expr, emit_body)
    return _as_union(em, result, hint if candidates else None)


@expression(tree.DictComp)
def emit_dict_comprehension(em: Emitter, expr: tree.DictComp, hint: Type | None) -> Value:
    candidates = _candidates(hint, T.DictType)
    start = candidates[0] if len(candidates) == 1 else T.DictType.of(T.STRING, T.TENSOR)
    result = em.make_dict(start, [], [])
    keys: list[Type] = []
    values: list[Type] = []

    def emit_body() -> None:
        key, value = em.emit(expr.key), em.emit(expr.value)
        keys.append(key.type)
        values.append(value.type)
        found = _dict_type(expr.range, keys, values)
        result.type = _fitting_dict(expr.range, candidates, found) if candidates else found
        em.op("aten::_set_item", [result, key, value], range=expr.range)

    _in_scope_of_its_own(em, expr, emit_body)
    return _as_union(em, result, hint if candidates else None)


def _in_scope_of_its_own(em: Emitter, expr: tree.ListComp | tree.DictComp, emit_body: Callable[[], None]) -> None:
    node = em.node("prim::ComprehensionScope", [], [], expr.range)
    with em.inside(node.add_block()):
        emit_for(em, expr.range, [expr.target], expr.iterable, Body(emit_body))
