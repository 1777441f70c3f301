"""`a if c else b`."""

from __future__ import annotations

from jitlite.frontend.emit.conditions import emit_condition, emit_if_expression
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.symbolic_values import closed, emit_joined
from jitlite.frontend.emit.values import SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


@expression(tree.TernaryIf)
def emit_ternary(em: Emitter, expr: tree.TernaryIf, hint: Type | None) -> SugaredValue | Value:
    condition = emit_condition(em, expr.cond)
    if condition.static is not None:
        return em.emit_sugared(expr.true if condition.static else expr.false, hint)
    symbolic: list[SugaredValue] = []
    outside = em.frame

    def side(chosen: tree.Expr) -> Value:
        found = em.emit_sugared(chosen, hint)
        if not found.is_symbolic or (chosen is expr.false and not symbolic):
            return em.emit(KnownValue(found, range=chosen.range), hint)
        symbolic.append(closed(em, found, outside, chosen.range))
        return em.constant(None, chosen.range)

    result = emit_if_expression(em, expr.range, condition, lambda: side(expr.true), lambda: side(expr.false))
    return emit_joined(em, result.node, symbolic, expr.range) if len(symbolic) == 2 else result
