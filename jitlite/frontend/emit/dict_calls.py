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
from jitlite.operators.overloads import NamedValue


def emit_update(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> SugaredValue | None:
    """`d.update(pairs)` and `d.update(key=value)`; None for another call.

    As in Python, all arguments are evaluated before the dict changes.
    """
    if not _updates_dict(callee) or len(expr.args) > 1 or _has_starred(expr):
        return None
    source = em.emit_sugared(expr.args[0]) if expr.args else None
    values = [KnownValue(em.emit_sugared(k.value), range=k.value.range) for k in expr.keywords]
    if source is not None:
        _update_by(em, expr, callee, source)
    for keyword, value in zip(expr.keywords, values, strict=True):
        key = tree.StringLiteral(keyword.name.name, range=keyword.range)
        em.emit_statements([_item_set(_target(em, expr, callee), key, value, keyword.range)])
    return SimpleValue(em.constant(None, expr.range))


def _updates_dict(callee: BuiltinFunction) -> bool:
    this = callee.self_value
    return callee.name == "aten::update" and this is not None and isinstance(this.type, T.DictType)


def _target(em: Emitter, expr: tree.Apply, callee: BuiltinFunction) -> tree.Expr:
    assert callee.self_value is not None
    return KnownValue(SimpleValue(callee.self_value.in_graph(em.graph)), range=expr.range)


def _update_by(em: Emitter, expr: tree.Apply, callee: BuiltinFunction, source: SugaredValue) -> None:
    """Update a dict by another one, or by pairs."""
    where = expr.args[0].range
    if isinstance(source, SimpleValue) and _is_dict(source.value):
        callee.call(em, expr.range, [NamedValue(None, source.as_argument(em, where), range=where)], [])
    else:
        _set_pairs(em, expr.range, _target(em, expr, callee), source)


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
