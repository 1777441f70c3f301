"""`a or b` and `a and b` as values: one of the operands, as in Python.

Where the first operand is a bool, the result is the truth of both, as in TorchScript (`conditions.py`).
"""

from __future__ import annotations

from jitlite.frontend.emit.conditions import (
    Evaluated,
    comparison_chain,
    condition_of,
    emit_condition,
    emit_if_expression,
)
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.scope import Condition
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import display_name
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type

_TESTS = ("is", "is not", "in")


def emit_choice(em: Emitter, expr: tree.BinOp, hint: Type | None) -> SugaredValue | Value:
    """The value of an `and` or `or`."""
    found = _choice(em, expr, hint)
    return found.value if isinstance(found, Condition) else found


def _choice(em: Emitter, expr: tree.BinOp, hint: Type | None) -> Condition | SugaredValue | Value:
    """The value, with what it says of variables where it is a bool. Functions are true."""
    if hint is T.BOOL or _is_test(expr.left) or comparison_chain(expr):
        return emit_condition(em, expr)
    left = _operand(em, expr.left)
    if isinstance(left, Condition):
        return emit_condition(em, tree.replaced(expr, left=Evaluated(left, range=expr.left.range)))
    if isinstance(left, SugaredValue):
        return left if expr.op == "or" else em.emit_sugared(expr.right, hint)
    if left.type is T.NONE:
        return left if expr.op == "and" else em.emit_sugared(expr.right, hint)
    condition = condition_of(em, expr.left, left)

    def first() -> Value:
        present = T.without_none(left.type)
        return em.cast(left, present) if expr.op == "or" and present is not left.type else left

    def second() -> Value:
        is_empty = isinstance(expr.right, tree.ListLiteral | tree.DictLiteral) and not expr.right.children()
        return em.emit(expr.right, T.without_none(left.type) if is_empty else hint)

    branches = (first, second) if expr.op == "or" else (second, first)
    return emit_if_expression(em, expr.range, condition, *branches, united=True)


def _operand(em: Emitter, expr: tree.Expr) -> Condition | SugaredValue | Value:
    found: Condition | SugaredValue | Value
    if isinstance(expr, tree.BinOp) and expr.op in ("and", "or"):
        found = _choice(em, expr, None)
        return found.as_value(em, expr.range) if isinstance(found, SugaredValue) and not found.is_function else found
    found = em.emit_sugared(expr)
    if found.is_function:
        return found
    value = found.as_value(em, expr.range)
    return condition_of(em, expr, value) if value.type is T.BOOL else value


def _is_test(expr: tree.Expr) -> bool:
    """Does an expression give a bool, whatever it is about? Operators of objects may give something else."""
    if isinstance(expr, tree.UnaryOp):
        return expr.op == "not"
    if isinstance(expr, tree.BinOp):
        return _is_test(expr.left) if expr.op in ("and", "or") else expr.op in _TESTS
    if not isinstance(expr, tree.Apply) or not isinstance(expr.callee, tree.Var | tree.Select):
        return False
    return display_name(expr.callee.name.name) in ("isinstance", "hasattr")
