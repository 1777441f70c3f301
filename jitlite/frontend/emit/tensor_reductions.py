"""Python's `sum`, `any` and `all` of a tensor. They go over its rows, where torch's reduce all of it."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.denotations import BUILTINS
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.generator_expressions import emit_quantifier
from jitlite.frontend.emit.iteration import Body, emit_for
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue


def emit_reduction(
    em: Emitter, range: SourceRange, callee: SugaredValue, args: list[NamedValue]
) -> SugaredValue | Value | None:
    """A call of one of the three, if that is what it is, and what it is given first is a tensor."""
    if not args or args[0].name is not None or not isinstance(args[0].type, T.TensorType):
        return None
    rows = args[0].in_graph(em.graph)
    if callee is BUILTINS["sum"] and len(args) <= 2:
        start = args[1].in_graph(em.graph) if len(args) == 2 else em.constant(0, range)
        return _sum(em, range, rows, start)
    if callee in (BUILTINS["any"], BUILTINS["all"]) and len(args) == 1:
        iterable, row = _variable(em, "rows", rows, range), _name(em, "row", range)
        generator = tree.ListComp(row, row, iterable, is_generator=True, range=range)
        return emit_quantifier(em, range, generator, callee is BUILTINS["any"])
    return None


def _sum(em: Emitter, range: SourceRange, rows: Value, start: Value) -> Value:
    """`start + rows[0] + rows[1] + ...`; of no rows, the start as a tensor."""
    none = start if isinstance(start.type, T.TensorType) else em.op("aten::tensor", [start], range=range)
    total, first = _variable(em, "total", none, range), _variable(em, "start", start, range)
    started = _variable(em, "started", em.constant(False, range), range)
    row = _name(em, "row", range)

    def add(left: tree.Expr) -> tree.Stmt:
        return tree.Assign((total,), tree.BinOp("+", left, row, range=range), None, range=range)

    def on_row() -> None:
        begin = (add(first), tree.Assign((started,), tree.TrueLiteral(range=range), None, range=range))
        em.emit_statements([tree.IfStmt(started, (add(total),), begin, range=range)])

    emit_for(em, range, [row], _variable(em, "rows", rows, range), Body(on_row, frozenset()))
    return em.lookup(total.name.name, range).as_value(em, range)


def _name(em: Emitter, prefix: str, range: SourceRange) -> tree.Var:
    return tree.Var(tree.Ident(em.temporary(prefix), range=range), range=range)


def _variable(em: Emitter, prefix: str, value: Value, range: SourceRange) -> tree.Var:
    """A variable of our own that holds the value."""
    variable = _name(em, prefix, range)
    em.assign(variable.name.name, SimpleValue(value), range)
    return variable
