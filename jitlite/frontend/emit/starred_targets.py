"""`a, *b = values` for a known number of values: `b` is a new list.

The parts stay known to the compiler, each with its own type, where the function only spreads, counts, indexes and
goes through them, or makes a tuple of them: nobody sees then what holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.types import MIXED_ELEMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.values import SimpleValue, SugaredValue, SymbolicList
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.types import Type


def starred_value(
    em: Emitter, name: str, parts: Sequence[SugaredValue], others: Sequence[SugaredValue], range: SourceRange
) -> SugaredValue:
    """What a starred target of this name is given.

    Args:
        others: what the other targets are given; an empty list is of their type.

    Raises:
        CompileError: the parts are of several types, and the list is used as a value.
    """
    if any(part.is_symbolic for part in parts):
        return SymbolicList(parts)
    values = [part.as_value(em, range) for part in parts]
    if values and _is_only_taken_apart(em.definition.tree, name):
        return SimpleValue(em.make_tuple(values))
    known = values or [other.as_value(em, range) for other in others if not other.is_symbolic]
    element = _common_type(known) or (None if values else T.TENSOR)
    if element is None:
        shown = " and ".join(sorted({value.type.annotation for value in values}))
        raise MIXED_ELEMENTS(
            f"the list that '*{name}' is given would hold values of several types: {shown}", range,
            hint="unpack them into a name each",
        )  # fmt: skip
    return SimpleValue(em.make_list(element, [em.declared(element, value, range) for value in values]))


def _common_type(values: Sequence[Value]) -> Type | None:
    return T.unify_all([T.unshaped(value.type) for value in values])


def _is_only_taken_apart(function: tree.Def, name: str) -> bool:
    """Is the variable only spread, measured, gone through, and read by index?"""
    uses = taken_apart = 0
    for at in function.walk():
        uses += _is_variable(at, name)
        taken_apart += _takes_apart(at, name)
        if any(_is_part(target, name) for target in _changed(at)):
            return False
    return uses > 0 and uses == taken_apart


def _takes_apart(at: tree.Tree, name: str) -> bool:
    match at:
        case tree.Apply(callee=tree.Var(name=tree.Ident(name="len" | "tuple")), args=(only,)):
            return _is_variable(only, name) or _spreads(at.args, name)
        case tree.Apply():
            return _spreads(at.args, name)
        case tree.Subscript(indices=(index,)):
            return _is_variable(at.value, name) and not isinstance(index, tree.SliceExpr)
        case tree.For(iterables=(iterable,)) | tree.ListComp(iterable=iterable):
            return _is_variable(iterable, name)
        case tree.TupleLiteral() | tree.ListLiteral():  # the target itself, or a display that spreads it
            return _spreads(at.elements, name)
    return False


def _spreads(elements: Sequence[tree.Expr], name: str) -> bool:
    return any(isinstance(e, tree.Starred) and _is_variable(e.value, name) for e in elements)


def _changed(at: tree.Tree) -> Sequence[tree.Expr]:
    if isinstance(at, tree.AugAssign):
        return [at.target]
    return at.targets if isinstance(at, tree.Assign | tree.Delete) else []


def _is_part(target: tree.Expr, name: str) -> bool:
    return isinstance(target, tree.Subscript) and _is_variable(target.value, name)


def _is_variable(at: tree.Tree, name: str) -> bool:
    return isinstance(at, tree.Var) and at.name.name == name
