"""`next(x for x in xs if f(x))` and `next(iter(xs), default)`: a loop that ends at its first element.

Of `m.parameters()` and the like it is the first part, which is known where the program is compiled.

An iterator that is kept in a variable goes on where it was left, so there is no such thing in a graph, and `next` of
one is refused.
"""

from __future__ import annotations

import builtins

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.errors.types import MIXED_ELEMENTS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import StatementLeaves
from jitlite.frontend.emit.calls import form
from jitlite.frontend.emit.containers import MODULE_VIEWS, PartsMethod
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.possibly_set import accesses
from jitlite.frontend.emit.values import SimpleValue, SpecialForm, SugaredTuple, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value
from jitlite.ir.types import Type


@form("next", 1, 2)
def emit_next(em: Emitter, call: tree.Apply, special: SpecialForm, hint: Type | None) -> SugaredValue:
    range = call.range
    iterable = _iterable(em, call.args[0])
    # Python evaluates it before it asks for an element
    default = KnownValue(em.emit_sugared(call.args[1], hint), range=range) if len(call.args) == 2 else None
    if isinstance(iterable, KnownValue) and (parts := _parts(em, iterable)):
        return parts[0]
    flag, result = em.temporary("has next"), em.temporary("next")
    em.assign(flag, SimpleValue(em.constant(False, range)), range)
    start = em.frame.store(em, flag, em.constant(False, range), T.BOOL, range)
    em.emit_statements([_until_first(iterable, flag, result, range)])
    found = _first(em, result, start, range)
    has_found = _var(flag, range)
    if default is None:
        ends = tree.Raise(tree.Apply(_var("StopIteration", range), (), (), range=range), range=range)
        if found is None and em.frame.block is em.statement_block:
            em.emit_statements([ends])
            raise StatementLeaves  # there is nothing whose type the statement could go by
        em.emit_statements([tree.IfStmt(tree.UnaryOp("not", has_found, range=range), (ends,), (), range=range)])
        return SimpleValue(em.constant(None, range) if found is None else found)
    if found is None:
        return default.value
    value = KnownValue(SimpleValue(found), range=range)
    return em.emit_sugared(tree.TernaryIf(has_found, value, default, range=range), hint)


def _iterable(em: Emitter, source: tree.Expr) -> tree.Expr:
    """What is gone through: an expression that gives a new iterator, or the argument of `iter`.

    Raises:
        CompileError: an iterator that others may ask, too.
    """
    match source:
        case tree.ListComp() if source.is_generator:
            return source
        case tree.Apply(args=(iterable,), keywords=()) if _is_builtin(em, source.callee, "iter"):
            return KnownValue(em.emit_sugared(iterable), range=source.range) if _may_be_view(iterable) else iterable
        case tree.Apply(callee=tree.Var()) if _gives_iterator(em, source.callee):
            return source
        case tree.Apply() if _may_be_view(source) and isinstance(method := em.emit_sugared(source.callee), PartsMethod):
            call = tree.Apply(KnownValue(method, range=source.range), source.args, source.keywords, range=source.range)
            return KnownValue(em.emit_sugared(call), range=source.range)
    raise WRONG_ARGUMENTS(
        "next takes a generator expression, iter(x) or a call that gives an iterator: scripts keep none", source.range,
        hint="write `next(iter(x))` for the first element, or a loop",
    )  # fmt: skip


def _may_be_view(expr: tree.Expr) -> bool:
    """Is this spelled like `m.parameters()`?"""
    match expr:
        case tree.Apply(callee=tree.Select(name=tree.Ident(name=name))):
            return name in MODULE_VIEWS
    return False


def _parts(em: Emitter, view: KnownValue) -> list[SugaredValue]:
    """The parts that `m.parameters()` and the like go through; none where these are known at run time only."""
    found = view.value.iterate(em, view.range)
    return found.parts if isinstance(found, SugaredTuple) else []


def _gives_iterator(em: Emitter, callee: tree.Expr) -> bool:
    """Does a call give a new iterator, which nobody else asks?"""
    return any(_is_builtin(em, callee, name) for name in ("enumerate", "zip", "map", "filter", "reversed"))


def _is_builtin(em: Emitter, callee: tree.Expr, name: str) -> bool:
    if not isinstance(callee, tree.Var) or em.frame.is_defined(callee.name.name):
        return False
    try:
        return em.resolver.lookup(callee.name.name) is getattr(builtins, name)
    except LookupError:
        return callee.name.name == name


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
