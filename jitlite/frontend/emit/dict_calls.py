"""Updates of dicts by pairs and keywords."""

from __future__ import annotations

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.iteration import Body, emit_for
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.values import BuiltinFunction, SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.conversions import is_empty_literal


def emit_update(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> Value | None:
    """`d.update(pairs)` and `d.update(key=value)`; None for another call.

    As in Python, all arguments are evaluated before the dict changes.
    """
    this = callee.self_value
    is_update = callee.name == "aten::update" and this is not None and isinstance(this.type, T.DictType)
    if this is None or not is_update or len(expr.args) > 1 or _has_starred(expr):
        return None
    source = em.emit_sugared(expr.args[0]) if expr.args else None
    is_dict = isinstance(source, SimpleValue) and _is_dict(source.value)
    if is_dict and not expr.keywords:
        return None
    values = [KnownValue(em.emit_sugared(k.value), range=k.value.range) for k in expr.keywords]
    target = KnownValue(SimpleValue(this.in_graph(em.graph)), range=expr.range)
    if source is not None and is_dict:
        callee.call(em, expr.range, [source.as_argument(em, expr.args[0].range)], [])
    elif source is not None:
        _set_pairs(em, expr.range, target, source)
    for keyword, value in zip(expr.keywords, values, strict=True):
        key = tree.StringLiteral(keyword.name.name, range=keyword.range)
        em.emit_statements([_item_set(target, key, value, keyword.range)])
    return em.constant(None, expr.range)


def _has_starred(expr: tree.Apply) -> bool:
    return any(isinstance(a, tree.Starred | tree.KeywordStarred) for a in expr.args)


def _is_dict(value: Value) -> bool:
    return isinstance(value.type, T.DictType) or is_empty_literal(value)


def _set_pairs(em: Emitter, range: SourceRange, target: tree.Expr, source: SugaredValue) -> None:
    """`for key, value in source: target[key] = value`."""
    names = (tree.Ident(em.temporary(name), range=range) for name in ("key", "value"))
    key, value = (tree.Var(name, range=range) for name in names)
    body = Body(lambda: em.emit_statements([_item_set(target, key, value, range)]))
    emit_for(em, range, [tree.TupleLiteral((key, value), range=range)], KnownValue(source, range=range), body)


def _item_set(target: tree.Expr, key: tree.Expr, value: tree.Expr, range: SourceRange) -> tree.Stmt:
    return tree.Assign((tree.Subscript(target, (key,), range=range),), value, None, range=range)
