"""Statements: control flow, raise, assert, with, del. Assignments are in `assignment.py`."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.frontend import tree
from jitlite.frontend.conditions import emit_condition, insert_refinements
from jitlite.frontend.emitter import Emitter, statement
from jitlite.frontend.iteration import emit_for, emit_loop
from jitlite.frontend.scope import Condition, Frame, RefinementSet
from jitlite.frontend.values import ContextClass, ExceptionClass, ExceptionInstance, SimpleValue
from jitlite.ir import types as T
from jitlite.ir.graph import Block, Value
from jitlite.ir.types import Type
from jitlite.source import CompileError, NotSupportedError, SourceRange


# -- simple statements
@statement(tree.ExprStmt)
def emit_expression_statement(em: Emitter, stmt: tree.ExprStmt) -> None:
    if not isinstance(stmt.value, tree.StringLiteral | tree.Dots):  # a doc string, or a body of `...`
        em.emit_sugared(stmt.value)


@statement(tree.Pass)
def emit_pass(em: Emitter, stmt: tree.Pass) -> None:
    pass


@statement(tree.Global)
def emit_global(em: Emitter, stmt: tree.Global) -> None:
    raise NotSupportedError("global variables cannot be assigned in TorchScript", stmt.range)


@statement(tree.Def)
def emit_nested_function(em: Emitter, stmt: tree.Def) -> None:
    raise NotSupportedError(
        "function definitions aren't supported inside a function", stmt.name.range, hint="define it outside"
    )


@statement(tree.Return)
def emit_return(em: Emitter, stmt: tree.Return) -> None:
    em.emit_return(em.emit(stmt.value, em.returns[-1].declared), stmt.range)


@statement(tree.Delete)
def emit_delete(em: Emitter, stmt: tree.Delete) -> None:
    for target in stmt.targets:
        if isinstance(target, tree.Var):
            if not em.frame.remove(target.name.name):
                raise CompileError(f"undefined value {target.name.name}", target.range)
        elif isinstance(target, tree.Subscript):
            _delete_item(em, target, stmt.range)
        else:
            raise NotSupportedError("del works on variables and on items of lists and dicts", target.range)


def _delete_item(em: Emitter, target: tree.Subscript, range: SourceRange) -> None:
    if len(target.indices) != 1 or isinstance(target.indices[0], tree.SliceExpr):
        raise NotSupportedError("del deletes one item, not a slice", target.range)
    container = em.emit(target.value)
    em.op("aten::Delete", [container, em.emit(target.indices[0])], range=range)


@statement(tree.Raise)
def emit_raise(em: Emitter, stmt: tree.Raise) -> None:
    raised = em.emit_sugared(stmt.exception)
    if isinstance(raised, ExceptionClass):
        raised = ExceptionInstance(raised, em.constant("", stmt.range))
    if not isinstance(raised, ExceptionInstance):
        raise CompileError(
            "exceptions must derive from BaseException", stmt.exception.range, found=raised.kind,
            hint='write `raise RuntimeError("...")`',
        )  # fmt: skip
    raise_exception(em, raised, stmt.range)


def raise_exception(em: Emitter, raised: ExceptionInstance, range: SourceRange) -> None:
    """Emit the raising of `raised` and mark the block as left."""
    message = raised.message
    if message.type is not T.STRING:
        message = em.op("aten::str", [message], range=range)
    qualified = em.constant(raised.cls.qualified, range, None if raised.cls.qualified is None else T.STRING)
    em.node("prim::RaiseException", [message, qualified], [], range)
    em.leaving.add(em.frame.block)


@statement(tree.Assert)
def emit_assert(em: Emitter, stmt: tree.Assert) -> None:
    """`assert c, m` is `if c: pass` `else: raise AssertionError(m)`."""
    condition = emit_condition(em, stmt.condition)
    message = stmt.message or tree.StringLiteral("", range=stmt.range)
    callee = tree.Var(tree.Ident("AssertionError", range=stmt.range), range=stmt.range)
    error = tree.Apply(callee, (message,), (), range=stmt.range)
    emit_if_else(em, stmt.range, condition, (), (tree.Raise(error, range=stmt.range),))


# -- if
@statement(tree.If)
def emit_if(em: Emitter, stmt: tree.If) -> None:
    emit_if_else(em, stmt.range, emit_condition(em, stmt.cond), stmt.then, stmt.orelse)


def emit_if_else(
    em: Emitter,
    range: SourceRange,
    condition: Condition,
    then: Sequence[tree.Stmt],
    orelse: Sequence[tree.Stmt],
) -> None:
    """Emit both branches, or only the one a statically known condition takes."""
    if condition.static is not None:
        refinements = condition.refinements if condition.static else condition.refinements.negation()
        insert_refinements(em, refinements, range)
        em.emit_statements(then if condition.static else orelse)
        return
    node = em.node("prim::If", [condition.value], [], range)
    true_block, false_block = node.add_block(), node.add_block()
    true_frame = _emit_branch(em, true_block, then, condition.refinements, range)
    false_frame = _emit_branch(em, false_block, orelse, condition.refinements.negation(), range)
    if {true_block, false_block} <= em.leaving | em.jumping:
        (em.leaving if {true_block, false_block} <= em.leaving else em.jumping).add(em.frame.block)
        return
    _merge_branches(em, range, (true_block, true_frame), (false_block, false_frame))


def _emit_branch(
    em: Emitter, block: Block, statements: Sequence[tree.Stmt], refinements: RefinementSet, range: SourceRange
) -> Frame:
    with em.inside(block) as frame:
        insert_refinements(em, refinements, range)
        em.emit_statements(statements)
    return frame


def _merge_branches(em: Emitter, range: SourceRange, true: tuple[Block, Frame], false: tuple[Block, Frame]) -> None:
    """Bring the variables that both branches define, or the only branch that goes on, into the frame around."""
    (true_block, true_frame), (false_block, false_frame) = true, false
    for name in sorted({*true_frame.types, *false_frame.types}):
        types = []
        for (block, frame), side in ((true, "true"), (false, "false")):
            found = None if block in em.leaving else frame.type_of(name)
            if found is None and block not in em.leaving and block not in em.jumping:
                em.frame.reasons[name] = f"{name} is not defined in the {side} branch of the if at {range.location()}"
            types.append(found)
        merged = _merged_type(em, range, name, types, (true_block, false_block))
        if merged is None:
            continue
        for block, own, other in ((true_block, types[0], types[1]), (false_block, types[1], types[0])):
            gone = own is None or (block in em.jumping and not T.is_subtype(own, merged))
            if gone:
                _store_placeholder(em, block, name, other or merged)
        em.frame.types[name] = merged
        em.frame.sugared.pop(name, None)
        em.frame.reasons.pop(name, None)


def _store_placeholder(em: Emitter, block: Block, name: str, type: Type) -> None:
    """In a branch that leaves, give a variable of the other branch a value that is never read."""
    with em.graph.inserting_at_end(block):
        value = em.uninitialized(type)
        em.graph.insert("prim::Store", (value,), (), {"name": name})


def _merged_type(
    em: Emitter, range: SourceRange, name: str, types: Sequence[Type | None], blocks: tuple[Block, Block]
) -> Type | None:
    """The type of a variable after an if; None where it is not defined afterwards."""
    true, false = types
    gone = [block in em.leaving or block in em.jumping for block in blocks]
    if true is None or false is None:
        only = false if true is None else true
        return only if gone[0 if true is None else 1] else None
    outer = em.frame.type_of(name)
    widen = isinstance(outer, T.UnionType) or outer is T.NUMBER
    for block, own, other in ((blocks[0], true, false), (blocks[1], false, true)):
        # what a branch that jumps away leaves in a variable matters only if it fits
        if block in em.jumping and not T.is_subtype(own, other):
            return other
    merged = T.unify(true, false, default_to_union=widen)
    if merged is None:
        message = (
            f"Type mismatch: {name} is set to type {true.annotation} in the true branch and type "
            f"{false.annotation} in the false branch"
        )
        if outer is not None:
            raise CompileError(message, range)
        em.frame.reasons[name] = f"{message} of the if at {range.location()}, and was used here"
    return merged


# -- loops
@statement(tree.While)
def emit_while(em: Emitter, stmt: tree.While) -> None:
    emit_loop(em, stmt.range, lambda: em.emit_statements(stmt.body), condition=stmt.cond)


@statement(tree.For)
def emit_for_statement(em: Emitter, stmt: tree.For) -> None:
    emit_for(em, stmt.range, stmt.targets, stmt.iterables[0], lambda: em.emit_statements(stmt.body))


@statement(tree.Break)
def emit_break(em: Emitter, stmt: tree.Break) -> None:
    _emit_jump(em, stmt, "break", "prim::BreakStmt")


@statement(tree.Continue)
def emit_continue(em: Emitter, stmt: tree.Continue) -> None:
    _emit_jump(em, stmt, "continue", "prim::ContinueStmt")


def _emit_jump(em: Emitter, stmt: tree.Stmt, word: str, kind: str) -> None:
    if em.loop == "none":
        raise CompileError(f"'{word}' outside loop", stmt.range)
    if em.loop == "unrolled":
        raise NotSupportedError(
            f"'{word}' inside a loop over a tuple or module container, which is unrolled at compile time",
            stmt.range,
            hint="loop over a list",
        )
    em.node(kind, [], [], stmt.range)
    em.jumping.add(em.frame.block)


# -- with
@statement(tree.With)
def emit_with(em: Emitter, stmt: tree.With) -> None:
    entered: list[Value] = []
    for item in stmt.items:
        manager = _emit_context_manager(em, item)
        node = em.node("prim::Enter", [manager], [T.NONE], item.range)
        entered.append(manager)
        if item.target is not None:
            em.assign(item.target.name.name, SimpleValue(node.output), item.target.range)
    em.emit_statements(stmt.body)
    # also behind a return: `exits.py` reads off the pair which nodes the manager encloses
    for manager in reversed(entered):
        em.node("prim::Exit", [manager], [T.NONE], stmt.range)


def _emit_context_manager(em: Emitter, item: tree.WithItem) -> Value:
    sugared = em.emit_sugared(item.value)
    if isinstance(sugared, ContextClass):
        raise CompileError(
            f"{sugared.kind} is not an object", item.value.range, hint="call it: `with torch.no_grad():`"
        )
    value = sugared.as_value(em, item.value.range)
    if not isinstance(value.type, T.ClassType):
        raise CompileError("with needs a context manager", item.value.range, found=value.type.annotation)
    return value
