"""`**kwargs`: keywords that are known where a call is compiled.

In the body of a function the parameter is no dict of the graph, for its values may be of any types and functions too.
It can be asked for a key that is written out, passed on, and gone through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitlite.base.errors.calls import DICT_AS_KEYWORDS, KNOWN_WHEN_COMPILED, WRONG_COUNT
from jitlite.base.errors.names import NO_ATTRIBUTE, NOT_A_VALUE, PYTHON_ERROR
from jitlite.base.source import NotSupportedError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.chosen_parts import chosen_part
from jitlite.frontend.emit.denotations import BUILTINS
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import Args, ConstantValue, SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.operators.overloads import NamedValue


class KnownKeywords(SugaredValue):
    """What `**kwargs` holds in the body of a function."""

    def __init__(self, values: Mapping[str, SugaredValue], kind: str = "a dict of keyword arguments") -> None:
        self.values = dict(values)
        self.kind = kind

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        raise NOT_A_VALUE.unsupported(
            f"{self.kind} cannot be used as a value", range,
            hint="ask it for one keyword, `kwargs['name']`, or pass it on, `f(**kwargs)`",
        )  # fmt: skip

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name in ("get", "keys", "values", "items"):
            return _Method(self, name)
        hint = "take it as a parameter of its own" if name in ("pop", "setdefault", "update") else None
        raise NO_ATTRIBUTE.unsupported(f"'{name}' of {self.kind} isn't supported", range, hint=hint)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        parts = list(self.values.values())
        if not is_constant(index) and parts and all(part.is_symbolic for part in parts):
            return chosen_part(b, range, index, list(self.values), parts)
        key = _key(index, range)
        if key not in self.values:
            raise PYTHON_ERROR(f"KeyError: the call gives no keyword argument '{key}'", range)
        return self.values[key]

    def has_item(self, b: Builder, range: SourceRange, item: Value) -> Value:
        """`item in kwargs`."""
        if not is_constant(item) and item.type is T.STRING:
            names = b.make_list(T.STRING, [b.constant(name, range) for name in self.values])
            return b.op("aten::__contains__", [names, item], range=range)
        return b.constant(_key(item, range) in self.values, range)

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return SugaredTuple([ConstantValue(name) for name in self.values])

    def length(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(len(self.values), range)

    def truth(self, b: Builder, range: SourceRange) -> Value:
        """Has the call given any?"""
        return b.constant(bool(self.values), range)


class _Method(SugaredValue):
    def __init__(self, owner: KnownKeywords, name: str) -> None:
        self.owner = owner
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        values = self.owner.values
        if self.name == "get":
            if not 1 <= len(args) <= 2 or kwargs:
                raise WRONG_COUNT("get takes a key and a default", range)
            key = _key(args[0].in_graph(b.graph), range)
            if key in values:
                return values[key]
            return SimpleValue(args[1].in_graph(b.graph) if len(args) == 2 else b.constant(None, range))
        if args or kwargs:
            raise WRONG_COUNT(f"{self.name} takes no arguments", range)
        names = [ConstantValue(name) for name in values]
        if self.name == "items":
            return SugaredTuple([SugaredTuple(pair) for pair in zip(names, values.values(), strict=True)])
        return SugaredTuple(names if self.name == "keys" else list(values.values()))


def _key(index: Value, range: SourceRange) -> str:
    key = constant_of(index) if is_constant(index) else None
    if not isinstance(key, str):
        raise KNOWN_WHEN_COMPILED("a dict of keyword arguments takes a key that is written out", range)
    return key


def emit_starred_keywords(em: Emitter, starred: Sequence[tree.Expr]) -> list[NamedValue]:
    """The keyword arguments that `**value`s of a call are."""
    found: list[NamedValue] = []
    for expr in starred:
        assert isinstance(expr, tree.KeywordStarred)
        for name, value in _known(em, expr.value).items():
            if any(f.name == name for f in found):
                raise WRONG_COUNT(f"got multiple values for keyword argument '{name}'", expr.range)
            found.append(em.argument(name, value, expr.range, True))
    return found


def _known(em: Emitter, expr: tree.Expr) -> dict[str, SugaredValue]:
    """The entries of what stands behind `**`: an own parameter, or a dict that is written out."""
    if isinstance(expr, tree.DictLiteral):
        entries: dict[str, SugaredValue] = {}
        for key, value in zip(expr.keys, expr.values, strict=True):
            if isinstance(value, tree.KeywordStarred):
                entries |= _known(em, value.value)
            elif isinstance(key, tree.StringLiteral):
                entries[key.value] = em.emit_sugared(value)
            else:
                raise _unknown(expr.range)
        return entries
    if isinstance(expr, tree.Apply) and not expr.args and em.emit_sugared(expr.callee) is BUILTINS["dict"]:
        return {k.name.name: em.emit_sugared(k.value) for k in expr.keywords}
    found = em.emit_sugared(expr)
    if not isinstance(found, KnownKeywords):
        raise _unknown(expr.range)
    return found.values


def _unknown(range: SourceRange) -> NotSupportedError:
    return DICT_AS_KEYWORDS(
        "keyword-arg expansion is not supported for a dict whose keys are known at run time only", range,
        hint="pass each keyword argument by name, or write the dict out: f(**{'name': value})",
    )  # fmt: skip
