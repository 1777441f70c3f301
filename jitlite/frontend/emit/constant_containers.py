"""Containers that are no values of a graph: sets that are written out, and global lists, dicts and sets.

They hold what is known while a program is compiled: constants, and functions too. Of a global one that is what it held
then, as for other globals. They can be asked for an element, for membership and for their length, and gone through; as
a value one would be a copy, and who changes or compares it would see that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitlite.base.errors.names import NOT_A_VALUE, PYTHON_ERROR, PYTHON_ONLY
from jitlite.base.errors.types import NO_INDEX
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.expressions import is_one_of
from jitlite.frontend.emit.meanings import Meaning, plain_constant
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type

_HASHED = (T.INT, T.FLOAT, T.BOOL, T.STRING, T.NONE, T.COMPLEX)


def _contains(b: Builder, range: SourceRange, item: Value, elements: Sequence[Value]) -> Value:
    assert isinstance(b, Emitter)
    none = tree.NoneLiteral(range=range)
    return is_one_of(b, tree.BinOp("in", none, none, range=range), item, elements)


class SetValue(SugaredValue):
    """A set that is written out: something may be in it or not."""

    kind = "a set"

    def __init__(self, elements: Sequence[Value]) -> None:
        self.elements = list(elements)

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            "a set cannot be used as a value, only to look something up: `x in {...}`", range,
            hint="use a list, or a dict with None or True as values",
        )  # fmt: skip

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        return _contains(b, range, item, self.elements)


@expression(tree.SetLiteral)
def emit_set(em: Emitter, expr: tree.SetLiteral, hint: Type | None) -> SugaredValue:
    elements = [v.in_graph(em.graph) for v in em.emit_arguments(expr.elements)]
    for element in elements:
        if not all(m in _HASHED or isinstance(m, T.EnumType) for m in T.members_of(element.type)):
            raise PYTHON_ONLY(
                f"a set of {element.type.annotation} isn't supported, only of numbers, strings and members of enums",
                expr.range, hint="use a tuple",
            )  # fmt: skip
    return SetValue(elements)


class GlobalContainer(SugaredValue):
    """A list, dict or set that is a global of the program, or an element of one."""

    def __init__(self, scope: Scope, found: Any) -> None:
        self.scope = scope
        self.found = found
        self.kind = f"a global {type(found).__name__}"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} cannot be used as a value, as it may change", range,
            hint="pass it as an argument, or use a tuple; `x in it`, `it[x]`, `len(it)` and loops over it are fine",
        )  # fmt: skip

    def as_text(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(str(self.found), range)

    def _parts(self, values: Any, range: SourceRange) -> list[SugaredValue]:
        return [sugared_from_python(self.scope, v, "element", range) for v in values]

    def _all(self, b: Builder, range: SourceRange) -> list[SugaredValue]:
        return self._parts(self.found, range)

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        parts = self._all(b, range)
        if not all(isinstance(p, ConstantValue) for p in parts):
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
        if is_constant(index):
            try:
                return sugared_from_python(self.scope, self.found[constant_of(index)], "element", range)
            except (LookupError, TypeError) as error:
                raise PYTHON_ERROR(f"{type(error).__name__}: {error}", range) from None
        return SimpleValue(self._copy(b, range)).element(b, range, index)

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
        if key not in T.DICT_KEYS:
            raise PYTHON_ONLY(f"the keys of {self.kind} are of no type that dicts of scripts have", range)
        return b.make_dict(T.DictType.of(key, common), keys, known)

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if isinstance(self.found, dict) and name in ("get", "keys", "values", "items"):
            return _DictMethod(self, name)
        if isinstance(self.found, list) and name in ("index", "count"):
            return SimpleValue(self._copy(b, range)).attr(b, range, name)
        raise PYTHON_ONLY(f"'{name}' of {self.kind} isn't supported", range, hint="pass it as an argument")


class _DictMethod(SugaredValue):
    def __init__(self, owner: GlobalContainer, name: str) -> None:
        self.owner = owner
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        owner = self.owner
        if self.name == "get":
            key = args[0].in_graph(b.graph) if args else None
            if key is None or not is_constant(key):
                return SimpleValue(owner._copy(b, range)).attr(b, range, "get").call(b, range, args, kwargs)
            if constant_of(key) in owner.found:
                return owner.element(b, range, key)
            return SimpleValue(args[1].in_graph(b.graph) if len(args) > 1 else b.constant(None, range))
        keys, values = owner._all(b, range), owner._parts(owner.found.values(), range)
        if self.name == "items":
            return SugaredTuple([SugaredTuple(pair) for pair in zip(keys, values, strict=True)])
        return SugaredTuple(keys if self.name == "keys" else values)


def global_container(scope: Scope, meaning: Meaning, range: SourceRange) -> SugaredValue:
    """A list, dict or set of Python."""
    return GlobalContainer(scope, meaning.object)
