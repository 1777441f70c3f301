"""Conditions: truth values, `is`, `and`/`or`/`not`, isinstance, hasattr, and what they say about types.

A condition decided by types alone is *static*: only the branch it takes is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from jitlite.base.errors.calls import WRONG_COUNT
from jitlite.base.errors.types import CHANGED_TYPE, NO_CONDITION
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.branch_refinement import Branches
from jitlite.frontend.emit.conditional_assignment import keep_what_is_set, names_set_in, set_by_operands
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.empty_literals import settle_by_other
from jitlite.frontend.emit.language_values import container_truth
from jitlite.frontend.emit.scope import Condition, Kept, Path, RefinementSet
from jitlite.frontend.emit.special_methods import call_magic, defines, is_object, length_truth
from jitlite.frontend.emit.type_tests import emit_class_test, emit_hasattr, emit_isinstance, path_tested
from jitlite.frontend.emit.values import SimpleValue, SpecialForm
from jitlite.frontend.syntax import tree
from jitlite.frontend.syntax.tree_base import HIDDEN, part
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type


class Evaluated(tree.Expr):
    """What has been evaluated before."""

    kind = "evaluated"
    condition: Condition = part(HIDDEN)


def emit_condition(em: Emitter, expr: tree.Expr) -> Condition:
    """A bool with what its truth says about variables."""
    if isinstance(expr, Evaluated):
        return expr.condition
    with em.at(expr.range):
        of_class = emit_class_test(em, expr)
        if of_class is not None:
            return of_class
        if isinstance(expr, tree.BinOp) and expr.op in ("and", "or"):
            return _emit_logical(em, expr, is_or=expr.op == "or")
        if isinstance(expr, tree.BinOp) and expr.op in ("is", "is not"):
            return _emit_identity(em, expr)
        if isinstance(expr, tree.UnaryOp) and expr.op == "not":
            inner = emit_condition(em, expr.operand)
            value = em.op("aten::__not__", [inner.value], range=expr.range)
            return Condition(value, inner.refinements.negation(), None if inner.static is None else not inner.static)
        if isinstance(expr, tree.Apply):
            form = _type_test(em, expr)
            if form == "isinstance":
                return emit_isinstance(em, *_two_arguments(expr, form))
            if form == "hasattr":
                return emit_hasattr(em, *_two_arguments(expr, form))
        return _emit_truth(em, expr)


def _emit_truth(em: Emitter, expr: tree.Expr) -> Condition:
    """The truth of an expression. What is true is not None."""
    found = em.emit_sugared(expr)
    truth = found.truth(em, expr.range)
    if truth is not None:
        return Condition(truth, static=_static_value(truth))
    return condition_of(em, expr, found.as_value(em, expr.range))


def condition_of(em: Emitter, expr: tree.Expr, value: Value) -> Condition:
    """The truth of a value, which an expression has given."""
    if value.type is T.NONE:
        return Condition(em.constant(False, expr.range), static=False)
    truth = to_bool(em, value, expr.range)
    path = path_tested(expr, value) if T.may_be_none(value.type) else None
    if path is not None and isinstance(value.type, T.UnionType):
        return Condition(truth, RefinementSet({path: T.without_none(value.type)}, {}))
    return Condition(truth, em.settled.get(value, RefinementSet()), _static_value(truth))


def _type_test(em: Emitter, expr: tree.Apply) -> str | None:
    """`isinstance` or `hasattr` if that is what is called (also as `torch.jit.isinstance`)."""
    callee = expr.callee
    if isinstance(callee, tree.Var) or (isinstance(callee, tree.Select) and callee.name.name == "isinstance"):
        name = callee.name.name
        if name not in ("isinstance", "hasattr") and em.frame.is_defined(name):
            return None
        sugared = em.emit_sugared(callee)
        if isinstance(sugared, SpecialForm) and sugared.form in ("isinstance", "hasattr"):
            return sugared.form
    return None


def _two_arguments(expr: tree.Apply, name: str) -> tuple[tree.Expr, tree.Expr]:
    if len(expr.args) != 2 or expr.keywords:
        raise WRONG_COUNT(f"{name} takes two arguments", expr.range, found=f"{len(expr.args)}")
    return expr.args[0], expr.args[1]


def _static_value(value: Value) -> bool | None:
    """The value of a condition where the compiler may decide it: literals and what the language says of itself."""
    if value.node.kind == "aten::is_scripting":
        return True
    if value.node.kind == "aten::has_torch_function":
        return False
    if is_constant(value):
        return bool(constant_of(value))
    return None


def to_bool(em: Emitter, value: Value, range: SourceRange) -> Value:
    """The truth value of a bool, number or tensor.

    Raises:
        CompileError: for other types, whose truth TorchScript does not define.
    """
    if value.type is T.BOOL:
        return value
    if T.is_subtype(value.type, T.TENSOR) or value.type in (T.INT, T.FLOAT):
        return em.op("aten::Bool", [value], range=range)
    value = em.enum_value(value, range)
    if value.type is T.INT:
        return em.op("aten::Bool", [value], range=range)
    truth = _tuple_truth(em, value, range) or container_truth(em, value, range)
    if truth is None and isinstance(value.type, T.UnionType):
        return em.by_type(value, range, lambda one: to_bool(em, one, range))
    if value.type is T.NONE:
        return em.constant(False, range)
    if truth is None:
        truth = call_magic(em, range, value, "__bool__")
    if truth is not None:
        return em.expect(T.BOOL, truth, range, "expected a bool expression for condition")
    if is_object(value):
        return length_truth(em, range, value)
    raise NO_CONDITION(
        f"Could not cast value of type {value.type.annotation} to bool", range,
        expected="bool, int, float, str, Tensor, list or dict", found=value.type.annotation,
        hint="write `x is not None`" if isinstance(value.type, T.OptionalType) else None,
    )  # fmt: skip


def _tuple_truth(em: Emitter, value: Value, range: SourceRange) -> Value | None:
    """What the class of a named tuple says of its truth; None where it says nothing."""
    found = call_magic(em, range, value, "__bool__") if isinstance(value.type, T.TupleType) else None
    return length_truth(em, range, value) if found is None and defines(value, "__len__") else found


def insert_refinements(em: Emitter, refinements: RefinementSet, range: SourceRange) -> None:
    """At the start of a branch, set what the condition has set, give the refined variables their narrower types, and
    note the other refinements."""
    for name, (temporary, t) in refinements.set_when_true.items():
        em.take_back(temporary, name, t, range)
    facts = dict(em.facts)
    for (name, *links), t in refinements.when_true.items():
        found = None if links else em.frame.find(em, name)
        if isinstance(found, SimpleValue):
            em.assign(name, SimpleValue(em.cast(found.value, t)), range)
    facts.update((path, t) for path, t in refinements.when_true.items() if len(path) > 1)
    em.frame.facts = facts


# -- is, is not
def _none_status(value: Value) -> str:
    if value.type is T.NONE or (is_constant(value) and constant_of(value) is None):
        return "always"
    if value.type is T.ANY or (isinstance(value.type, T.UnionType) and T.NONE in value.type.members):
        return "maybe"
    return "never"


def _emit_identity(em: Emitter, expr: tree.BinOp) -> Condition:
    holds = expr.op == "is"
    if isinstance(expr.right, tree.NoneLiteral):
        asked = em.emit_sugared(expr.left)
        if asked.is_function:
            return Condition(em.constant(not holds, expr.range), static=not holds)
        left, right = asked.as_value(em, expr.left.range), em.emit(expr.right)
    else:
        left, right = em.emit(expr.left), em.emit(expr.right)
    statuses = {_none_status(left), _none_status(right)}
    if statuses == {"always"}:
        return Condition(em.constant(holds, expr.range), static=holds)
    if statuses == {"always", "never"}:
        return Condition(em.constant(not holds, expr.range), static=not holds)
    value = em.op("aten::__is__" if holds else "aten::__isnot__", [left, right], range=expr.range)
    for subject, subject_value, other in ((expr.left, left, expr.right), (expr.right, right, expr.left)):
        path = path_tested(subject, subject_value)
        if path is not None and isinstance(other, tree.NoneLiteral):
            return Condition(value, _none_refinements(path, subject_value.type, holds))
    return Condition(value)


def _none_refinements(path: Path, t: Type, is_none: bool) -> RefinementSet:
    if not isinstance(t, T.UnionType):
        return RefinementSet()
    present = {path: T.without_none(t)}
    return RefinementSet({}, present) if is_none else RefinementSet(present, {})


# -- and, or
class _Bind(tree.Expr):
    """`value`, also kept in the temporary variable `name`."""

    kind = "bind"
    name: str
    value: tree.Expr


@expression(_Bind)
def _emit_bind(em: Emitter, expr: _Bind, hint: Type | None) -> Value:
    value = em.emit(expr.value, hint)
    em.assign(expr.name, SimpleValue(value), expr.range)
    return value


def _emit_logical(em: Emitter, expr: tree.BinOp, is_or: bool) -> Condition:
    """`a and b` is `b if a else False`, `a or b` is `True if a else b`: the second operand is refined by the first."""
    left_expr, right_expr = _evaluate_once(em, expr)
    left = emit_condition(em, left_expr)
    if left.static is is_or:
        return left  # the right side is never looked at: `self.bias is not None and self.bias.dtype ...` without a bias
    right: list[Condition] = []

    def short() -> Value:
        return em.constant(is_or, expr.range)

    still_holding: list[Path] = []
    names, certain = names_set_in(right_expr), Kept()

    def go_on() -> Value:
        right.append(emit_condition(em, right_expr))
        still_holding.extend(em.facts)
        certain.update(keep_what_is_set(em, {*names, *left.refinements.sets(not is_or)}))
        return right[0].value

    value = emit_if_expression(em, expr.range, left, *((short, go_on) if is_or else (go_on, short)))
    (second,) = right
    # what the left side says of attributes counts only if the right side leaves them alone
    first = left.refinements.where(lambda path: len(path) == 1 or path in still_holding).without(names, not is_or)
    known = first.disjunction(second.refinements) if is_or else first.conjunction(second.refinements)
    refinements = set_by_operands(em, is_or, value.node, known, left.refinements, second.refinements, certain)
    static: bool | None = None
    if is_or in (left.static, second.static):
        static = is_or
    elif left.static is not None and second.static is not None:
        static = not is_or
    return Condition(value, refinements, static)


_PLAIN = tree.Var, tree.Const, tree.StringLiteral
"""What may as well be evaluated twice."""


def _evaluate_once(em: Emitter, expr: tree.BinOp) -> tuple[tree.Expr, tree.Expr]:
    """The operands of an `and`, such that the middle operands of a comparison chain are evaluated once.

    The tree of `a < f() < c` is `a < f() and f() < c`, with one and the same tree for both `f()`. Python calls f once;
    so does `a < (t := f()) and t < c`, nested to the right for longer chains.
    """
    if not isinstance(expr.right, tree.BinOp) or isinstance(expr.right.left, _PLAIN):
        return expr.left, expr.right  # the middle operands further left are for the `and` on the left to look at
    chain = comparison_chain(expr)
    if not chain:
        return expr.left, expr.right
    bound: list[tree.Expr] = []
    left = chain[0].left
    for comparison in chain:
        right: tree.Expr = comparison.right
        if comparison is not chain[-1] and not isinstance(right, _PLAIN):
            name = em.temporary("middle")
            right = _Bind(name, right, range=right.range)
            following: tree.Expr = tree.Var(tree.Ident(name, range=right.range), range=right.range)
        else:
            following = right
        bound.append(tree.BinOp(comparison.op, left, right, range=comparison.range))
        left = following
    rest = bound[-1]
    for comparison_expr in reversed(bound[1:-1]):
        rest = tree.BinOp("and", comparison_expr, rest, range=expr.range)
    return bound[0], rest


def comparison_chain(expr: tree.BinOp) -> list[tree.BinOp]:
    """The comparisons of a chain, from the left; empty for an `and` that is no chain."""
    chain: list[tree.BinOp] = []
    current: tree.Expr = expr
    while isinstance(current, tree.BinOp) and current.op == "and" and isinstance(current.right, tree.BinOp):
        left = current.left.right if _is_and(current.left) else current.left
        if not (isinstance(left, tree.BinOp) and left.right is current.right.left):
            return []
        chain.append(current.right)
        current = current.left
    if not isinstance(current, tree.BinOp) or not chain:
        return []
    return [current, *reversed(chain)]


def _is_and(expr: tree.Expr) -> TypeGuard[tree.BinOp]:
    return isinstance(expr, tree.BinOp) and expr.op == "and"


def emit_if_expression(
    em: Emitter,
    range: SourceRange,
    condition: Condition,
    true: Callable[[], Value],
    false: Callable[[], Value],
    united: bool = False,
) -> Value:
    """An If with one result, of a Union where the types of the branches differ and that is `united`."""
    node = em.node("prim::If", [condition.value], [], range)
    blocks = [node.add_block(), node.add_block()]
    cases = ((blocks[0], condition.refinements, true), (blocks[1], condition.refinements.negation(), false))
    branches = Branches(em)
    for block, refinements, emit in cases:
        with em.inside(block) as frame:
            insert_refinements(em, refinements, range)
            block.add_output(emit())
        branches.add(block, frame)
    branches.join()
    settle_by_other(em, blocks, range)
    true_type, false_type = (b.outputs[0].type for b in blocks)
    merged = T.unify(true_type, false_type, default_to_union=united)
    if merged is None:
        raise CHANGED_TYPE(
            f"if-expression's true branch has type {true_type.annotation} but false branch has type "
            f"{false_type.annotation}",
            range,
        )
    return node.add_output(merged)
