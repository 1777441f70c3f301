"""Calls of builtin functions that the functions of `python_library.py` stand for: `sorted`, `max` and `min` with
keywords, or of what no operator takes, and `filter`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.base.errors.calls import WRONG_ARGUMENTS, WRONG_KEYWORD
from jitlite.base.source import SourceRange
from jitlite.frontend.emit import python_library as library
from jitlite.frontend.emit.denotations import BUILTINS, LibraryFunction
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.values import BuiltinFunction, SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.argument_hints import instead_of_keyword
from jitlite.operators.conversions import is_empty_literal
from jitlite.operators.overloads import NamedValue


@expression(KnownValue)
def emit_known_value(em: Emitter, expr: KnownValue, hint: Type | None) -> SugaredValue:
    return expr.value


def call_library(
    em: Emitter,
    range: SourceRange,
    function: Callable[..., object],
    args: Sequence[NamedValue],
    *named: NamedValue,
    original: object = None,
) -> SugaredValue:
    """A call of a function of `python_library.py`, which stands for the original one, if there is one."""
    return LibraryFunction(em, function, original).call(em, range, args, list(named))


def emit_iterable_arguments(em: Emitter, exprs: Sequence[tree.Expr]) -> list[NamedValue]:
    """The arguments of a function that goes through them once; functions among them stay what they are."""
    given: list[NamedValue] = []
    for expr in exprs:
        if isinstance(expr, tree.Starred):
            given += em.emit_arguments([expr], functions=True)
        else:
            given.append(_argument(em, None, em.emit_sugared(expr), expr.range))
    return given


def _argument(em: Emitter, name: str | None, found: SugaredValue, range: SourceRange) -> NamedValue:
    if found.is_function:  # of a range, the function goes through a list
        return em.argument(name, found, range, True)
    value = found.as_argument(em, range)
    em.seen_types.note(value.type)
    return NamedValue(name, value, range=range)


def emit_with_keywords(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> SugaredValue | None:
    """`sorted`, `max`, `min` or `xs.sort` with `key`, `default` or `reverse`; None for another call."""
    extreme = callee in (BUILTINS["max"], BUILTINS["min"])
    this = callee.self_value
    is_sort = callee.name == "aten::sort" and this is not None and isinstance(this.type, T.ListType)
    if not expr.keywords or not (extreme or is_sort or callee is BUILTINS["sorted"]):
        return None
    keywords = {k.name.name: k.value for k in expr.keywords if not _says_no_key(k)}
    allowed = {"key", "default"} if extreme else {"key", "reverse"}
    unknown = next((name for name in keywords if name not in allowed), None)
    if unknown is not None and not extreme:
        text = f"{'sort' if is_sort else 'sorted'}: Keyword argument {unknown} unknown."
        raise WRONG_KEYWORD(text, expr.range, hint=instead_of_keyword(unknown, ["key", "reverse"]))
    if unknown is not None:
        return None
    named = {name: _argument(em, name, em.emit_sugared(value), value.range) for name, value in keywords.items()}
    if is_sort:
        if "key" not in named or this is None:
            return None
        args = [this._replace(name=None)]
        return call_library(em, expr.range, library.sort_by_key, args, *named.values(), original=list.sort)
    args = emit_iterable_arguments(em, expr.args)
    if extreme:
        return _extreme(em, expr.range, callee, args, named)
    by_key = library.sorted_by_key if "key" in named else library.sorted_list
    return call_library(em, expr.range, by_key, args, *named.values(), original=sorted)


def _says_no_key(keyword: tree.KeywordArgument) -> bool:
    return keyword.name.name == "key" and isinstance(keyword.value, tree.NoneLiteral)


def _extreme(
    em: Emitter, range: SourceRange, callee: BuiltinFunction, args: list[NamedValue], named: dict[str, NamedValue]
) -> SugaredValue:
    if len(args) != 1:
        if "default" in named:
            raise WRONG_ARGUMENTS("a default is for the elements of one iterable, not for several arguments", range)
        args = [NamedValue(None, _listed(em, args, range), range=range)]
    if "default" in named:
        args = [*args, named.pop("default")._replace(name=None)]
    is_max = callee is BUILTINS["max"]
    largest = NamedValue("largest", em.constant(is_max, range), range=range)
    original = max if is_max else min
    return call_library(em, range, library.extreme, args, largest, *named.values(), original=original)


def _listed(em: Emitter, args: Sequence[NamedValue], range: SourceRange) -> Value:
    known = [KnownValue(SimpleValue(a.in_graph(em.graph)), range=range) for a in args]
    return em.emit(tree.ListLiteral(tuple(known), range=range))


def emit_without_operator(
    em: Emitter, range: SourceRange, callee: SugaredValue, args: list[NamedValue]
) -> SugaredValue | None:
    """`max` or `min` of tensors or of more than two, and `sorted` of a tensor or dict; None for another call."""
    if not args or not isinstance(callee, BuiltinFunction) or any(a.name for a in args):
        return None
    if callee.name in ("aten::startswith", "aten::endswith") and isinstance(args[0].type, T.TupleType):
        return _of_any_part(em, range, callee, args)
    if callee is BUILTINS["pow"] and len(args) == 3:
        return call_library(em, range, library.power_modulo, args, original=pow)
    if callee is BUILTINS["sorted"] and len(args) == 1 and _is_unordered(args[0].type):
        return call_library(em, range, library.sorted_list, args, original=sorted)
    of_tuples = len(args) == 2 and any(isinstance(a.type, T.TupleType) for a in args)
    has_no_operator = len(args) > 2 or of_tuples or all(_has_no_extreme(a.type) for a in args)
    if callee in (BUILTINS["max"], BUILTINS["min"]) and has_no_operator:
        return _extreme(em, range, callee, args, {})
    return None


def emit_with_digits(
    em: Emitter, range: SourceRange, callee: SugaredValue, args: list[NamedValue], kwargs: list[NamedValue]
) -> SugaredValue | None:
    """`round` of a number to so many digits, and `int` of a text in a base; None for another call."""
    given = [*args, *kwargs]
    if len(given) != 2 or not args:
        return None
    (subject, other), name = given, given[1].name
    if callee is BUILTINS["int"] and subject.type is T.STRING and name in (None, "base"):
        return SimpleValue(em.op("python::int", [subject, other._replace(name=None)], range=range))
    if callee is not BUILTINS["round"] or subject.type not in (T.INT, T.FLOAT) or name not in (None, "ndigits"):
        return None
    if other.type is T.NONE:
        return callee.call(em, range, [subject], [])
    function = library.rounded_int if subject.type is T.INT else library.rounded_float
    return call_library(em, range, function, [subject, other._replace(name=None)], original=round)


def repeated_text(em: Emitter, range: SourceRange, left: Value, right: Value) -> Value | None:
    """`text * n` or `n * text`; None for other operands."""
    text, times = (right, left) if left.type is T.INT else (left, right)
    if text.type is not T.STRING or times.type is not T.INT:
        return None
    given = [NamedValue(None, v, range=range) for v in (text, times)]
    return call_library(em, range, library.repeated, given).as_value(em, range)


def _of_any_part(em: Emitter, range: SourceRange, callee: BuiltinFunction, args: Sequence[NamedValue]) -> SugaredValue:
    """`text.startswith(("a", "b"))`."""
    result = em.constant(False, range)
    for part in em.unpack_tuple(args[0].in_graph(em.graph)):
        one = callee.call(em, range, [NamedValue(None, part, range=args[0].range), *args[1:]], [])
        result = em.op("aten::__or__", [result, one.as_value(em, range)], range=range)
    return SimpleValue(result)


def _has_no_extreme(t: Type) -> bool:
    """Are there values of a type, or elements, of which torch's operators know no larger one?"""
    if isinstance(t, T.ListType):
        return t.element not in (T.INT, T.FLOAT, T.BOOL)
    return isinstance(t, T.TensorType | T.DictType) or t is T.STRING


def _is_unordered(t: Type) -> bool:
    return isinstance(t, T.TensorType | T.DictType)


# -- dicts
_COMPARED = (T.INT, T.FLOAT, T.BOOL, T.STRING)
"""Types of values that `!=` compares to a bool, also in lists."""


def equal_dicts(em: Emitter, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left == right` or `left != right` of dicts; None for other values, and for dicts whose values have no such
    comparison that is a bool."""
    if op not in ("eq", "ne") or not (isinstance(left.type, T.DictType) and isinstance(right.type, T.DictType)):
        return None
    if is_empty_literal(left) or is_empty_literal(right):
        other = right if is_empty_literal(left) else left
        same = em.op("aten::eq", [em.op("aten::len", [other], range=range), em.number(0, range)], range=range)
    elif _is_compared(left.type.value) and _is_compared(right.type.value):
        given = [NamedValue(None, v, range=range) for v in (left, right)]
        same = call_library(em, range, library.equal_dicts, given, original=dict).as_value(em, range)
    else:
        return None
    return same if op == "eq" else em.op("aten::__not__", [same], range=range)


def _is_compared(t: T.Type) -> bool:
    return (t.element if isinstance(t, T.ListType) else t) in _COMPARED


# -- filter
def filtered(em: Emitter, expr: tree.Expr) -> tree.ListComp | None:
    """`filter(f, xs)` as `(x for x in xs if f(x))`; None for another expression."""
    if not isinstance(expr, tree.Apply) or not isinstance(expr.callee, tree.Var) or len(expr.args) != 2:
        return None
    if expr.callee.name.name != "filter" or expr.keywords:
        return None
    found = em.emit_sugared(expr.callee)
    return generator_of_filter(em, expr) if isinstance(found, SpecialForm) and found.form == "filter" else None


def generator_of_filter(em: Emitter, expr: tree.Apply) -> tree.ListComp:
    """The generator expression that a call of `filter` is."""
    range = expr.range
    element = tree.Var(tree.Ident("$element", range=range), range=range)
    chosen: tree.Expr = element
    if not isinstance(expr.args[0], tree.NoneLiteral):
        function = KnownValue(em.emit_sugared(expr.args[0]), range=expr.args[0].range)
        chosen = tree.Apply(function, (element,), (), range=range)
    clause = tree.ComprehensionIf(chosen, range=range)
    return tree.ListComp(element, element, expr.args[1], (clause,), is_generator=True, range=range)
