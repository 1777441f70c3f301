"""Displays: lists, dicts, tuples and comprehensions, and the types they get from their elements or a hint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from jitlite.base.errors.types import EMPTY_CONTAINER, MIXED_ELEMENTS, NO_KEY
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.conditional_assignment import names_set_in
from jitlite.frontend.emit.conditions import emit_condition
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.empty_literals import as_elements, as_wanted
from jitlite.frontend.emit.interfaces import infer_results
from jitlite.frontend.emit.iteration import Body, emit_for
from jitlite.frontend.emit.known_keywords import KnownKeywords
from jitlite.frontend.emit.sequences import ListAsTuple, joined_list
from jitlite.frontend.emit.statements import emit_chosen
from jitlite.frontend.emit.values import SimpleValue, SugaredTuple, SugaredValue, SymbolicList
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import with_own_variables
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue

_C = TypeVar("_C", tree.ListComp, tree.DictComp)


@expression(tree.TupleLiteral)
def emit_tuple(em: Emitter, expr: tree.TupleLiteral, hint: Type | None) -> SugaredValue | Value:
    """A tuple of values, or of what is none; with a list spread in it, one of unknown length."""
    if any(isinstance(e, tree.Starred) for e in expr.elements):
        parts = em.emit_parts(expr.elements)
        if any(part.spread for part in parts):
            return ListAsTuple(joined_list(em, parts, expr.range))
        return em.make_tuple([part.value for part in parts])
    given = em.emit_arguments(expr.elements, functions=True)
    if any(isinstance(v.constant, SugaredValue) for v in given):
        return SugaredTuple([_sugared(em, v) for v in given])
    return em.make_tuple(_as_wanted_parts(em, [v.in_graph(em.graph) for v in given], hint, expr.range))


def _as_wanted_parts(em: Emitter, values: list[Value], hint: Type | None, range: SourceRange) -> list[Value]:
    """The elements of a tuple, empty literals of the types that a hint says."""
    wanted = None if hint is None else T.without_none(hint)
    if not isinstance(wanted, T.TupleType) or len(wanted.elements) != len(values):
        return values
    return [as_wanted(em, v, t, range) for v, t in zip(values, wanted.elements, strict=True)]


def _sugared(em: Emitter, given: NamedValue) -> SugaredValue:
    return given.constant if isinstance(given.constant, SugaredValue) else SimpleValue(given.in_graph(em.graph))


# -- lists
@expression(tree.ListLiteral)
def emit_list(em: Emitter, expr: tree.ListLiteral, hint: Type | None) -> SugaredValue | Value:
    if not any(isinstance(e, tree.Starred) for e in expr.elements):
        given = em.emit_arguments(expr.elements, functions=True)
        if any(isinstance(v.constant, SugaredValue) for v in given):
            return SymbolicList([_sugared(em, v) for v in given])
        values = [v.in_graph(em.graph) for v in given]
        return _list_of(em, values, hint, expr.range)
    parts = em.emit_parts(expr.elements)
    if any(part.spread for part in parts):
        return joined_list(em, parts, expr.range)
    return _list_of(em, [part.value for part in parts], hint, expr.range)


def _list_of(em: Emitter, values: Sequence[Value], hint: Type | None, range: SourceRange) -> Value:
    candidates = _candidates(hint, T.ListType, range)
    if not values:
        return _empty_list(em, candidates, hint, range)
    values = as_elements(em, values, candidates, range)
    common = T.unify_all([v.type for v in values], default_to_union=True)
    assert common is not None
    if not candidates:
        return em.note_display(_display(em, T.ListType.of(T.unshaped(common)), [], values, range))
    infer_results([common], candidates)
    fitting = [c for c in candidates if T.is_subtype(common, _element(c))]
    if not fitting and len(candidates) == 1:
        values = [_as_float(em, v, range) for v in values] if _element(candidates[0]) is T.FLOAT else values
        fitting = [c for c in candidates if all(T.is_subtype(v.type, _element(c)) for v in values)]
    if not fitting:
        raise _wrong_elements(hint, candidates, common, range)
    return _as_union(em, em.make_list(_element(_most_general(fitting, _element)), values), hint)


def _display(em: Emitter, found: Type, keys: Sequence[Value], values: Sequence[Value], range: SourceRange) -> Value:
    """A list or a dict, of the type that its elements have or, where more is put into it later, of another one."""
    wanted = em.display_type(found, range)
    element = wanted.contained[-1]
    if wanted is not found:
        values = [em.convert(element, v, range) for v in values]
    return em.make_dict(wanted, keys, values) if isinstance(wanted, T.DictType) else em.make_list(element, values)


def _empty_list(em: Emitter, candidates: Sequence[Type], hint: Type | None, range: SourceRange) -> Value:
    if not candidates:
        return em.empty(T.ListType.of(T.TENSOR), range)
    if len(candidates) > 1:
        raise _ambiguous("list", hint, candidates, range)
    return _as_union(em, em.make_list(_element(candidates[0]), []), hint)


def _candidates(hint: Type | None, constructor: type[Type], range: SourceRange) -> list[Type]:
    """The types of this constructor that a hint allows.

    Raises:
        CompileError: where the hint allows no display of this kind.
    """
    if hint is None or hint is T.ANY:
        return []
    found = [m for m in T.members_of(hint) if isinstance(m, constructor)]
    if not found and not any(m is T.ANY for m in T.members_of(hint)):
        kind = constructor.__name__.removesuffix("Type")
        if isinstance(hint, T.UnionType) and not isinstance(hint, T.OptionalType):
            text = f"Expected an Union type annotation with an inner {kind} type, but got {hint.annotation}"
        else:
            text = f"Expected an annotation of type {kind} but got {hint.annotation}"
        raise MIXED_ELEMENTS(text, range)
    return found


def _ambiguous(what: str, hint: Type | None, candidates: Sequence[Type], range: SourceRange) -> CompileError:
    annotation = "" if hint is None else hint.annotation
    return EMPTY_CONTAINER(
        f"Cannot assign an empty {what} to a variable annotated to be type {annotation} because there are multiple "
        f"possible {what.capitalize()} type candidates in the Union annotation",
        range,
        expected=_names(candidates),
        hint=f"give it a type first: `empty: {candidates[0].annotation} = {'[]' if what == 'list' else '{}'}`",
    )


def _wrong_elements(hint: Type | None, candidates: Sequence[Type], found: Type, range: SourceRange) -> CompileError:
    """The elements of a list are of none of the types that the annotation allows."""
    if len(candidates) == 1:
        text = f"List type annotation `{candidates[0].annotation}` did not match the types of the given list elements"
    else:
        annotation = "" if hint is None else hint.annotation
        text = (
            f"Union type annotation `{annotation}` can hold {_names(candidates)}, but none of those types match the "
            "types of the given list elements"
        )
    return MIXED_ELEMENTS(
        f"{text}, which were unified to {found.annotation}",
        range,
        expected=_names(candidates),
        found=T.ListType.of(found).annotation,
        hint="for elements of several types use a tuple, or annotate the list with a Union",
    )


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
def emit_dict(em: Emitter, expr: tree.DictLiteral, hint: Type | None) -> SugaredValue | Value:
    keys: list[Value] = []
    given: list[NamedValue] = []
    for key, value in zip(expr.keys, expr.values, strict=True):
        if isinstance(value, tree.KeywordStarred):
            return _emit_merged(em, expr, hint)
        keys.append(em.emit(key))
        given.append(em.argument(None, em.emit_sugared(value), value.range, True))
    if any(isinstance(v.constant, SugaredValue) for v in given):
        return _dict_of_functions(expr, [_sugared(em, v) for v in given])
    values = [v.in_graph(em.graph) for v in given]
    candidates = _candidates(hint, T.DictType, expr.range)
    if not keys:
        if len(candidates) > 1:
            raise _ambiguous("dict", hint, candidates, expr.range)
        if not candidates:
            return em.empty(T.DictType.of(T.STRING, T.TENSOR), expr.range)
        return _as_union(em, em.make_dict(candidates[0], [], []), hint)
    values = as_elements(em, values, candidates, expr.range)
    if len(candidates) == 1 and isinstance(candidates[0], T.DictType) and candidates[0].value is T.FLOAT:
        values = [_as_float(em, v, expr.range) for v in values]
    found = _dict_type(expr.range, [k.type for k in keys], [v.type for v in values])
    if not candidates:
        return em.note_display(_display(em, found, keys, values, expr.range))
    return _as_union(em, em.make_dict(_fitting_dict(expr.range, hint, candidates, found), keys, values), hint)


def _as_float(em: Emitter, value: Value, range: SourceRange) -> Value:
    """An int as an element of what holds floats."""
    return em.convert(T.FLOAT, value, range) if value.type is T.INT else value


def _emit_merged(em: Emitter, expr: tree.DictLiteral, hint: Type | None) -> Value:
    """`{**a, "k": 1}`: what stands in front, or a copy of the first dict, to which the others are added in order."""
    starred = [isinstance(v, tree.KeywordStarred) for v in expr.values]
    count = starred.index(True)
    others = list(zip(expr.keys, expr.values, strict=True))[max(count, 1) :]
    if count:
        start = tree.DictLiteral(expr.keys[:count], expr.values[:count], range=expr.range)
        result = em.emit(start, hint)
    else:
        first = expr.values[0]
        assert isinstance(first, tree.KeywordStarred)
        result = em.op("aten::dict", [em.emit(first.value)], range=expr.range)
    for key, value in others:
        if isinstance(value, tree.KeywordStarred):
            em.op("aten::update", [result, em.emit(value.value)], range=expr.range)
        else:
            em.op("aten::_set_item", [result, em.emit(key), em.emit(value)], range=expr.range)
    return result


def _dict_of_functions(expr: tree.DictLiteral, values: Sequence[SugaredValue]) -> SugaredValue:
    """A dict of functions, which is none of the graph: its keys have to be written out."""
    found: dict[str, SugaredValue] = {}
    for key, value in zip(expr.keys, values, strict=True):
        if not isinstance(key, tree.StringLiteral):
            raise MIXED_ELEMENTS.unsupported(
                "the keys of a dict of functions have to be written out, as strings", key.range
            )
        found[key.value] = value
    return KnownKeywords(found, "a dict of functions")


def _dict_type(range: SourceRange, keys: Sequence[Type], values: Sequence[Type]) -> T.DictType:
    key = T.unify_all(keys)
    value = T.unify_all(values, default_to_union=True)
    if key is None or value is None:
        raise MIXED_ELEMENTS(
            f"Dicts may only contain homogeneous keys, but the type of the first key was {keys[0].annotation}",
            range,
            found=" and ".join(sorted({k.annotation for k in keys})),
            hint="values that belong together and differ in type go into a NamedTuple, a dataclass or a tuple",
        )
    check_key_type(range, key)
    return T.DictType.of(T.unshaped(key), T.unshaped(value))


def check_key_type(range: SourceRange, key: Type) -> None:
    """Raise for a type that cannot key a dict."""
    if not T.may_be_key(T.unshaped(key)):
        raise NO_KEY(
            f"Dicts may only contain homogeneous keys, but the type of the first generated key was {key.annotation}, "
            "which cannot be the key of a dict",
            range,
            expected=f"{_names(T.DICT_KEYS)}, a member of an enum, or a tuple of these",
            found=key.annotation,
        )


def _fitting_dict(
    range: SourceRange, hint: Type | None, candidates: Sequence[Type], found: T.DictType, generated: bool = False
) -> Type:
    """The most general candidate that can hold the keys and values of a literal, or those a comprehension generated."""
    infer_results([found], candidates)
    fitting = [
        c
        for c in candidates
        if isinstance(c, T.DictType) and T.is_subtype(found.key, c.key) and T.is_subtype(found.value, c.value)
    ]
    if not fitting:
        raise MIXED_ELEMENTS(
            _wrong_dict(hint, candidates, found, generated),
            range,
            expected=_names(candidates),
            found=found.annotation,
        )
    return _most_general(fitting, lambda t: t.contained[1])


def _wrong_dict(hint: Type | None, candidates: Sequence[Type], found: T.DictType, generated: bool) -> str:
    wanted = candidates[0]
    assert isinstance(wanted, T.DictType)
    if len(candidates) > 1:
        annotation = "" if hint is None else hint.annotation
        return (
            f"Union type annotation `{annotation}` can hold {_names(candidates)}, but none of those dict types can "
            f"hold the types of the given keys and values, which were unified to {found.annotation}"
        )
    part = "value" if T.is_subtype(found.key, wanted.key) else "key"
    actual = found.value if part == "value" else found.key
    if generated:
        return (
            f"Dict type annotation `{wanted.annotation}` did not match the type of an actual {part} type "
            f"`{actual.annotation}`"
        )
    return (
        f"Type annotation was inferred to be `{wanted.annotation}`, but the type of {part}s given by the dict literal "
        f"is {actual.annotation}"
    )


# -- comprehensions
@expression(tree.ListComp)
def emit_list_comprehension(em: Emitter, expr: tree.ListComp, hint: Type | None) -> Value:
    expr, is_open = _with_variables_of_the_function(em, expr)
    candidates = _candidates(hint, T.ListType, expr.range)
    start = candidates[0] if len(candidates) == 1 else T.ListType.of(T.TENSOR)
    result = em.make_list(_element(start), [])
    seen: list[Type] = []

    def emit_body() -> None:
        (element,) = as_elements(em, [em.emit(expr.element)], candidates, expr.range)
        seen.append(element.type)
        common = T.unify_all(seen, default_to_union=True)
        assert common is not None
        infer_results([common], candidates)
        fitting = [c for c in candidates if T.is_subtype(common, _element(c))]
        if candidates and not fitting:
            raise _wrong_elements(hint, candidates, common, expr.element.range)
        found = em.display_type(T.ListType.of(T.unshaped(common)), expr.range)
        result.type = _most_general(fitting, _element) if fitting else found
        em.op("aten::append", [result, element], range=expr.range)

    _emit_all(em, expr, is_open, emit_body)
    return em.note_display(_as_union(em, result, hint if candidates else None))


@expression(tree.DictComp)
def emit_dict_comprehension(em: Emitter, expr: tree.DictComp, hint: Type | None) -> Value:
    expr, is_open = _with_variables_of_the_function(em, expr)
    candidates = _candidates(hint, T.DictType, expr.range)
    start = candidates[0] if len(candidates) == 1 else T.DictType.of(T.STRING, T.TENSOR)
    result = em.make_dict(start, [], [])
    keys: list[Type] = []
    values: list[Type] = []

    def emit_body() -> None:
        key = em.emit(expr.key)
        (value,) = as_elements(em, [em.emit(expr.value)], candidates, expr.range)
        keys.append(key.type)
        values.append(value.type)
        found = _dict_type(expr.range, keys, values)
        result.type = em.display_type(found, expr.range)
        if candidates:
            result.type = _fitting_dict(expr.range, hint, candidates, found, generated=True)
        em.op("aten::_set_item", [result, key, value], range=expr.range)

    _emit_all(em, expr, is_open, emit_body)
    return em.note_display(_as_union(em, result, hint if candidates else None))


def _with_variables_of_the_function(em: Emitter, expr: _C) -> tuple[_C, bool]:
    """A comprehension whose `:=` sets variables of the function; its own ones have names that no others have."""
    sets_outside = any(em.frame.is_defined(name) for name in names_set_in(expr))
    return (with_own_variables(expr, em.temporary("comprehension")) if sets_outside else expr), sets_outside


def _emit_all(em: Emitter, expr: tree.ListComp | tree.DictComp, is_open: bool, emit_body: Callable[[], None]) -> None:
    """The clauses of a comprehension, in a scope of its own unless it sets variables of the function."""
    clauses = [tree.ComprehensionFor(expr.target, expr.iterable, range=expr.range), *expr.clauses]
    if is_open:
        _emit_clauses(em, expr.range, clauses, emit_body)
        return
    node = em.node("prim::ComprehensionScope", [], [], expr.range)
    with em.inside(node.add_block()) as frame:
        frame.owned = {v.name.name for target in expr.targets for v in target.walk() if isinstance(v, tree.Var)}
        _emit_clauses(em, expr.range, clauses, emit_body)


def _emit_clauses(
    em: Emitter,
    range: SourceRange,
    clauses: Sequence[tree.ComprehensionFor | tree.ComprehensionIf],
    emit_body: Callable[[], None],
) -> None:
    """The loops and conditions of a comprehension, each inside of those before it."""
    if not clauses:
        emit_body()
        return
    first, *others = clauses
    if isinstance(first, tree.ComprehensionFor):
        body = Body(lambda: _emit_clauses(em, range, others, emit_body))
        emit_for(em, range, [first.target], first.iterable, body)
    else:
        condition = emit_condition(em, first.condition)
        emit_chosen(em, first.range, condition, lambda: _emit_clauses(em, range, others, emit_body), lambda: None)
