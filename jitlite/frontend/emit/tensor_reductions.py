"""Python's `sum`, `any` and `all` of a tensor. They go over its rows, where torch's reduce all of it."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.denotations import BUILTINS
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.empty_literals import as_wanted
from jitlite.frontend.emit.generator_expressions import emit_quantifier
from jitlite.frontend.emit.iteration import Body, emit_for
from jitlite.frontend.emit.library_calls import call_library
from jitlite.frontend.emit.python_library import sum_from
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


def emit_reduction(
    em: Emitter, range: SourceRange, callee: SugaredValue, args: list[NamedValue]
) -> SugaredValue | Value | None:
    """A call of one of the three, if that is what it is, and no operator does it: that of a tensor, a `sum` of tensors
    or from a start."""
    if not args or args[0].name is not None or callee not in (BUILTINS["sum"], BUILTINS["any"], BUILTINS["all"]):
        return None
    items = args[0].in_graph(em.graph)
    if callee is BUILTINS["sum"]:
        return _emit_sum(em, range, items, args[1:]) if len(args) <= 2 and args[-1].name in (None, "start") else None
    if len(args) == 1 and isinstance(items.type, T.TensorType):
        iterable, row = _variable(em, "rows", items, range), _name(em, "row", range)
        generator = tree.ListComp(row, row, iterable, is_generator=True, range=range)
        return emit_quantifier(em, range, generator, callee is BUILTINS["any"])
    return None


def _emit_sum(em: Emitter, range: SourceRange, items: Value, given: list[NamedValue]) -> SugaredValue | Value | None:
    """`sum` of tensors, or from a start; None for another one."""
    if isinstance(items.type, T.TupleType) and items.type.elements:
        items = em.declared(T.ListType.of(items.type.elements[0]), items, range)
    start = given[0].in_graph(em.graph) if given else em.constant(0, range)
    if isinstance(items.type, T.TensorType):
        return _sum(em, range, items, start)
    if not isinstance(items.type, T.ListType):
        return None
    if T.is_subtype(items.type.element, T.TENSOR) or T.is_subtype(start.type, T.TENSOR):
        return _sum(em, range, items, start)
    return _sum_from(em, range, items, items.type.element, start) if given else None


def _sum_from(em: Emitter, range: SourceRange, items: Value, element: Type, start: Value) -> SugaredValue | Value:
    if start.type is T.INT and element is T.INT:
        return em.op("aten::add", [start, em.op("aten::sum", [items], range=range)], range=range)
    if element is T.FLOAT and start.type in (T.INT, T.FLOAT):  # Python's own sum of floats is more exact than a loop
        first = em.make_list(T.FLOAT, [em.declared(T.FLOAT, start, range)])
        return em.op("aten::sum", [em.op("aten::add", [first, items], range=range)], range=range)
    arguments = [NamedValue(None, v, range=range) for v in (items, as_wanted(em, start, element, range))]
    return call_library(em, range, sum_from, arguments, original=sum)


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
