"""Loops: over ranges, containers and tuples, and with conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitlite.base.errors.statements import BAD_SYNTAX, LOOP_EXIT
from jitlite.base.records import Record, replace
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.assignment import assign_targets
from jitlite.frontend.emit.branch_refinement import emit_left_early, emit_repeated
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.conditions import emit_condition, insert_refinements
from jitlite.frontend.emit.constant_containers import SetValue
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.generators import GeneratorValue
from jitlite.frontend.emit.iterable_values import ZipValue, list_length_positions
from jitlite.frontend.emit.known_values import KnownValue, LazyIterable
from jitlite.frontend.emit.possibly_set import note_possible
from jitlite.frontend.emit.scope import Condition, LoopTypes
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.nested_scopes import names_in_target, with_own_variables
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.structure import UNBOUNDED

Targets = Sequence[tree.Expr]


class Body(Record, eq=True):
    """The body of a loop.

    Attributes:
        emit: emits its statements.
        jumps: which of `Break` and `Continue` it has for its loop.
        on_break: what a break does first.
    """

    emit: Callable[[], None]
    jumps: frozenset[type[tree.Stmt]] = frozenset()
    on_break: Callable[[], None] | None = None


def emit_for(em: Emitter, range: SourceRange, targets: Targets, iterable: tree.Expr, body: Body) -> None:
    """A for loop. A loop over a tuple is unrolled, because its elements may have several types."""
    for target in targets:
        if isinstance(target, tree.Starred):
            raise BAD_SYNTAX(
                "A Starred expression may only appear on the lhs within the presence of another non-starred expression",
                target.range,
            )
    source = _looped(em, iterable)
    if isinstance(source, GeneratorValue):
        _emit_over_generator(em, range, source, targets, body)
        return
    complaints = source.complaints(em, iterable.range) if isinstance(source, ZipValue) else []
    if complaints and tree.Break in body.jumps:
        raise LOOP_EXIT(
            "break is not supported in a loop over zip(strict=True) of what has no known length", range,
            hint="leave out strict=True, and compare the lengths before",
        )  # fmt: skip
    _emit_over(em, range, source, targets, iterable, body)
    if em.frame.block not in em.leaving:
        for condition, text in complaints:
            _emit_complaint(em, iterable.range, condition, text)


def _emit_complaint(em: Emitter, range: SourceRange, condition: Value, text: str) -> None:
    """What zip(strict=True) does behind the last element."""
    node = em.node("prim::If", [condition], [], range)
    raising, _ = node.add_block(), node.add_block()
    with em.graph.inserting_at_end(raising):
        name = em.constant("builtins.ValueError", range)
        em.node("prim::RaiseException", [em.constant(text, range), name], [], range)


def _emit_over(
    em: Emitter, range: SourceRange, source: SugaredValue, targets: Targets, iterable: tree.Expr, body: Body
) -> None:
    if source.static_length is None:
        emit_loop(em, range, body, source, targets)
        return
    limit = source.limit(em, iterable.range)
    if body.jumps or limit is not None:
        _emit_rounds(em, range, body, source, targets, limit)
    else:
        _emit_unrolled(em, range, body, source, targets)


def _emit_over_generator(em: Emitter, range: SourceRange, source: GeneratorValue, targets: Targets, body: Body) -> None:
    if body.jumps:
        raise LOOP_EXIT(
            "break and continue are not supported in a loop over a generator, nor over an object whose class defines "
            "__iter__", range,
            hint="put the rest of the loop's body under an if",
        )  # fmt: skip

    names = {name for target in targets for name in names_in_target(target)}

    def on_element(element: SugaredValue, at: SourceRange) -> None:
        if not em.frame.starts_function:
            em.frame.owned |= names  # elements may be of several types, as in loops over tuples
        assign_targets(em, targets, [element], at)
        body.emit()

    source.each(em, on_element)


class GeneratorExpression(LazyIterable):
    """A generator expression that somebody iterates: each element is computed when it is asked for."""

    kind = "a generator"

    def __init__(self, em: Emitter, expr: tree.ListComp) -> None:
        self.expr = with_own_variables(expr, em.temporary("generator"))
        self.source = iterated(em, expr.iterable)

    @property
    def counted(self) -> SugaredValue:
        return self.source.counted

    def iterate(self, b: Builder, range: SourceRange) -> SugaredValue:
        return self

    def length(self, b: Builder, range: SourceRange) -> Value:
        return self.source.length(b, range)

    def element(self, b: Builder, range: SourceRange, index: Value) -> SugaredValue:
        assert isinstance(b, Emitter)
        assign_targets(b, [self.expr.target], [self.source.element(b, range, index)], range)
        return b.emit_sugared(self.expr.element)

    def limit(self, b: Builder, range: SourceRange) -> Value | None:
        return self.source.limit(b, range)

    @property
    def static_length(self) -> int | None:
        return self.source.static_length


def _looped(em: Emitter, iterable: tree.Expr) -> SugaredValue:
    """What a loop over an expression goes through: of a set that is written out, what Python's compiler makes of it."""
    found = em.emit_sugared(iterable) if isinstance(iterable, tree.SetLiteral) else None
    if isinstance(found, SetValue):
        return found.looped(em, iterable.range)
    return iterated(em, iterable if found is None else KnownValue(found, range=iterable.range))


def iterated(em: Emitter, iterable: tree.Expr) -> SugaredValue:
    """What a loop over an expression goes through."""
    if isinstance(iterable, tree.ListComp) and iterable.is_generator and not iterable.clauses:
        return GeneratorExpression(em, iterable)
    source = em.emit_sugared(iterable)
    with em.at(iterable.range):
        source = source.iterate(em, iterable.range)
        returned = source.returned(em) if isinstance(source, GeneratorValue) else None
        return source if returned is None else returned


def emit_loop(
    em: Emitter,
    range: SourceRange,
    body: Body,
    source: SugaredValue | None = None,
    targets: Targets = (),
    condition: tree.Expr | None = None,
) -> None:
    """A prim::Loop whose first block computes the condition and whose second is the body.

    `frontend/loops.py` moves the condition to the places where the loop starts and goes on.
    """

    def emit(on_trial: bool) -> None:
        _emit_loop(em, range, replace(body, on_break=None) if on_trial else body, source, targets, condition)

    emit_left_early(em, lambda: emit_repeated(em, emit))


def _emit_loop(
    em: Emitter,
    range: SourceRange,
    body: Body,
    source: SugaredValue | None,
    targets: Targets,
    condition: tree.Expr | None,
) -> None:
    max_iterations = em.number(UNBOUNDED, range) if source is None else source.length(em, range)
    node = em.node("prim::Loop", [max_iterations], [], range)
    measured = [] if source is None else list_length_positions(source)
    if measured:
        # for the pass that lets lists grow while they are iterated, which removes it again
        node.attributes["measured_lists"] = measured
    condition_block, block = node.add_block(), node.add_block()
    found: Condition | None = None
    if condition is None:
        with em.graph.inserting_before(node):
            goes_on = em.constant(True, range)
    else:
        with em.inside(condition_block):
            found = emit_condition(em, condition)
            goes_on = found.value
    condition_block.add_output(goes_on)
    index, outer = block.add_input(T.INT), em.frame
    with em.in_loop("loop", body.on_break), em.inside(block) as frame:
        types = LoopTypes(outer, frame)
        if found is not None:
            insert_refinements(em, found.refinements, range)
        if source is not None:
            current = source.element(em, range, index).as_value(em, range)
            assign_targets(em, targets, [SimpleValue(current)], range)
        body.emit()
        if block not in em.leaving | em.jumping:
            types.go_on(frame)
    types.finish()
    note_possible(outer, frame, node)
    if found is not None and tree.Break not in body.jumps:
        insert_refinements(em, found.refinements.negation(), range)


def _emit_unrolled(em: Emitter, range: SourceRange, body: Body, source: SugaredValue, targets: Targets) -> None:
    # no frame of its own: each round may give the variables other types
    assert source.static_length is not None
    with em.in_loop("unrolled"):
        for position in _range(source.static_length):
            element = source.element(em, range, em.number(position, range))
            assign_targets(em, targets, [element], range)
            body.emit()
            if em.frame.block in em.leaving:
                return


def _emit_rounds(
    em: Emitter, range: SourceRange, body: Body, source: SugaredValue, targets: Targets, limit: Value | None
) -> None:
    """An unrolled loop that may end early: each round is a loop that runs once, unless a break came before.

    `limit` is how many rounds there are at most, where that is known only at run time. As in other loops, variables
    from before keep their types, and those of a round are gone after it.
    """
    assert source.static_length is not None
    going = em.temporary("going")
    em.assign(going, SimpleValue(em.constant(True, range)), range)

    def on_break() -> None:
        em.graph.insert("prim::Store", (em.constant(False, range),), (), {"name": going})
        if body.on_break is not None:
            body.on_break()

    for position in _range(source.static_length):
        node = em.node("prim::Loop", [em.number(1, range)], [], range)
        condition_block, block = node.add_block(), node.add_block()
        with em.inside(condition_block):
            goes_on = em.frame.load(em, going, T.BOOL)
            if limit is not None:
                in_bound = em.op("aten::lt", [em.number(position, range), limit], range=range)
                goes_on = em.op("aten::__and__", [goes_on, in_bound], range=range)
            condition_block.add_output(goes_on)
        block.add_input(T.INT)
        with em.in_loop("loop", on_break), em.inside(block) as frame:
            assign_targets(em, targets, [source.element(em, range, em.number(position, range))], range)
            body.emit()
        note_possible(em.frame, frame, node)


_range = range
"""The builtin, whose name the parameters above take for a SourceRange."""
