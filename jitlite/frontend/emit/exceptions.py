"""Exceptions: raise, try, except, else, finally.

torch.jit has no `try`. A `prim::Try` runs its first block and, if that raises, its second, which gets the exception:

    try:                              prim::Try()
        f(x)                            block0():
    except KeyError:           =>         ...
        g(x)                              -> ()
                                        block1(%e : Exception):
                                          %c : bool = prim::IsException(%e, %KeyError)
                                          prim::If(%c)
                                            block0(): ...
                                            block1(): prim::Raise(%e)
                                          -> ()

An `else` is not protected, so it stands behind the node, under an if, and so do the handlers of a try that has one.

What a `finally` protects is a Try of its own, which keeps what it catches in a list of one element. Behind it come the
statements of the `finally`, once for all ways, and a `prim::Raise` of what was caught, if anything was. `exits.py` lets
returns go by way of them; a break or continue is noted in a variable, and made behind the finally, which may change
what the loop goes on with. Variables that the protected part sets are left to `ssa.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.statements import NO_EXCEPTION
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.branch_merge import Sides, merge_branches
from jitlite.frontend.emit.callables import ExceptionClass, ExceptionInstance
from jitlite.frontend.emit.conditional_assignment import store_placeholder
from jitlite.frontend.emit.emitter import Emitter, statement
from jitlite.frontend.emit.exception_values import exception_classes, is_one_of
from jitlite.frontend.emit.exits import FINALLY
from jitlite.frontend.emit.possibly_set import note_possible
from jitlite.frontend.emit.return_types import Unset
from jitlite.frontend.emit.scope import Frame
from jitlite.frontend.emit.statements import (
    Guarded,
    emit_branches,
    emit_jump,
    jumps_in,
)
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Value
from jitlite.ir.types import Type

_TRY_SIDES: Sides = ("body", "handlers", "try")
_CLAUSE_SIDES: Sides = ("clause", "clauses after it", "except")


# -- raise
@statement(tree.Raise)
def emit_raise(em: Emitter, stmt: tree.Raise) -> None:
    raised = _made(em, em.emit_sugared(stmt.exception), stmt.exception.range)
    if isinstance(raised, SimpleValue) and raised.value.type is T.EXCEPTION:
        _raise_value(em, raised.value, stmt.range)
    else:
        _raise_new(em, _instance(raised, stmt.exception.range), stmt.range)


@statement(tree.RaiseAgain)
def emit_raise_again(em: Emitter, stmt: tree.RaiseAgain) -> None:
    if not em.handled:
        raise NO_EXCEPTION.unsupported(
            "raise without an exception is not supported outside of a handler", stmt.range, hint="name the exception"
        )
    _raise_value(em, em.handled[-1], stmt.range)


@statement(tree.RaiseFrom)
def emit_raise_from(em: Emitter, stmt: tree.RaiseFrom) -> None:
    raised = _exception(em, stmt.exception)
    cause = em.constant(None, stmt.range) if isinstance(stmt.cause, tree.NoneLiteral) else _exception(em, stmt.cause)
    em.node("prim::RaiseFrom", [raised, cause], [], stmt.range)
    em.leaving.add(em.frame.block)


def _raise_value(em: Emitter, value: Value, range: SourceRange) -> None:
    em.node("prim::Raise", [value], [], range)
    em.leaving.add(em.frame.block)


def _raise_new(em: Emitter, raised: ExceptionInstance, range: SourceRange) -> None:
    em.node("prim::RaiseException", _parts(em, raised, range), [], range)
    em.leaving.add(em.frame.block)


def _parts(em: Emitter, raised: ExceptionInstance, range: SourceRange) -> list[Value]:
    """The text and the class of an exception, as values."""
    message = raised.message
    if message.type is not T.STRING:
        message = em.op("aten::str", [message], range=range)
    name = raised.cls.qualified
    return [message, em.constant(name, range, None if name is None else T.STRING)]


def _made(em: Emitter, raised: SugaredValue, range: SourceRange) -> SugaredValue:
    """What is raised, `X` standing for `X()`."""
    return raised.call(em, range, [], []) if isinstance(raised, ExceptionClass) else raised


def _instance(raised: SugaredValue, range: SourceRange) -> ExceptionInstance:
    if not isinstance(raised, ExceptionInstance):
        raise NO_EXCEPTION(
            "exceptions must derive from BaseException", range, found=raised.kind,
            hint='write `raise RuntimeError("...")`',
        )  # fmt: skip
    return raised


def _exception(em: Emitter, expr: tree.Expr) -> Value:
    """The exception that an expression gives: a caught one, or a new one."""
    sugared = _made(em, em.emit_sugared(expr), expr.range)
    if isinstance(sugared, SimpleValue) and sugared.value.type is T.EXCEPTION:
        return sugared.value
    parts = _parts(em, _instance(sugared, expr.range), expr.range)
    return em.node("prim::MakeException", parts, [T.EXCEPTION], expr.range).output


# -- try
@statement(tree.TryStmt)
@statement(Guarded)
def emit_try(em: Emitter, stmt: tree.TryStmt) -> None:
    if stmt.final:
        _emit_finally(em, stmt)
    else:
        _emit_except(em, stmt)
    for clause in stmt.handlers:
        # Python deletes the name at the end of the clause
        if clause.name is not None and em.frame.remove(clause.name.name):
            name = clause.name.name
            em.frame.reasons[name] = f"{name} is deleted at the end of the except clause at {clause.range.location()}"


def _emit_except(em: Emitter, stmt: tree.TryStmt) -> None:
    node = em.node("prim::Try", [], [], stmt.range)
    body, handler = node.add_block(), node.add_block()
    caught = handler.add_input(T.EXCEPTION)
    with em.inside(body) as body_frame:
        body_frame.is_followed = True
        em.emit_statements(stmt.body)
    new = _new_variables(em, body_frame, stmt.range)
    note_possible(em.frame, body_frame, node)
    if stmt.orelse and body not in em.leaving | em.jumping:
        _forget_narrower(em.frame, body_frame)
        _emit_else(em, stmt, (body, handler), new)
        return
    with em.inside(handler) as handler_frame:
        handler_frame.is_followed = True
        _forget_narrower(handler_frame, body_frame)
        _emit_clauses(em, stmt.handlers, caught, stmt.range)
        if isinstance(stmt, Guarded):
            handler_frame.types.update(new)
            em.unset.read.update((name, Unset(t, node)) for name, t in new.items() if name not in em.unset.read)
    merge_branches(em, stmt.range, (body, body_frame), (handler, handler_frame), _TRY_SIDES)


def _new_variables(em: Emitter, frame: Frame, range: SourceRange) -> dict[str, Type]:
    """The variables that a protected part defines, which may not be there if it raises; noted as not defined."""
    new = {name: t for name, t in frame.types.items() if name[0] != "$" and not em.frame.is_defined(name)}
    for name in new:
        em.frame.reasons[name] = f"{name} may not have been set when the body of the try at {range.location()} raises"
    return new


def _forget_narrower(frame: Frame, body: Frame) -> None:
    """Where the protected part may have been left anywhere, let its variables have what they are declared to hold."""
    for name in body.widened:
        declared = frame.declared_type(name)
        assert declared is not None
        frame.know(frame.graph_name(name), declared)


def _emit_else(em: Emitter, stmt: tree.TryStmt, blocks: tuple[Block, Block], new: dict[str, Type]) -> None:
    """Behind the Try, run the else, which knows the body's variables, or the handlers."""
    body, handler = blocks
    completed, error = em.temporary("completed"), em.temporary("error")
    carried = {name: em.temporary(name) for name in new}
    with em.graph.inserting_at_end(body), em.at(stmt.range):
        for name, temporary in carried.items():
            em.put_aside(name, temporary, new[name])
        _store(em, completed, em.constant(True, stmt.range))
        _store(em, error, em.uninitialized(T.EXCEPTION))
    with em.graph.inserting_at_end(handler), em.at(stmt.range):
        _store(em, completed, em.constant(False, stmt.range))
        _store(em, error, handler.inputs[0])
    for name, temporary in carried.items():
        store_placeholder(em, handler, temporary, new[name])

    def emit_else() -> None:
        for name, temporary in carried.items():
            em.take_back(temporary, name, new[name], stmt.range)
        em.emit_statements(stmt.orelse)

    def emit_clauses() -> None:
        _emit_clauses(em, stmt.handlers, em.frame.load(em, error, T.EXCEPTION), stmt.range)

    goes_on = em.frame.load(em, completed, T.BOOL)
    emit_branches(em, stmt.range, goes_on, emit_else, emit_clauses, ("else", "handlers", "try"))


def _store(em: Emitter, name: str, value: Value) -> None:
    em.graph.insert("prim::Store", (value,), (), {"name": name})


# -- except
def _emit_clauses(em: Emitter, clauses: Sequence[tree.Handler], caught: Value, range: SourceRange) -> None:
    """The first clause that names a class of the exception; none lets it through."""
    if not clauses:
        _raise_value(em, caught, range)
        return
    first, *others = clauses
    classes = [] if first.type is None else exception_classes(em, first.type)
    if not classes or any(c.cls is BaseException for c in classes):
        _emit_clause(em, first, caught)
        return
    with em.at(first.range):
        condition = is_one_of(em, caught, classes, first.range)
        emit_branches(
            em, first.range, condition,
            lambda: _emit_clause(em, first, caught), lambda: _emit_clauses(em, others, caught, range), _CLAUSE_SIDES,
        )  # fmt: skip


def _emit_clause(em: Emitter, clause: tree.Handler, caught: Value) -> None:
    if clause.name is not None:
        # no Store: the name is bound in this clause only, whatever a variable of that name is elsewhere
        em.frame.sugared[clause.name.name] = SimpleValue(caught)
        em.frame.symbolic.add(clause.name.name)
    em.handled.append(caught)
    try:
        em.emit_statements(clause.body)
    finally:
        em.handled.pop()


# -- finally
def _emit_finally(em: Emitter, stmt: tree.TryStmt) -> None:
    kept = T.OptionalType.of(T.EXCEPTION)
    cell = em.make_list(kept, [em.constant(None, stmt.range)])
    node = em.node("prim::Try", [], [], stmt.range)
    node.attributes[FINALLY] = True
    body, handler = node.add_block(), node.add_block()
    caught = handler.add_input(T.EXCEPTION)
    words = _jumps(em, stmt)
    jump = em.temporary("jump")
    if words:
        with em.graph.inserting_before(node):
            _store(em, jump, em.constant(0, stmt.range))

    def leave(word: str) -> None:
        _store(em, jump, em.constant(words[word]))
        em.node("prim::LeaveTry", [], [])

    with em.inside(body) as body_frame, em.in_try(leave):
        body_frame.is_followed = True
        if stmt.handlers:
            _emit_except(em, stmt)
        else:
            em.emit_statements(stmt.body)
    with em.graph.inserting_at_end(handler):
        em.node("prim::SetCell", [cell, caught], [], stmt.range)
    new = _new_variables(em, body_frame, stmt.range)
    note_possible(em.frame, body_frame, node)
    _forget_narrower(em.frame, body_frame)
    with em.in_loop("none" if em.loop == "none" else "finally"):
        em.emit_statements(stmt.final)
    # also behind a return: `exits.py` reads off the pair which nodes the finally consists of
    pending = em.node("prim::GetCell", [cell], [kept], stmt.range).output
    em.node("prim::Raise", [pending], [], stmt.range).attributes[FINALLY] = True
    if em.frame.block in em.leaving:
        return
    for word, number in words.items():
        _emit_jump_behind(em, word, em.frame.load(em, jump, T.INT), number, stmt.range)
    _go_on_behind(em, body, handler, new)


def _jumps(em: Emitter, stmt: tree.TryStmt) -> dict[str, int]:
    """The ways in which the protected part leaves the loop around, each with a number."""
    found = jumps_in([*stmt.body, *stmt.handlers, *stmt.orelse]) if em.loop == "loop" else ()
    ways = (("break", tree.Break, 1), ("continue", tree.Continue, 2))
    return {word: number for word, kind, number in ways if kind in found}


def _emit_jump_behind(em: Emitter, word: str, taken: Value, number: int, range: SourceRange) -> None:
    """Behind the finally, leave the loop as the protected part wanted to."""
    wanted = em.op("aten::eq", [taken, em.constant(number, range)], range=range)
    emit_branches(em, range, wanted, lambda: emit_jump(em, word, range), lambda: None)


def _go_on_behind(em: Emitter, body: Block, handler: Block, new: dict[str, Type]) -> None:
    """What the body has defined is defined behind the finally, which is reached if the body came to its end."""
    block = em.frame.block
    for ends in (em.leaving, em.jumping):
        if body in ends:
            ends.add(block)
            return
    for name, t in new.items():
        if name not in em.frame.types:  # else the finally has set it, too
            store_placeholder(em, handler, name, t)
            em.frame.know(name, t)
            em.frame.reasons.pop(name, None)
