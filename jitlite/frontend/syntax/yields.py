"""Expressions as statements, and those that yield."""

from __future__ import annotations

import ast

from jitlite.base.source import SourceRange
from jitlite.frontend.syntax import tree as t
from jitlite.frontend.syntax.python_expressions import TreeBuilder, statement_builder


@statement_builder(ast.Expr)
def _expression_statement(b: TreeBuilder, node: ast.Expr) -> t.Stmt:
    if isinstance(node.value, ast.Yield | ast.YieldFrom) and b.is_generator and node.value.value is not None:
        return _yielded(node.value, b.expression(node.value.value), b.at.first(node, len("yield")))
    value = b.expression(node.value)
    return t.ExprStmt(value, range=value.range)


def _yielded(node: ast.Yield | ast.YieldFrom, value: t.Expr, place: SourceRange) -> t.Stmt:
    """`yield value`; `yield from values` as a loop."""
    if isinstance(node, ast.Yield):
        return t.Yield(value, range=place)
    element = t.Var(t.Ident("$yielded", range=place), range=place)
    return t.For((element,), (value,), (t.Yield(element, range=place),), range=place)


def yields_within(function: t.Def) -> bool:
    """Does a function within a function yield?"""
    inner = (d for statement in function.body for d in statement.walk() if isinstance(d, t.Def))
    return any(isinstance(found, t.Yield) for d in inner for found in d.walk())


def returns(function: t.Def) -> t.Return | None:
    """A `return` of the function itself; None where it has none."""
    nested = {id(found) for statement in function.body for d in statement.walk() if isinstance(d, t.Def)
              for found in d.walk()}  # fmt: skip
    found = (s for statement in function.body for s in statement.walk() if isinstance(s, t.Return))
    return next((s for s in found if id(s) not in nested), None)
