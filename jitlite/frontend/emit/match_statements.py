"""`match`: what the tests of its patterns ask; `syntax/match_statements.py` makes ifs of the rest."""

from __future__ import annotations

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.errors.statements import UNSUPPORTED_SYNTAX
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.emitter import Emitter, expression, statement
from jitlite.frontend.emit.type_tests import python_object
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.match_statements import HasLength, IsOneOf, MatchStmt, PositionalField, WithCaptures
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type

_WHOLE = frozenset({bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple})
"""Classes whose one positional pattern is compared with the object itself."""


@statement(MatchStmt)
def emit_match(em: Emitter, stmt: MatchStmt) -> None:
    em.emit_statements([*stmt.assigns, *stmt.chain])


@expression(HasLength)
def emit_has_length(em: Emitter, expr: HasLength, hint: Type | None) -> Value:
    """Of a tuple the type tells; a list is asked; anything else is no sequence to a pattern."""
    value = em.emit(expr.value)
    _refuse_several(value.type, expr.range)
    if isinstance(value.type, T.TupleType):
        count = len(value.type.elements)
        return em.constant(count >= expr.length if expr.at_least else count == expr.length, expr.range)
    if not isinstance(value.type, T.ListType):
        return em.constant(False, expr.range)
    length = em.op("aten::len", [value], range=expr.range)
    return em.op("aten::ge" if expr.at_least else "aten::eq", [length, em.number(expr.length)], range=expr.range)


@expression(IsOneOf)
def emit_is_one_of(em: Emitter, expr: IsOneOf, hint: Type | None) -> Value:
    """As `value in literals`."""
    t = em.emit(expr.value).type
    if not isinstance(t, T.OptionalType):
        _refuse_several(t, expr.range)
    return em.emit(tree.BinOp("in", expr.value, expr.literals, range=expr.range))


def _refuse_several(t: Type, range: SourceRange) -> None:
    """Refuse a pattern for a value that may be of several types: which of them it is has to be asked before.

    Raises:
        NotSupportedError: it may.
    """
    if t is T.ANY or isinstance(t, T.UnionType | T.OptionalType):
        raise UNSUPPORTED_SYNTAX(
            f"this pattern isn't supported for a value of type {t.annotation}", range,
            hint="ask for its type before: `if isinstance(x, int):` or `if x is not None:`, and match inside",
        )  # fmt: skip


@expression(PositionalField)
def emit_positional_field(em: Emitter, expr: PositionalField, hint: Type | None) -> SugaredValue | Value:
    value = em.emit(expr.value)
    cls = python_object(em, expr.cls)
    if cls in _WHOLE and expr.position == 0:
        return value
    names: tuple[str, ...] = getattr(cls, "__match_args__", ())
    if expr.position >= len(names):
        name = getattr(cls, "__name__", "the class")
        raise WRONG_COUNT(
            f"{name}() accepts {len(names)} positional sub-patterns", expr.range, hint="name the field: `Class(x=...)`"
        )
    return SimpleValue(value).attr(em, expr.range, names[expr.position])


@expression(WithCaptures)
def emit_with_captures(em: Emitter, expr: WithCaptures, hint: Type | None) -> SugaredValue:
    em.emit_statements(expr.captures)
    return em.emit_sugared(expr.value, hint)
