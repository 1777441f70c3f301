"""Assignments: to names, tuples of targets, subscripts and attributes, plain and augmented."""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.statements import BAD_SYNTAX
from jitlite.base.errors.types import NO_ASSIGNMENT, UNPACKING
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.branch_refinement import refined
from jitlite.frontend.emit.builtin_names import BINARY_METHODS
from jitlite.frontend.emit.dict_operators import augment_container
from jitlite.frontend.emit.emitter import Emitter, expression, statement
from jitlite.frontend.emit.indexing import (
    emit_slice,
    emit_subscript_assign,
    of_tuple_key,
    set_item,
    single_index,
    tensor_index,
)
from jitlite.frontend.emit.iterable_values import SliceValue
from jitlite.frontend.emit.kept_iterators import note_iterator
from jitlite.frontend.emit.library_calls import call_library, repeated_text
from jitlite.frontend.emit.list_slices import assign_slice
from jitlite.frontend.emit.open_types import inherits
from jitlite.frontend.emit.python_library import check_length
from jitlite.frontend.emit.sequences import spread_list
from jitlite.frontend.emit.sets import listed
from jitlite.frontend.emit.special_methods import binary_magic, call_magic, is_object, tuple_operator
from jitlite.frontend.emit.starred_targets import starred_value
from jitlite.frontend.emit.values import SimpleValue, SugaredTuple, SugaredValue
from jitlite.frontend.emit.ways_out import way_to_unpack
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.traits import Spelling
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


@statement(tree.Assign)
def emit_assign(em: Emitter, stmt: tree.Assign) -> None:
    if stmt.value is None:
        (target,) = stmt.targets
        assert isinstance(target, tree.Var) and stmt.type is not None
        em.frame.declared[target.name.name] = em.parse_type(stmt.type)
        return
    if len(stmt.targets) == 1:
        _assign_single(em, stmt.targets[0], stmt.value, stmt.type, stmt.range)
        return
    # `a = b = e` evaluates e once and assigns it to the targets from left to right
    name = em.temporary("assigned")
    em.assign(name, em.emit_sugared(stmt.value), stmt.value.range)
    stored = tree.Var(tree.Ident(name, range=stmt.value.range), range=stmt.value.range)
    for target in stmt.targets:
        _assign_single(em, target, stored, None, stmt.range)


@expression(tree.NamedExpr)
def emit_named_expression(em: Emitter, expr: tree.NamedExpr, hint: Type | None) -> SugaredValue:
    em.assign(expr.target.name.name, em.emit_sugared(expr.value, hint), expr.target.range)
    return em.emit_sugared(expr.target)


def _assign_single(
    em: Emitter, target: tree.Expr, value: tree.Expr, annotation: tree.Expr | None, range: SourceRange
) -> None:
    hint = None if annotation is None else em.parse_type(annotation)
    if isinstance(target, tree.Var):
        hint = hint or em.frame.declaration_of(target.name.name)
        sugared = em.emit_sugared(value, hint)
        if hint is not None:
            held = sugared.as_value(em, value.range)
            hint = held.type if inherits(held.type, hint) else hint  # an object is what it was made as
            sugared = SimpleValue(_annotated(em, held, hint, value.range))
        em.assign(target.name.name, sugared, target.range, hint)
        note_iterator(em, target.name.name, value, sugared)
    elif isinstance(target, tree.TupleLiteral | tree.ListLiteral):
        _assign_tuple(em, target, _unpackable(em, value), value.range)
    elif isinstance(target, tree.Subscript):
        assigned = em.emit_sugared(value)
        is_slice = isinstance(target.indices[0], tree.SliceExpr)  # takes any iterable, where it is one of a list
        found = assigned.as_argument(em, value.range) if is_slice else assigned.as_value(em, value.range)
        emit_subscript_assign(em, range, target, NamedValue(None, found, range=value.range))
    elif isinstance(target, tree.Select):
        assign_attribute(em, target.value, target.name.name, value, range, hint)
    else:
        raise NO_ASSIGNMENT("unexpected expression on the left-hand side of an assignment", target.range)


def assign_attribute(
    em: Emitter, owner: tree.Expr, name: str, value: tree.Expr, range: SourceRange, hint: Type | None = None
) -> None:
    """`owner.name = value`, under an annotation or without one."""
    assigned = em.emit_sugared(value, hint).as_value(em, value.range)
    if hint is not None:
        assigned = _annotated(em, assigned, hint, value.range)
    em.emit_sugared(owner).set_attr(em, range, name, assigned, hint)


def _unpackable(em: Emitter, value: tree.Expr) -> SugaredValue:
    """What is assigned to several targets. A tuple that is written out may contain nested functions."""
    if not isinstance(value, tree.TupleLiteral) or any(isinstance(e, tree.Starred) for e in value.elements):
        return em.emit_sugared(value)
    parts: list[SugaredValue] = []
    for element in value.elements:
        part = em.emit_sugared(element)
        parts.append(part if part.is_symbolic else SimpleValue(part.as_value(em, element.range)))
    whole = SugaredTuple(parts)
    return whole if whole.is_symbolic else SimpleValue(whole.as_value(em, value.range))


def _annotated(em: Emitter, value: Value, hint: Type, range: SourceRange) -> Value:
    """A value under an annotation, of the type that is said."""
    if hint is T.ANY and value.type is not T.ANY:
        return em.cast(value, T.ANY)
    return value if T.is_subtype(value.type, hint) else em.declared(hint, value, range)


def assign_targets(
    em: Emitter, targets: Sequence[tree.Expr], values: Sequence[SugaredValue], range: SourceRange
) -> None:
    """Assign `values` to `targets`, of which one may be starred and then takes what the others leave."""
    position = 0
    for target in targets:
        if isinstance(target, tree.Starred):
            position = _assign_starred(em, target, values, position, len(values) - (len(targets) - 1))
            continue
        _assign_value(em, target, values[position], range)
        position += 1


def _assign_value(em: Emitter, target: tree.Expr, value: SugaredValue, range: SourceRange) -> None:
    if isinstance(target, tree.Var):
        em.assign(target.name.name, value, target.range)
    elif isinstance(target, tree.TupleLiteral | tree.ListLiteral):
        _assign_tuple(em, target, value, range)
    elif isinstance(target, tree.Subscript):
        emit_subscript_assign(em, range, target, NamedValue(None, value.as_value(em, range), range=range))
    elif isinstance(target, tree.Select):
        em.emit_sugared(target.value).set_attr(em, range, target.name.name, value.as_value(em, range))
    else:
        raise NO_ASSIGNMENT("unexpected expression on the left-hand side of an assignment", target.range)


def _assign_starred(em: Emitter, target: tree.Starred, values: Sequence[SugaredValue], start: int, count: int) -> int:
    if not isinstance(target.value, tree.Var):
        raise BAD_SYNTAX("a starred target must be a name", target.range)
    end = start + count
    others = [*values[:start], *values[end:]]
    found = starred_value(em, target.value.name.name, values[start:end], others, target.range)
    em.assign(target.value.name.name, found, target.value.range)
    return end


def _assign_list(em: Emitter, target: tree.TupleLiteral | tree.ListLiteral, items: Value, range: SourceRange) -> None:
    """`a, *b, c = items` for a list: all parts are taken before any is assigned."""
    before = next(i for i, e in enumerate(target.elements) if isinstance(e, tree.Starred))
    after = len(target.elements) - before - 1
    given = [NamedValue(None, v, range=range) for v in (items, em.constant(before + after, range))]
    call_library(em, range, check_length, given)
    end = em.constant(-after if after else None, range)
    rest = em.op("aten::slice", [items, em.constant(before, range), end, em.constant(1, range)], range=range)
    positions = [*_range(before), *_range(-after, 0)]
    values = [em.op("aten::__getitem__", [items, em.constant(i, range)], range=range) for i in positions]
    values.insert(before, rest)
    for element, value in zip(target.elements, values, strict=True):
        name = element.value if isinstance(element, tree.Starred) else element
        _assign_value(em, name, SimpleValue(value), range)


_range = range
"""The builtin, whose name parameters take for a SourceRange."""


def _assign_tuple(
    em: Emitter, target: tree.TupleLiteral | tree.ListLiteral, value: SugaredValue, range: SourceRange
) -> None:
    starred = sum(isinstance(e, tree.Starred) for e in target.elements)
    if starred > 1:
        raise BAD_SYNTAX("Only one starred expression is allowed on the lhs", target.range)
    if starred and len(target.elements) == 1:
        raise BAD_SYNTAX(
            "A Starred expression may only appear on the lhs within the presence of another non-starred expression",
            target.range,
        )
    wanted = len(target.elements) - starred
    value = listed(em, value, range)
    items = spread_list(value) if starred else None
    if items is not None:
        _assign_list(em, target, items, range)
        return
    parts = value.as_tuple(em, range, None if starred else wanted)
    if len(parts) < wanted:
        at_least = "at least " if starred else ""
        hint = None if starred else way_to_unpack(wanted, len(parts))
        raise UNPACKING(f"need {at_least}{wanted} values to unpack, found only {len(parts)}", target.range, hint=hint)
    if len(parts) > wanted and not starred:
        hint = way_to_unpack(wanted, len(parts))
        raise UNPACKING(f"too many values to unpack: need {wanted} but found {len(parts)}", target.range, hint=hint)
    assign_targets(em, target.elements, parts, range)


# -- augmented
def _operator(op: str, t: Type) -> str:
    """The operator for `op=` on a value of type `t`."""
    if (T.is_subtype(t, T.TENSOR) and op in Spelling.AUGMENTED.kind_of) or (isinstance(t, T.ListType) and op in "+*"):
        return Spelling.AUGMENTED.kind_of[op]
    return Spelling.BINARY.kind_of[op]


@statement(tree.AugAssign)
def emit_augmented(em: Emitter, stmt: tree.AugAssign) -> None:
    target = stmt.target
    if isinstance(target, tree.Var):
        old = em.emit(target)
        new = _augment(em, stmt, old)
        em.assign(target.name.name, SimpleValue(new), target.range)
    elif isinstance(target, tree.Subscript):
        _augment_subscript(em, stmt, target)
    elif isinstance(target, tree.Select):
        owner = em.emit_sugared(target.value)
        old = refined(em, owner.attr(em, target.range, target.name.name).as_value(em, target.range))
        owner.set_attr(em, stmt.range, target.name.name, _augment(em, stmt, old))
    else:
        raise NO_ASSIGNMENT("unexpected expression on the left-hand side of an augmented assignment", target.range)


def _augment(em: Emitter, stmt: tree.AugAssign, old: Value) -> Value:
    if old.type is T.STRING and stmt.op == "%":
        return em.node("aten::percentFormat", [old, em.emit(stmt.value)], [T.STRING], stmt.range).output
    found = em.emit_sugared(stmt.value)
    if isinstance(old.type, T.ListType) and stmt.op == "+":  # extends it, by any iterable
        value = em.convert(old.type, found.as_argument(em, stmt.value.range), stmt.value.range)
    else:
        value = found.as_operand(em, stmt.value.range)
    changed = augment_container(em, stmt.range, stmt.op, old, value)
    if changed is not None:
        return changed
    if is_object(old):
        in_place = f"__i{BINARY_METHODS[stmt.op][2:]}"
        changed = call_magic(em, stmt.range, old, in_place, value)
        if changed is not None:
            return changed
    computed = tuple_operator(em, stmt.range, stmt.op, old, value)
    computed = computed or binary_magic(em, stmt.range, stmt.op, old, value, in_place=True)
    computed = computed or (repeated_text(em, stmt.range, old, value) if stmt.op == "*" else None)
    if computed is not None:
        return computed
    if isinstance(old.type, T.TupleType) and isinstance(value.type, T.TupleType) and stmt.op == "+":
        return em.make_tuple([*em.unpack_tuple(old), *em.unpack_tuple(value)])
    return em.op(_operator(stmt.op, old.type), [old, NamedValue(None, value, range=stmt.value.range)], range=stmt.range)


def _augment_subscript(em: Emitter, stmt: tree.AugAssign, target: tree.Subscript) -> None:
    container = em.emit(target.value)
    if T.is_subtype(container.type, T.TENSOR):
        _augment_tensor_item(em, stmt, target, container)
        return
    if isinstance(container.type, T.ListType) and isinstance(target.indices[0], tree.SliceExpr):
        _augment_slice(em, stmt, target, container)
        return
    target = of_tuple_key(target, SimpleValue(container))
    if target.is_of_tuple or isinstance(target.indices[0], tree.SliceExpr):
        raise NO_ASSIGNMENT.unsupported(
            f"Sliced expression not yet supported for {container.type.annotation} augmented assignment", target.range
        )
    if is_object(container):
        index = em.emit(target.indices[0])
        item = SimpleValue(container).element(em, target.range, index).as_value(em, target.range)
        set_item(em, stmt.range, container, index, _augment(em, stmt, item))
        return
    if not isinstance(container.type, T.ListType | T.DictType):
        raise NO_ASSIGNMENT(f"{container.type.annotation} does not support augmented assignment", target.range)
    index = em.emit(target.indices[0])
    # Python reads the item before it evaluates the right-hand side
    old = em.op("aten::__getitem__", [container, index], range=stmt.range)
    new = _augment(em, stmt, old)
    em.op("aten::_set_item", [container, index, new], range=stmt.range)


def _augment_slice(em: Emitter, stmt: tree.AugAssign, target: tree.Subscript, items: Value) -> None:
    index = single_index(em, target, items.type)
    assert isinstance(index, SliceValue)
    part = emit_slice(em, target.range, items, index)
    assign_slice(em, stmt.range, items, index, _augment(em, stmt, part))


def _augment_tensor_item(em: Emitter, stmt: tree.AugAssign, target: tree.Subscript, tensor: Value) -> None:
    index = tensor_index(em, target.range, target.indices)
    item = index.item(em, tensor)
    augmented = _augment(em, stmt, item)
    if not index.is_basic:  # else the item is a view, and written
        index.assign(em, stmt.range, tensor, augmented)
