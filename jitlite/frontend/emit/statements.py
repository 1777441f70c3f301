"""Statements: control flow, assert, with, del. Assignments are in `assignment.py`, raise and try in `exceptions.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitlite.base.changed import Changed
from jitlite.base.errors.names import UNKNOWN_NAME
from jitlite.base.errors.statements import BAD_SYNTAX, LOOP_EXIT, NO_CONTEXT, NO_DELETE
from jitlite.base.records import replace
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.absent_attributes import holds_now
from jitlite.frontend.emit.branch_merge import IF_SIDES, Sides, merge_branches
from jitlite.frontend.emit.branch_refinement import Branches
from jitlite.frontend.emit.callables import ContextClass
from jitlite.frontend.emit.conditions import emit_condition, insert_refinements
from jitlite.frontend.emit.emitter import Emitter, statement
from jitlite.frontend.emit.indexing import of_tuple_key, single_index
from jitlite.frontend.emit.iterable_values import SliceValue
from jitlite.frontend.emit.iteration import Body, emit_for, emit_loop
from jitlite.frontend.emit.known_values import KnownValue
from jitlite.frontend.emit.library_calls import filtered
from jitlite.frontend.emit.list_slices import delete_slice
from jitlite.frontend.emit.objects import ObjectDefinition
from jitlite.frontend.emit.possibly_set import is_set_outside_loop, read_possible
from jitlite.frontend.emit.return_types import Returned, Unset
from jitlite.frontend.emit.scope import Condition, Frame
from jitlite.frontend.emit.special_methods import call_magic, is_object
from jitlite.frontend.emit.symbolic_values import closed
from jitlite.frontend.emit.values import BuiltinFunction, SimpleValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import with_own_variables
from jitlite.ir import types as T
from jitlite.ir.graph import Node, Value, constant_of, is_constant
from jitlite.ir.schema import Schema
from jitlite.ir.types import Type


# -- simple statements
@statement(tree.ExprStmt)
def emit_expression_statement(em: Emitter, stmt: tree.ExprStmt) -> None:
    if not isinstance(stmt.value, tree.StringLiteral | tree.Dots):  # a doc string, or a body of `...`
        em.emit_sugared(stmt.value)


@statement(tree.Pass)
def emit_pass(em: Emitter, stmt: tree.Pass) -> None:
    pass


@statement(tree.Return)
def emit_return(em: Emitter, stmt: tree.Return) -> None:
    types = em.returns[-1]
    found = em.emit_sugared(stmt.value, types.declared)
    if types.symbolic is None or not found.is_symbolic:
        em.emit_return(em.emit(KnownValue(found, range=stmt.value.range), types.declared), stmt.range)
        return
    outside = next(frame.parent for frame in em.frame.chain() if frame.starts_function)
    assert outside is not None
    found = closed(em, found, outside, stmt.range)
    node = em.node("prim::ReturnStmt", [em.constant(None, stmt.range)], [], stmt.range)
    types.symbolic.append(Returned(node, found))
    em.leaving.add(em.frame.block)


def _leaves(statements: Sequence[tree.Stmt]) -> bool:
    """Do statements end with one that leaves them?"""
    return bool(statements) and isinstance(statements[-1], tree.Return | tree.Raise | tree.Break | tree.Continue)


@statement(tree.Delete)
def emit_delete(em: Emitter, stmt: tree.Delete) -> None:
    for target in stmt.targets:
        if isinstance(target, tree.Var):
            _delete_variable(em, target.name.name, target.range)
        elif isinstance(target, tree.Subscript):
            _delete_item(em, target, target.range)
        else:
            raise NO_DELETE.unsupported("del works on variables and on items of lists and dicts", target.range)


def _delete_variable(em: Emitter, name: str, range: SourceRange) -> None:
    if not em.frame.is_defined(name) and read_possible(em, em.frame, em.unset.read, name) is None:
        raise UNKNOWN_NAME(f"undefined value {name}", range)
    found, in_graph = em.frame.type_of(name), em.frame.graph_name(name)
    is_repeated = is_set_outside_loop(em.frame, name)
    if em.frame.remove(name) and found is not None:
        mark = em.graph.insert("prim::Store", (em.uninitialized(found),), (), {"name": in_graph})
        em.unset.deletions.add(mark)
        if is_repeated:
            em.unset.read.setdefault(in_graph, Unset(found, mark))


def _delete_item(em: Emitter, target: tree.Subscript, range: SourceRange) -> None:
    container = em.emit(target.value)
    index = single_index(em, of_tuple_key(target, SimpleValue(container)), container.type)
    if isinstance(index, SliceValue):
        if not isinstance(container.type, T.ListType):
            raise NO_DELETE.unsupported("del deletes slices of lists only", target.range)
        delete_slice(em, range, container, index)
        return
    if call_magic(em, range, container, "__delitem__", index) is not None:
        return
    if is_object(container):
        raise NO_DELETE(f"Class does not define __delitem__: '{container.type.annotation}'", target.range)
    em.op("aten::Delete", [container, index], range=range)


@statement(tree.Assert)
def emit_assert(em: Emitter, stmt: tree.Assert) -> None:
    """`assert c, m` is `if c: pass` `else: raise AssertionError(m)`."""
    condition = emit_condition(em, stmt.condition)
    message = stmt.message or tree.StringLiteral("", range=stmt.range)
    callee = tree.Var(tree.Ident("AssertionError", range=stmt.range), range=stmt.range)
    error = tree.Apply(callee, (message,), (), range=stmt.range)
    emit_if_else(em, stmt.range, condition, (), (tree.Raise(error, range=stmt.range),))


# -- if
@statement(tree.IfStmt)
def emit_if(em: Emitter, stmt: tree.IfStmt) -> None:
    condition = emit_condition(em, stmt.cond)
    now = None if condition.static is not None else holds_now(em, stmt.cond)

    def branch(statements: Sequence[tree.Stmt], taken: bool) -> None:
        with Changed(em, "is_excluded", em.is_excluded or now is (not taken)):
            em.emit_statements(statements)

    emit_chosen(em, stmt.range, condition, lambda: branch(stmt.then, True), lambda: branch(stmt.orelse, False))
    if now is not None and _leaves(stmt.then if now else stmt.orelse):
        em.is_excluded = True  # what follows is the other branch


def emit_if_else(
    em: Emitter,
    range: SourceRange,
    condition: Condition,
    then: Sequence[tree.Stmt],
    orelse: Sequence[tree.Stmt],
) -> None:
    """Emit both branches, or only the one a statically known condition takes."""
    emit_chosen(em, range, condition, lambda: em.emit_statements(then), lambda: em.emit_statements(orelse))


def emit_chosen(
    em: Emitter, range: SourceRange, condition: Condition, then: Callable[[], None], orelse: Callable[[], None]
) -> None:
    """`emit_if_else` for branches of any kind."""
    refinements = condition.refinements
    if condition.static is not None:
        insert_refinements(em, refinements if condition.static else refinements.negation(), range)
        (then if condition.static else orelse)()
        return

    def emit_then() -> None:
        insert_refinements(em, refinements, range)
        then()

    def emit_orelse() -> None:
        insert_refinements(em, refinements.negation(), range)
        orelse()

    emit_branches(em, range, condition.value, emit_then, emit_orelse)


def emit_branches(
    em: Emitter,
    range: SourceRange,
    condition: Value,
    then: Callable[[], None],
    orelse: Callable[[], None],
    sides: Sides = IF_SIDES,
) -> None:
    """Emit an if whose branches are emitted by `then` and `orelse`."""
    node = em.node("prim::If", [condition], [], range)
    true_block, false_block = node.add_block(), node.add_block()
    branches = Branches(em)
    with em.inside(true_block) as true_frame:
        then()
    branches.add(true_block, true_frame)
    with em.inside(false_block) as false_frame:
        orelse()
    branches.add(false_block, false_frame)
    branches.join()
    merge_branches(em, range, (true_block, true_frame), (false_block, false_frame), sides)


# -- loops
@statement(tree.While)
@statement(tree.For)
def emit_loop_statement(em: Emitter, stmt: tree.While | tree.For) -> None:
    _emit_loop_statement(em, stmt, None)


def _emit_loop_statement(em: Emitter, stmt: tree.While | tree.For, on_break: Callable[[], None] | None) -> None:
    if isinstance(stmt, tree.For):
        stmt = _without_generator(em, stmt)
    body = Body(partial(em.emit_statements, stmt.body), jumps_in(stmt.body), on_break)
    if isinstance(stmt, tree.While) and any(isinstance(at, tree.NamedExpr) for at in stmt.cond.walk()):
        found = list[Condition]()
        emit_loop(em, stmt.range, replace(body, emit=partial(_emit_with_condition, em, stmt, found)))
        if tree.Break not in body.jumps:
            insert_refinements(em, found[-1].refinements.negation(), stmt.range)
    elif isinstance(stmt, tree.While):
        emit_loop(em, stmt.range, body, condition=stmt.cond)
    else:
        emit_for(em, stmt.range, stmt.targets, stmt.iterables[0], body)


def _emit_with_condition(em: Emitter, stmt: tree.While, found: list[Condition]) -> None:
    """The condition of a loop that sets variables, and its body: `while c: ...` as `while True: if not c: break ...`.

    The condition of a loop has a block of its own, and what is set there is gone behind it.

    Args:
        found: gets the condition, each time that the loop is emitted.
    """
    found.append(emit_condition(em, stmt.cond))
    with em.in_loop("loop"):  # it does not count as a break
        emit_chosen(em, stmt.range, found[-1], lambda: None, lambda: emit_jump(em, "break", stmt.cond.range))
    em.emit_statements(stmt.body)


def _without_generator(em: Emitter, stmt: tree.For) -> tree.For:
    """A loop over a generator expression with conditions or several loops, as loops and conditions around its body."""
    expr = filtered(em, stmt.iterables[0]) or stmt.iterables[0]
    if not (isinstance(expr, tree.ListComp) and expr.is_generator and expr.clauses):
        return stmt
    if tree.Break in jumps_in(stmt.body) and any(isinstance(c, tree.ComprehensionFor) for c in expr.clauses):
        raise LOOP_EXIT(
            "break is not supported in a loop over a generator expression with several loops", stmt.range,
            hint="write the loops as statements, or brackets in place of the parentheses: [... for ...]",
        )  # fmt: skip
    expr = with_own_variables(expr, em.temporary("generator"))
    body: tuple[tree.Stmt, ...] = (tree.Assign(stmt.targets, expr.element, None, range=expr.range), *stmt.body)
    for clause in reversed(expr.clauses):
        if isinstance(clause, tree.ComprehensionFor):
            body = (tree.For((clause.target,), (clause.iterable,), body, range=clause.range),)
        else:
            body = (tree.IfStmt(clause.condition, body, (), range=clause.range),)
    return tree.For((expr.target,), (expr.iterable,), body, range=stmt.range)


def jumps_in(statements: Sequence[tree.Tree]) -> frozenset[type[tree.Stmt]]:
    """Which of `Break` and `Continue` occur in a loop's body and are about that loop."""
    found: set[type[tree.Stmt]] = set()
    waiting: list[tree.Tree] = list(statements)
    while waiting:
        at = waiting.pop()
        if isinstance(at, tree.Break | tree.Continue):
            found.add(type(at))
        elif isinstance(at, tree.LoopElse):
            waiting.extend(at.orelse)
        elif not isinstance(at, tree.For | tree.While | tree.Def | tree.Expr):
            waiting.extend(at.children())
    return frozenset(found)


@statement(tree.LoopElse)
def emit_loop_else(em: Emitter, stmt: tree.LoopElse) -> None:
    """A loop with an else, which is run unless a break says otherwise."""
    if tree.Break not in jumps_in(stmt.loop.body):
        _emit_loop_statement(em, stmt.loop, None)
        if em.frame.block not in em.leaving:
            em.emit_statements(stmt.orelse)
        return
    completed = em.temporary("completed")
    start = em.graph.insert("prim::Store", (em.constant(True, stmt.range),), (), {"name": completed})
    loop_frame, breaks = em.frame, list[tuple[Node, dict[str, Type]]]()

    def on_break() -> None:
        store = em.graph.insert("prim::Store", (em.constant(False, stmt.range),), (), {"name": completed})
        breaks.append((store, _defined_within(em.frame, loop_frame)))

    _emit_loop_statement(em, stmt.loop, on_break)
    found = _carry_out(em, start, breaks)
    goes_on = em.frame.load(em, completed, T.BOOL)

    def import_found() -> None:
        for name, (temporary, type) in found.items():
            em.take_back(temporary, name, type, stmt.range)

    emit_branches(em, stmt.range, goes_on, lambda: em.emit_statements(stmt.orelse), import_found, _LOOP_SIDES)


_LOOP_SIDES: Sides = ("else", "body", "loop")


def _defined_within(frame: Frame, outer: Frame) -> dict[str, Type]:
    """The variables that are defined in the frame or those around it, but not in `outer`."""
    names = {n for n in frame.names() if not n.startswith("$") and not outer.is_defined(n)}
    return {name: type for name in names if (type := frame.type_of(name)) is not None}


def _carry_out(
    em: Emitter, before: Node, breaks: Sequence[tuple[Node, dict[str, Type]]]
) -> dict[str, tuple[str, Type]]:
    """Carry the variables that every break finds defined out of the loop; gives a temporary and the type of each."""
    carried: dict[str, tuple[str, Type]] = {}
    for name in sorted(set.intersection(*(set(types) for _, types in breaks))) if breaks else ():
        type = T.unify_all([types[name] for _, types in breaks])
        if type is None:
            continue
        temporary = em.temporary(name)
        carried[name] = temporary, type
        with em.graph.inserting_before(before):
            em.graph.insert("prim::Store", (em.uninitialized(type),), (), {"name": temporary})
        for jump, types in breaks:
            with em.graph.inserting_before(jump):
                em.put_aside(name, temporary, types[name])
    return carried


@statement(tree.Break)
def emit_break(em: Emitter, stmt: tree.Break) -> None:
    emit_jump(em, "break", stmt.range)


@statement(tree.Continue)
def emit_continue(em: Emitter, stmt: tree.Continue) -> None:
    emit_jump(em, "continue", stmt.range)


def emit_jump(em: Emitter, word: str, range: SourceRange) -> None:
    """Emit a `break` or `continue`."""
    if em.loop == "none":
        raise BAD_SYNTAX(f"SyntaxError: '{word}' outside loop", range)
    if em.loop == "finally":
        raise LOOP_EXIT(
            f"'{word}' that leaves a finally, and drops what was raised, isn't supported",
            range,
            hint="set a flag in the finally and test it behind",
        )
    if em.leave_try is not None:
        em.leave_try(word)
    else:
        types = em.frame.types_of_loop()
        if types is not None:
            (types.leave if word == "break" else types.go_on)(em.frame)
        if word == "break" and em.on_break is not None:
            em.on_break()
        em.node("prim::BreakStmt" if word == "break" else "prim::ContinueStmt", [], [], range)
    em.jumping.add(em.frame.block)


# -- with
@statement(tree.With)
def emit_with(em: Emitter, stmt: tree.With) -> None:
    item, *others = stmt.items
    body = stmt.body if not others else (tree.replaced(stmt, items=tuple(others)),)
    manager = _emit_context_manager(em, item)
    result = _entered_type(em, manager, item.value.range)
    answer = _answer_of_exit(manager)
    if answer is not None:
        _emit_swallowing(em, manager, item, body, answer, stmt.range)
        return
    node = em.node("prim::Enter", [manager], [result], item.range)
    if item.target is not None:
        em.assign(item.target.name.name, SimpleValue(node.output), item.target.range)
    em.emit_statements(body)
    # also behind a return: `exits.py` reads off the pair which nodes the manager encloses
    em.node("prim::Exit", [manager], [T.NONE], stmt.range)


def _answer_of_exit(manager: Value) -> Type | None:
    """What the `__exit__` of a user's context manager gives, None where that cannot be true and end an exception."""
    definition = manager.type.definition if isinstance(manager.type, T.ClassType) else None
    leave = definition.method("__exit__") if isinstance(definition, ObjectDefinition) else None
    if leave is None or not leave.is_compiled or leave.schema.returns[0].type is T.NONE:
        return None
    result = leave.graph.outputs[0]
    return leave.schema.returns[0].type if not is_constant(result) or constant_of(result) else None


class Guarded(tree.TryStmt):
    """The body of a `with` whose manager may end exceptions. TorchScript's managers never do, and what the body
    defines is used behind it, so it counts as defined; after an exception that was ended it has no value.
    """


def _emit_swallowing(
    em: Emitter,
    manager: Value,
    item: tree.WithItem,
    body: tuple[tree.Stmt, ...],
    result: Type,
    range: SourceRange,
) -> None:
    """The statement in terms of try, as Python's reference has it."""

    def var(name: str) -> tree.Var:
        return tree.Var(tree.Ident(name, range=range), range=range)

    def leave(*arguments: tree.Expr) -> tree.Expr:
        method = tree.Select(var(kept), tree.Ident("__exit__", range=range), range=range)
        return tree.Apply(method, arguments, (), range=range)

    kept, ended, error, info, answer = (em.temporary(n) for n in ("manager", "ended", "error", "info", "answer"))
    em.frame.sugared[info] = BuiltinFunction("prim::ExceptionInfo")
    em.assign(kept, SimpleValue(manager), range)
    em.assign(ended, SimpleValue(em.constant(True, range)), range)
    entered = SimpleValue(manager).attr(em, range, "__enter__").call(em, range, [], [])
    if item.target is not None:
        em.assign(item.target.name.name, entered, item.target.range)
    none = tree.NoneLiteral(range=range)
    false = tree.Assign((var(ended),), tree.FalseLiteral(range=range), None, range=range)
    told = tree.Starred(tree.Apply(var(info), (var(error),), (), range=range), range=range)
    answered = tree.Assign((var(answer),), leave(told), None, range=range)
    ends: tree.Expr = var(answer)
    if isinstance(result, T.OptionalType):
        ends = tree.BinOp("and", tree.BinOp("is not", ends, none, range=range), ends, range=range)
    refused = tree.UnaryOp("not", ends, range=range)
    again = tree.IfStmt(refused, (tree.RaiseAgain(range=range),), (), range=range)
    handler = tree.Handler(None, tree.Ident(error, range=range), (false, answered, again), range=range)
    inner = Guarded(body, (handler,), (), (), range=range)
    last = tree.IfStmt(var(ended), (tree.ExprStmt(leave(none, none, none), range=range),), (), range=range)
    em.emit_statements([tree.TryStmt((inner,), (), (), (last,), range=range)])


def _entered_type(em: Emitter, manager: Value, range: SourceRange) -> Type:
    """What `__enter__` gives.

    Raises:
        CompileError: where the class has no `__enter__` and `__exit__`, or they do not compile.
    """
    definition = manager.type.definition if isinstance(manager.type, T.ClassType) else None
    if not isinstance(definition, ObjectDefinition):
        return T.NONE
    methods = [definition.method(name) for name in ("__enter__", "__exit__")]
    results = [definition.program.ready(m, range).schema for m in methods if m is not None]
    if len(results) < 2:
        raise NO_CONTEXT(
            f"'{manager.type.annotation}' object does not define __enter__ and __exit__ methods",
            range,
            hint="a context manager needs both",
        )
    _check_context_methods(results[0], results[1], range)
    return results[0].returns[0].type


def _check_context_methods(enter: Schema, leave: Schema, range: SourceRange) -> None:
    """`__enter__` takes self alone, `__exit__` also the three parts of an exception.

    Raises:
        CompileError: where they take something else.
    """
    if any(not a.has_default for a in enter.arguments[1:]):
        raise NO_CONTEXT("__enter__ must have only one argument and one return value", range, found=str(enter))
    taken = leave.arguments
    if len(taken) < 4 or any(not a.has_default for a in taken[4:]):
        raise NO_CONTEXT(
            "__exit__ must have four arguments", range, expected="__exit__(self, type, value, traceback)",
            found=str(leave),
        )  # fmt: skip
    for position, argument in enumerate(taken[1:4], 1):
        if not T.is_subtype(T.NONE, argument.type):
            raise NO_CONTEXT(
                f"argument {position} of __exit__ must have Any type", range, found=argument.type.annotation,
                hint="it is None where no exception is raised",
            )  # fmt: skip


def _emit_context_manager(em: Emitter, item: tree.WithItem) -> Value:
    sugared = em.emit_sugared(item.value)
    if isinstance(sugared, ContextClass):
        raise NO_CONTEXT(f"{sugared.kind} is not an object", item.value.range, hint="call it: `with torch.no_grad():`")
    value = sugared.as_value(em, item.value.range)
    if not isinstance(value.type, T.ClassType):
        raise NO_CONTEXT(
            "With item expression must return an object that is a context manager", item.value.range,
            found=value.type.annotation,
        )  # fmt: skip
    return value
