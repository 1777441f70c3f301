"""Containers that are more than values of a graph: sets that are written out, and global lists, dicts and sets.

They hold what is known while a program is compiled: constants, and functions too. Of a global one that is what it held
then, as for other globals. They can be asked for an element, for membership and for their length, and gone through. A
set that is written out is a new one where it is a value. A global list, dict or set is no value: it would be a copy,
and who changes or compares it would see that. Nobody changes a frozenset, so a global one is a constant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

from jitlite.base.errors.names import NOT_A_VALUE, PYTHON_ERROR, PYTHON_ONLY
from jitlite.base.errors.types import MIXED_ELEMENTS, NO_INDEX
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.chosen_parts import chosen_part
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.expressions import is_one_of
from jitlite.frontend.emit.meanings import Meaning, plain_constant
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.emit.sets import (
    NEW,
    SetMethod,
    as_element,
    checked_element,
    element_type,
    hinted,
    iterable_value,
    method_of_set,
    set_of,
)
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import type_of_constant
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type
from jitlite.operators.conversions import is_empty_literal
from jitlite.operators.overloads import NamedValue


def _contains(b: Builder, range: SourceRange, item: Value, elements: Sequence[Value]) -> Value:
    assert isinstance(b, Emitter)
    none = tree.NoneLiteral(range=range)
    return is_one_of(b, tree.BinOp("in", none, none, range=range), item, elements)


_Frozen = frozenset[object]


class SetValue(SugaredValue):
    """A set that is written out.

    Something may be in it or not, which needs no set. Elsewhere it is a new one.

    Args:
        elements: what is in it.
        hint: the type that it is expected to have.
        source: the frozenset that Python makes it from, if it has three elements or more and all are constants.
    """

    kind = "a set"
    is_made_anew = True

    def __init__(self, elements: Sequence[Value], hint: Type | None = None, source: _Frozen | None = None) -> None:
        self.elements = list(elements)
        self.hint = hint
        self.source = source

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        if self.source is None:
            return set_of(b, self.elements, self.hint, range)
        return b.op(NEW, [self._constant(b, range, self.source)], range=range)

    def _constant(self, b: Builder, range: SourceRange, source: _Frozen) -> Value:
        element = element_type([v.type for v in self.elements], self.hint, range)
        for value in self.elements:
            as_element(b, value, element, range)
        return b.constant(source, range, T.SetType.of(element, frozen=True))

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).iterate(b, range)

    def looped(self, b: Builder, range: SourceRange) -> SugaredValue:
        """What a loop over the display itself goes through: of constants, the frozenset."""
        found = self.as_value(b, range) if self.source is None else self._constant(b, range, self.source)
        return SimpleValue(found).iterate(b, range)

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return self.iterate(b, range).as_tuple(b, range, size)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return SimpleValue(self.as_value(b, range)).attr(b, range, name)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        if isinstance(T.without_none(item.type), T.ListType | T.DictType):
            checked_element(item.type, range)
        return _contains(b, range, item, self.elements)


@expression(tree.SetLiteral)
def emit_set(em: Emitter, expr: tree.SetLiteral, hint: Type | None) -> SugaredValue:
    if any(isinstance(e, tree.Starred) for e in expr.elements):
        return SimpleValue(_emit_joined(em, expr, hint))
    elements = [v.in_graph(em.graph) for v in em.emit_arguments(expr.elements)]
    for element in elements:
        checked_element(T.unshaped(element.type), expr.range)
    written_out = all(map(_is_written_out, expr.elements)) and all(map(is_constant, elements))
    if len(elements) < 3 or not written_out:
        return SetValue(elements, hint)
    return SetValue(elements, hint, _frozen_constant(em, map(constant_of, elements)))


def _frozen_constant(em: Emitter, values: Iterable[object]) -> _Frozen:
    """The frozenset that Python's compiler makes of constants.

    The order of its elements depends on the compiler and on where the code was read from, so the function's own code is
    asked for it. Where there is none, it is made as the compiler does: of what it goes through in another one.
    """
    wanted = frozenset(values)
    function = em.resolver.function if isinstance(em.resolver, FunctionResolver) else None
    same = (f for f in _frozensets(function.__code__) if _spelled(f) == _spelled(wanted)) if function else ()
    return next(iter(same), frozenset(tuple(wanted)))


def _frozensets(code: CodeType) -> Iterator[_Frozen]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _frozensets(constant)
        elif isinstance(constant, frozenset):
            yield constant


def _spelled(values: _Frozen) -> set[str]:
    return set(map(repr, values))


def _is_written_out(expr: tree.Expr) -> bool:
    """Is the expression a constant to Python's compiler?"""
    match expr:
        case tree.UnaryOp():
            return _is_written_out(expr.operand)
        case tree.BinOp():
            return _is_written_out(expr.left) and _is_written_out(expr.right)
        case tree.TupleLiteral():
            return all(map(_is_written_out, expr.elements))
    return isinstance(expr, _LITERALS)


_LITERALS = (tree.Const, tree.StringLiteral, tree.TrueLiteral, tree.FalseLiteral, tree.NoneLiteral)


def _emit_joined(em: Emitter, expr: tree.SetLiteral, hint: Type | None) -> Value:
    """`{*xs, 1}`: a set of what stands in front, to which the others are added in order."""
    count = next(i for i, e in enumerate(expr.elements) if isinstance(e, tree.Starred))
    start = em.emit_arguments(expr.elements[:count])
    result: Value | None = set_of(em, [v.in_graph(em.graph) for v in start], hint, expr.range) if count else None
    for part in expr.elements[count:]:
        if not isinstance(part, tree.Starred):
            added = em.argument(None, em.emit_sugared(part), part.range, False)
            assert result is not None
            SetMethod(result, "add").call(em, part.range, [added], [])
            continue
        spread = em.emit_sugared(part.value).as_argument(em, part.range)
        if result is None:
            result = made_of(em, spread, hint, part.range)
        else:
            SetMethod(result, "update").call(em, part.range, [NamedValue(None, spread, range=part.range)], [])
    assert result is not None
    return result


def made_of(em: Emitter, value: Value, hint: Type | None, range: SourceRange, kind: str = NEW) -> Value:
    """`set(value)` or `frozenset(value)`."""
    value = iterable_value(em, value, range)
    wanted = hinted(hint)
    if wanted is None or value.type is T.STRING or value.type.contained[0] is wanted:
        return em.op(kind, [value], range=range)
    if (value.node.kind == "prim::ListConstruct" or is_empty_literal(value)) and not value.has_uses:
        return set_of(em, value.node.inputs, hint, range, kind)
    raise MIXED_ELEMENTS(
        f"the set is annotated to hold {wanted.annotation}, and is made of a {value.type.annotation}", range
    )


class GlobalContainer(SugaredValue):
    """A list, dict, set or tuple of what is no constant that is a global of the program, or an element of one."""

    def __init__(self, scope: Scope, found: Any) -> None:
        self.scope = scope
        self.found = found
        self.kind = f"a global {type(found).__name__}"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        if isinstance(self.found, frozenset):
            return self._constant(b, range)
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} cannot be used as a value, as it may change", range,
            hint="copy it: `set(it)`"
            if isinstance(self.found, set)
            else "pass it as an argument, or use a tuple; `x in it`, `it[x]`, `len(it)` and loops over it are fine",
        )  # fmt: skip

    def as_operand(self, b: Builder, range: SourceRange) -> Value:
        return self._constant(b, range) if isinstance(self.found, set) else self.as_value(b, range)

    def as_argument(self, b: Builder, range: SourceRange) -> Value:
        return self.as_operand(b, range)

    def _constant(self, b: Builder, range: SourceRange) -> Value:
        """The set itself, for those that only read it."""
        t = type_of_constant(self.found)
        if not isinstance(t, T.SetType):
            raise MIXED_ELEMENTS(f"the elements of {self.kind} are of no one type that sets can hold", range)
        checked_element(t.element, range)
        return b.constant(self.found, range, t)

    def as_text(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(str(self.found), range)

    def _parts(self, values: Any, range: SourceRange) -> list[SugaredValue]:
        return [self.part(v, range) for v in values]

    def part(self, found: object, range: SourceRange) -> SugaredValue:
        """An element of the container."""
        return sugared_from_python(self.scope, found, "element", range)

    def _all(self, b: Builder, range: SourceRange) -> list[SugaredValue]:
        return self._parts(self.found, range)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        parts = self._all(b, range)
        if not all(plain_constant(v)[0] for v in self.found):
            raise PYTHON_ONLY(f"only constants can be looked up, and {self.kind} holds others", range)
        return _contains(b, range, item, [p.as_value(b, range) for p in parts])

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SugaredTuple(self._all(b, range))

    def as_tuple(self, b: Builder, range: SourceRange, size: int | None = None) -> list[SugaredValue]:
        return self._all(b, range)

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(len(self.found), range)

    def truth(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(bool(self.found), range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        if isinstance(self.found, set | frozenset):
            raise NO_INDEX(f"'{type(self.found).__name__}' object is not subscriptable", range)
        is_known, key = _written_out(index)
        if is_known:
            try:
                return self.part(self.found[key], range)
            except (LookupError, TypeError) as error:
                raise PYTHON_ERROR(f"{type(error).__name__}: {error}", range) from None
        return self._chosen(b, range, index) or SimpleValue(self._copy(b, range)).element(b, range, index)

    def _chosen(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue | None:
        """One of the functions that are in it; None where others are."""
        is_dict = isinstance(self.found, dict)
        parts = self._parts(self.found.values() if is_dict else self.found, range)
        names = list(self.found) if is_dict else []
        if parts and all(map(_may_be_chosen, parts)) and all(isinstance(name, str) for name in names):
            return chosen_part(b, range, index, names, parts)
        return None

    def _copy(self, b: Builder, range: SourceRange) -> Value:
        """The container as a new one of the graph, for a look that leaves nothing of it."""
        values = list(self.found.values()) if isinstance(self.found, dict) else list(self.found)
        parts = [p.as_value(b, range) if plain_constant(v)[0] else None
                 for v, p in zip(values, self._parts(values, range), strict=True)]  # fmt: skip
        common = T.unify_all([p.type for p in parts if p is not None])
        if common is None or None in parts:
            raise PYTHON_ONLY(
                f"{self.kind} of what is no constants of one type takes a key that is known where the program is "
                "compiled", range, hint="choose by if and elif",
            )  # fmt: skip
        known = [p for p in parts if p is not None]
        if not isinstance(self.found, dict):
            return b.make_list(common, known)
        keys = [p.as_value(b, range) for p in self._parts(self.found, range)]
        key = T.unify_all([k.type for k in keys])
        if key is None or not T.may_be_key(key):
            raise PYTHON_ONLY(f"the keys of {self.kind} are of no type that dicts of scripts have", range)
        return b.make_dict(T.DictType.of(key, common), keys, known)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if isinstance(self.found, dict) and name in ("get", "keys", "values", "items"):
            return _DictMethod(self, name)
        if isinstance(self.found, set | frozenset):
            method = method_of_set(self._constant(b, range), name, range, read_only=True)
            assert method is not None
            return method
        if isinstance(self.found, list) and name in ("index", "count"):
            return SimpleValue(self._copy(b, range)).attr(b, range, name)
        raise PYTHON_ONLY(f"'{name}' of {self.kind} isn't supported", range, hint="pass it as an argument")


def _may_be_chosen(part: SugaredValue) -> bool:
    """Is an element a function, or a module, which is called as one?"""
    t = part.value.type if isinstance(part, SimpleValue) else None
    return part.is_symbolic or (isinstance(t, T.ClassType) and t.is_module)


def _written_out(value: Value | None) -> tuple[bool, Any]:
    """Whether a value is a constant or a tuple of constants, and which."""
    if value is None:
        return False, None
    if value.node.kind != "prim::TupleConstruct":
        return is_constant(value), constant_of(value, None)
    parts = [_written_out(part) for part in value.node.inputs]
    return all(known for known, _ in parts), tuple(part for _, part in parts)


class _DictMethod(SugaredValue):
    def __init__(self, owner: GlobalContainer, name: str) -> None:
        self.owner = owner
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        owner = self.owner
        if self.name == "get":
            return self._get(b, range, args, kwargs)
        keys, values = owner._all(b, range), owner._parts(owner.found.values(), range)
        if self.name == "items":
            return SugaredTuple([SugaredTuple(pair) for pair in zip(keys, values, strict=True)])
        return SugaredTuple(keys if self.name == "keys" else values)

    def _get(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        owner, key = self.owner, args[0].in_graph(b.graph) if args else None
        is_known, known = _written_out(key)
        if key is None or not is_known:
            return SimpleValue(owner._copy(b, range)).attr(b, range, "get").call(b, range, args, kwargs)
        if known in owner.found:
            return owner.element(b, range, key)
        return SimpleValue(args[1].in_graph(b.graph) if len(args) > 1 else b.constant(None, range))


def global_container(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A list, dict or set of Python."""
    return GlobalContainer(scope, meaning.object)
