"""Attributes that a module lacks, in branches that it does not take as it is now.

    if self.deep:                     # False, and without it __init__ makes no self.extra
        x = self.extra(x)

Python reads the attribute when it gets there, and raises an AttributeError. So does the graph: the branch ends with it.
Anywhere else the name is more likely a mistake, and refused.
"""

from __future__ import annotations

from typing import NoReturn

from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import StatementLeaves
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import ABSENT, UNKNOWN
from jitlite.frontend.emit.objects import object_definition
from jitlite.frontend.emit.special_methods import is_object
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName

_PLAIN = (bool, int, float, str, type(None))


def holds_now(em: Emitter, expr: tree.Expr) -> bool | None:
    """Does a condition hold for the module as it is, None where that depends on something else?"""
    match expr:
        case tree.UnaryOp(op="not"):
            found = holds_now(em, expr.operand)
            return None if found is None else not found
        case tree.BinOp(op="and" | "or"):
            decides = expr.op == "or"
            sides = [holds_now(em, expr.left), holds_now(em, expr.right)]
            return decides if decides in sides else None if None in sides else not decides
    found_value = _value_now(em, expr)
    return None if found_value is UNKNOWN else bool(found_value)


def _value_now(em: Emitter, expr: tree.Expr) -> object:
    """The value of what consists of literals and attributes of modules, as they are."""
    match expr:
        case tree.TrueLiteral() | tree.FalseLiteral():
            return isinstance(expr, tree.TrueLiteral)
        case tree.NoneLiteral():
            return None
        case tree.Const() | tree.StringLiteral():
            return expr.value
        case tree.Select(value=tree.Var() as owner):
            return _attribute_now(em, owner.name.name, expr.name.name)
        case tree.BinOp():
            return _comparison_now(em, expr)
    return UNKNOWN


def _attribute_now(em: Emitter, owner: str, name: str) -> object:
    t = em.frame.type_of(owner)
    if t is None and isinstance(sugar := em.frame.sugar_of(owner), SimpleValue):
        t = sugar.value.type
    if not isinstance(t, T.ClassType) or not t.is_module or t.definition is None:
        return UNKNOWN
    found = t.definition.value_now(name)
    return found if isinstance(found, _PLAIN) else UNKNOWN


def _comparison_now(em: Emitter, expr: tree.BinOp) -> object:
    left, right = _value_now(em, expr.left), _value_now(em, expr.right)
    if UNKNOWN in (left, right):
        return UNKNOWN
    if expr.op in ("is", "is not"):
        return (left is right) is (expr.op == "is")
    if expr.op in ("eq", "ne"):
        return (left == right) is (expr.op == "eq")
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return UNKNOWN
    orders = {"lt": left < right, "gt": left > right, "le": left <= right, "ge": left >= right}
    return orders.get(expr.op, UNKNOWN)


def is_absent(em: Emitter, owner: SugaredValue, name: str) -> bool:
    """Is it an attribute that a module lacks, in a branch that it does not take as it is?"""
    if not em.is_excluded or em.frame.block is not em.statement_block or not isinstance(owner, SimpleValue):
        return False
    return is_object(owner.value) and object_definition(owner.value).value_now(name) is ABSENT


def raise_absent(em: Emitter, range: SourceRange, owner: SugaredValue, name: str) -> NoReturn:
    """End the block with the AttributeError of Python."""
    value = owner.as_value(em, range)
    assert isinstance(value.type, T.ClassType)
    message = em.constant(f"'{value.type.python_class.__name__}' object has no attribute '{name}'", range)
    cls = em.constant(QualifiedClassName("builtins.AttributeError", AttributeError), range, T.STRING)
    em.node("prim::RaiseException", [message, cls], [], range)
    raise StatementLeaves
