"""`next(x for x in xs if f(x))` and `next(iter(xs), default)`: a loop that ends at its first element.

An iterator that is kept in a variable goes on where it was left, so there is no such thing in a graph, and `next` of
one is refused.
"""

from __future__ import annotations

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.errors.types import MIXED_ELEMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.possibly_set import accesses
from jitlite.frontend.emit.values import SimpleValue, SpecialForm, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value
from jitlite.ir.types import Type


@form("next", 1, 2)
def emit_next(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    range = call.range
    flag, result = em.temporary("has next"), em.temporary("next")
    em.assign(flag, SimpleValue(em.constant(False, range)), range)
    start = em.frame.store(em, flag, em.constant(False, range), T.BOOL, range)
    iterable = _iterable(em, call)
    # Python evaluates it before it asks for an element
    default = KnownValue(em.emit_sugared(call.args[1], hint), range=range) if len(call.args) == 2 else None
    em.emit_statements([_until_first(iterable, flag, result, range)])
    found = _first(em, result, start, range)
    has_found = _var(flag, range)
    if default is None:
        ends = tree.Apply(_var("StopIteration", range), (), (), range=range)
        missing = tree.UnaryOp("not", has_found, range=range)
        em.emit_statements([tree.IfStmt(missing, (tree.Raise(ends, range=range),), (), range=range)])
        return SimpleValue(em.constant(None, range) if found is None else found)
    if found is None:
        return default.value
    value = KnownValue(SimpleValue(found), range=range)
    return em.emit_sugared(tree.TernaryIf(has_found, value, default, range=range), hint)


def _iterable(em: Emitter, call: tree.Apply) -> tree.Expr:
    """What is gone through: a generator expression, or the argument of `iter`.

    Raises:
        CompileError: an iterator that others may ask, too.
    """
    source = call.args[0]
    match source:
        case tree.ListComp() if source.is_generator:
            return source
        case tree.Apply(args=(iterable,), keywords=()) if _is_iter(em, source.callee):
            return iterable
    raise WRONG_ARGUMENTS(
        "next takes a generator expression or iter(x): scripts keep no iterators", source.range,
        hint="write `next(iter(x))` for the first element, or a loop",
    )  # fmt: skip


def _is_iter(em: Emitter, callee: tree.Expr) -> bool:
    if not isinstance(callee, tree.Var) or em.frame.is_defined(callee.name.name):
        return False
    try:
        return em.resolver.lookup(callee.name.name) is iter
    except LookupError:
        return callee.name.name == "iter"


def _until_first(iterable: tree.Expr, flag: str, result: str, range: SourceRange) -> tree.Stmt:
    """The loop that sets the result to the first element, and the flag."""
    item = _var(f"{result} item", range)
    body = (
        tree.Assign((_var(result, range),), item, None, range=range),
        tree.Assign((_var(flag, range),), tree.TrueLiteral(range=range), None, range=range),
        tree.Break(range=range),
    )
    return tree.For((item,), (iterable,), body, range=range)


def _first(em: Emitter, result: str, start: Node, range: SourceRange) -> Value | None:
    """The value that the loop has set, if it has; None where it goes through nothing.

    Raises:
        CompileError: it may be of several types.
    """
    types = {n.input.type for n in accesses(em.graph.block, result) if n.kind == "prim::Store"}
    if not types:
        return None
    if len(types) > 1:
        raise MIXED_ELEMENTS("what next gives is of several types", range,
                             found=" and ".join(sorted(t.annotation for t in types)))  # fmt: skip
    (type,) = types
    with em.graph.inserting_before(start):
        em.graph.insert("prim::Store", (em.uninitialized(type),), (), {"name": result})
    return em.frame.load(em, result, type)


def _var(name: str, range: SourceRange) -> tree.Var:
    return tree.Var(tree.Ident(name, range=range), range=range)
