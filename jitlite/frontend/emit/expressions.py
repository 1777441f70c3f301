"""Expressions: names, attributes, literals, operators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from jitlite.base.errors.statements import BAD_SYNTAX, COMPARED_WITH_NONE
from jitlite.base.errors.types import MIXED_ELEMENTS, OPERANDS
from jitlite.base.source import CompileError
from jitlite.frontend.emit.absent_attributes import is_absent, raise_absent
from jitlite.frontend.emit.branch_refinement import refined_sugar
from jitlite.frontend.emit.conditions import emit_condition, emit_if_expression, to_bool
from jitlite.frontend.emit.dict_operators import operate_on_containers
from jitlite.frontend.emit.emitter import Emitter, expression
from jitlite.frontend.emit.iterable_library import contains
from jitlite.frontend.emit.kept_iterators import check_read
from jitlite.frontend.emit.library_calls import call_library, equal_dicts, repeated_text
from jitlite.frontend.emit.operand_choice import emit_choice
from jitlite.frontend.emit.python_library import orders
from jitlite.frontend.emit.scope import Condition
from jitlite.frontend.emit.sequences import ListAsTuple, list_of_tuple
from jitlite.frontend.emit.sets import checked_element
from jitlite.frontend.emit.special_methods import UNARY_METHODS, binary_magic, call_magic, is_object, tuple_operator
from jitlite.frontend.emit.type_tests import emit_class_test
from jitlite.frontend.emit.value_members import member_of_class
from jitlite.frontend.emit.values import SimpleValue, SugaredValue
from jitlite.frontend.syntax import tree
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.traits import Spelling
from jitlite.ir.types import Type
from jitlite.operators.conversions import enum_value_type
from jitlite.operators.overloads import NamedValue


# -- names and attributes
@expression(tree.Var)
def emit_variable(em: Emitter, expr: tree.Var, hint: Type | None) -> SugaredValue:
    check_read(em, expr.name.name, expr.range)
    return em.lookup(expr.name.name, expr.range)


@expression(tree.Select)
def emit_select(em: Emitter, expr: tree.Select, hint: Type | None) -> SugaredValue:
    owner = em.emit_sugared(expr.value)
    if (found := member_of_class(em, owner, expr.name.name, expr.range)) is not None:
        return found
    try:
        return refined_sugar(em, owner.attr(em, expr.range, expr.name.name))
    except CompileError as error:
        if is_absent(em, owner, expr.name.name):
            raise_absent(em, expr.range, owner, expr.name.name)
        if error.range is expr.range:
            error.range = expr.range.ending_with(expr.name.name)
        raise


# -- literals
@expression(tree.Const)
def emit_number(em: Emitter, expr: tree.Const, hint: Type | None) -> Value:
    return em.number(expr.value, expr.range)


@expression(tree.StringLiteral)
def emit_string(em: Emitter, expr: tree.StringLiteral, hint: Type | None) -> Value:
    return em.constant(expr.value, expr.range)


@expression(tree.TrueLiteral, tree.FalseLiteral)
def emit_bool(em: Emitter, expr: tree.Expr, hint: Type | None) -> Value:
    return em.constant(isinstance(expr, tree.TrueLiteral), expr.range)


@expression(tree.NoneLiteral)
def emit_none(em: Emitter, expr: tree.NoneLiteral, hint: Type | None) -> Value:
    return em.constant(None, expr.range)


@expression(tree.Dots)
def emit_dots(em: Emitter, expr: tree.Dots, hint: Type | None) -> Value:
    raise BAD_SYNTAX.unsupported("`...` is only supported inside a tensor's index", expr.range)


@expression(tree.Starred)
def emit_starred(em: Emitter, expr: tree.Starred, hint: Type | None) -> Value:
    raise BAD_SYNTAX("a starred expression can only be a call argument or part of a list or tuple", expr.range)


@expression(tree.SliceExpr)
def emit_bare_slice(em: Emitter, expr: tree.SliceExpr, hint: Type | None) -> Value:
    raise BAD_SYNTAX("a slice can only be an index", expr.range)


# -- operators
@expression(tree.UnaryOp)
def emit_unary(em: Emitter, expr: tree.UnaryOp, hint: Type | None) -> Value:
    if expr.op == "not":
        return emit_condition(em, expr).value
    operand = em.emit(expr.operand)
    found = call_magic(em, expr.range, operand, UNARY_METHODS[expr.op])
    if found is not None:
        return found
    if is_constant(operand) and type(constant_of(operand)) in _FOLDABLE:
        folded = _fold(expr.op, constant_of(operand))
        if folded is not None:
            return em.constant(folded, expr.range)
    operand = em.enum_value(operand, expr.range)
    if expr.op == "unary plus" and operand.type in (T.INT, T.FLOAT, T.COMPLEX):
        return operand
    if expr.op == "~" and operand.type is T.INT:
        return em.op("aten::sub", [em.op("aten::neg", [operand], range=expr.range), em.number(1, expr.range)],
                     range=expr.range)  # fmt: skip
    return em.op(Spelling.UNARY.kind_of[expr.op], [operand], range=expr.range)


_FOLDABLE = (int, float, complex)


def _fold(op: str, value: int | float | complex) -> int | float | complex | None:
    """The value of a sign before a literal."""
    if op == "unary minus":
        return -value
    if op == "unary plus":
        return +value
    return ~value if isinstance(value, int) else None


@expression(tree.BinOp)
def emit_binary(em: Emitter, expr: tree.BinOp, hint: Type | None) -> SugaredValue | Value:
    if expr.op in ("and", "or"):
        return emit_choice(em, expr, hint)
    if expr.op in ("is", "is not"):
        return emit_condition(em, expr).value
    if (of_class := emit_class_test(em, expr)) is not None:
        return of_class.value
    # a long `a + b + c + ...` nests to the left: walk down it in a loop, not in recursion
    spine: list[tree.BinOp] = [expr]
    while isinstance(spine[-1].left, tree.BinOp) and spine[-1].left.op in Spelling.BINARY.kind_of:
        spine.append(spine[-1].left)
    left = em.emit_sugared(spine[-1].left)
    for node in reversed(spine):
        with em.at(node.range):
            left = _emit_with_right(em, node, left)
    return left


def _emit_with_right(em: Emitter, expr: tree.BinOp, given: SugaredValue) -> SugaredValue:
    if isinstance(given, ListAsTuple) and expr.op != "in":
        return _emit_with_tuple(em, expr, given, em.emit_sugared(expr.right))
    left = given.as_operand(em, expr.left.range)
    right = em.emit_sugared(expr.right)
    if isinstance(right, ListAsTuple) and expr.op != "in":
        return _emit_with_tuple(em, expr, given, right)
    if expr.op != "in":
        other = right.as_operand(em, expr.right.range)
        repeated = _repeated_any_times(em, expr, left, other) if expr.op == "*" else None
        return repeated or SimpleValue(_emit_operator(em, expr, left, other))
    return SimpleValue(_emit_in(em, expr, left, right))


def _repeated_any_times(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> ListAsTuple | None:
    """`(1, 2) * n`, for a number that is known at run time only; None for others, and for what is no tuple."""
    repeated, number = (right, left) if left.type is T.INT else (left, right)
    t = repeated.type
    common = T.unify_all(t.elements) if isinstance(t, T.TupleType) and number.type is T.INT else None
    if common is None or _repeated_tuple(em, left, right) is not None:
        return None
    elements = em.make_list(common, em.unpack_tuple(repeated))
    return ListAsTuple(em.op("aten::mul", [elements, number], range=expr.range))


def _emit_with_tuple(em: Emitter, expr: tree.BinOp, left: SugaredValue, right: SugaredValue) -> SugaredValue:
    """An operator on a tuple whose length is known at run time only, which is one on lists."""
    known = left if isinstance(left, ListAsTuple) else right
    assert isinstance(known, ListAsTuple) and isinstance(known.elements.type, T.ListType)
    if expr.op == "*":
        sides = [s.elements if isinstance(s, ListAsTuple) else s.as_operand(em, expr.range) for s in (left, right)]
    else:
        lists = [list_of_tuple(em, side, known.elements.type.element, expr.range) for side in (left, right)]
        sides = [
            side.as_operand(em, expr.range) if one is None else one
            for one, side in zip(lists, (left, right), strict=True)
        ]
    found = _emit_operator(em, expr, *sides)
    return ListAsTuple(found) if expr.op in ("+", "*") else SimpleValue(found)


def _emit_in(em: Emitter, expr: tree.BinOp, left: Value, container: SugaredValue) -> Value:
    found = container.has_item(em, expr.range, left)
    return _emit_contains(em, expr, left, container.as_value(em, expr.right.range)) if found is None else found


def _emit_operator(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value:
    is_equality = expr.op in ("eq", "ne")
    if is_equality and T.NONE in (left.type, right.type):
        raise COMPARED_WITH_NONE(
            "comparing with None by == or != is not supported", expr.range, hint="use `is None` or `is not None`"
        )
    if expr.op == "in":
        return _emit_contains(em, expr, left, right)
    found = _equal_or_none(em, expr, left, right) or equal_dicts(em, expr.range, expr.op, left, right)
    found = (
        found or tuple_operator(em, expr.range, expr.op, left, right) or _emit_without_operator(em, expr, left, right)
    )
    found = found or operate_on_containers(em, expr.range, expr.op, left, right)
    found = found or binary_magic(em, expr.range, expr.op, left, right)
    if found is not None:
        return found
    if not (is_equality and isinstance(left.type, T.EnumType) and isinstance(right.type, T.EnumType)):
        left, right = em.enum_value(left, expr.left.range), em.enum_value(right, expr.right.range)
    operands = [NamedValue(None, left, range=expr.left.range), NamedValue(None, right, range=expr.right.range)]
    return em.op(Spelling.BINARY.kind_of[expr.op], operands, range=expr.range)


def _equal_or_none(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value | None:
    """`left == right` or `left != right` of plain values of which one may be None; None for other values."""
    if expr.op not in ("eq", "ne") or not _is_plain_optional(left.type, right.type):
        return None
    same = is_one_of(em, expr, left, [right])
    return same if expr.op == "eq" else em.op("aten::__not__", [same], range=expr.range)


def _is_plain_optional(left: Type, right: Type) -> bool:
    """Is one of two types a union with None, and are all the others of numbers, texts and members of enums?"""
    if not any(isinstance(t, T.UnionType) and T.may_be_none(t) for t in (left, right)):
        return False
    return all(t in _COMPARED or isinstance(t, T.EnumType) for side in (left, right) for t in T.members_of(side))


_COMPARED = (T.INT, T.FLOAT, T.BOOL, T.STRING, T.NONE)

_LISTS_COMPARE = (T.INT, T.FLOAT, T.BOOL, T.STRING)
"""Element types for which a comparison of lists is one operator."""


def _compare_tuples(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value:
    """Equality of tuples, element by element; of different lengths they are unequal."""
    assert isinstance(left.type, T.TupleType) and isinstance(right.type, T.TupleType)
    elements = [*left.type.elements, *right.type.elements]
    if (
        len(left.type.elements) == len(right.type.elements)
        and len(set(elements)) == 1
        and elements[0] in _LISTS_COMPARE
    ):
        lists = [em.make_list(elements[0], em.unpack_tuple(side)) for side in (left, right)]
        return em.op(Spelling.BINARY.kind_of[expr.op], lists, range=expr.range)
    lefts, rights = em.unpack_tuple(left), em.unpack_tuple(right)
    if len(lefts) != len(rights):
        return em.constant(expr.op == "ne", expr.range)
    result = _all_equal(em, tree.BinOp("eq", expr.left, expr.right, range=expr.range), lefts, rights)
    return result if expr.op == "eq" else em.op("aten::__not__", [result], range=expr.range)


def _all_equal(em: Emitter, expr: tree.BinOp, lefts: Sequence[Value], rights: Sequence[Value]) -> Value:
    """Are the elements equal, from left to right up to the first that is not? As in Python, an object equals itself."""
    special = [is_object(a) or T.is_subtype(a.type, T.TENSOR) for a in lefts]
    plain = special.index(True) if True in special else len(lefts)
    result: Value | None = None
    for a, b in zip(lefts[:plain], rights[:plain], strict=True):
        one = _emit_operator(em, expr, a, b)
        result = one if result is None else em.op("aten::__and__", [result, one], range=expr.range)
    if plain == len(lefts):
        return result if result is not None else em.constant(True, expr.range)
    rest = lefts[plain:], rights[plain:]
    if result is None:
        return _object_and_rest(em, expr, *rest)
    return _both(em, expr, result, lambda: _object_and_rest(em, expr, *rest))


def _both(em: Emitter, expr: tree.BinOp, first: Value, second: Callable[[], Value]) -> Value:
    return emit_if_expression(em, expr.range, Condition(first), second, lambda: em.constant(False, expr.range))


def _object_and_rest(em: Emitter, expr: tree.BinOp, lefts: Sequence[Value], rights: Sequence[Value]) -> Value:
    """The first elements are objects or tensors, whose comparison may run code or give no bool."""
    a, b = lefts[0], rights[0]
    same = em.op("aten::__is__", [a, b], range=expr.range)
    equal = emit_if_expression(
        em, expr.range, Condition(same), lambda: em.constant(True, expr.range),
        lambda: to_bool(em, _emit_operator(em, expr, a, b), expr.range),
    )  # fmt: skip
    if len(lefts) == 1:
        return equal
    return _both(em, expr, equal, lambda: _all_equal(em, expr, lefts[1:], rights[1:]))


def _as_list(em: Emitter, expr: tree.BinOp, t: T.TupleType, elements: Sequence[Value]) -> Value:
    common = T.unify_all([e.type for e in elements])
    if common is None:
        raise MIXED_ELEMENTS("`in` needs a tuple of one element type", expr.range, found=t.annotation)
    return em.make_list(common, elements)


def _emit_without_operator(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value | None:
    """What is a form of its own: the formatting of strings, and the sum and comparison of tuples."""
    if expr.op == "%" and left.type is T.STRING:
        return em.node("aten::percentFormat", [left, right], [T.STRING], expr.range).output
    if expr.op in orders() and isinstance(left.type, T.ListType) and isinstance(right.type, T.ListType):
        return _ordered_lists(em, expr, left, right)
    if expr.op == "*":
        return repeated_text(em, expr.range, left, right) or _repeated_tuple(em, left, right)
    both_tuples = isinstance(left.type, T.TupleType) and isinstance(right.type, T.TupleType)
    return _tuple_operator(em, expr, left, right) if both_tuples else None


_MOST_ELEMENTS = 256
"""A tuple is repeated element by element up to this length; a longer one is a list, to be spread or gone through."""


def _repeated_tuple(em: Emitter, left: Value, right: Value) -> Value | None:
    """`(1, 2) * 3`, for a number that is known; None for others, and for what is no tuple."""
    repeated, number = (right, left) if left.type is T.INT else (left, right)
    times = _known_number(number) if number.type is T.INT else None
    if not isinstance(repeated.type, T.TupleType) or times is None:
        return None
    if len(repeated.type.elements) * times > _MOST_ELEMENTS:
        return None
    return em.make_tuple(em.unpack_tuple(repeated) * times)


def _known_number(number: Value) -> int | None:
    """How many times a known number says; None where it is known at run time only. The length of a tuple is known."""
    if is_constant(number):
        found: int = constant_of(number)
        return found
    measured = number.node.inputs[0].node if number.node.kind == "aten::len" else number.node
    return len(measured.inputs) if measured.kind == "prim::ListConstruct" else None


def _tuple_operator(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value | None:
    """The sum or comparison of tuples; None for another operator."""
    if expr.op == "+":
        return em.make_tuple([*em.unpack_tuple(left), *em.unpack_tuple(right)])
    if expr.op in ("eq", "ne"):
        return _compare_tuples(em, expr, left, right)
    return _ordered(em, expr, em.unpack_tuple(left), em.unpack_tuple(right)) if expr.op in orders() else None


def _ordered(em: Emitter, expr: tree.BinOp, lefts: Sequence[Value], rights: Sequence[Value]) -> Value:
    """The order of tuples: that of the first elements which differ, else that of the lengths."""
    if not lefts or not rights:
        return em.constant(orders()[expr.op].original(len(lefts), len(rights)), expr.range)
    first, other = lefts[0], rights[0]
    if any(T.is_subtype(v.type, T.TENSOR) for v in (first, other)):
        raise OPERANDS.unsupported(
            "tuples with tensors have no order that is a bool", expr.range, hint="compare numbers: `x.item()`"
        )
    equality = tree.BinOp("eq", expr.left, expr.right, range=expr.range)
    compared = _object_and_rest(em, equality, [first], [other]) if is_object(first) else None
    same = _is_found(em, equality, first, other) if compared is None else compared
    return emit_if_expression(
        em, expr.range, Condition(same), lambda: _ordered(em, expr, lefts[1:], rights[1:]),
        lambda: _emit_operator(em, expr, first, other),
    )  # fmt: skip


def _ordered_lists(em: Emitter, expr: tree.BinOp, left: Value, right: Value) -> Value:
    given = [NamedValue(None, left, range=expr.left.range), NamedValue(None, right, range=expr.right.range)]
    order = orders()[expr.op]
    return call_library(em, expr.range, order.of_lists, given, original=order.original).as_value(em, expr.range)


def _emit_contains(em: Emitter, expr: tree.BinOp, item: Value, container: Value) -> Value:
    found = call_magic(em, expr.range, container, "__contains__", item)
    if found is not None:
        return found
    if isinstance(container.type, T.SetType):
        checked_element(T.unshaped(item.type), expr.left.range)
        return em.op("aten::__contains__", [container, item], range=expr.range)
    if not isinstance(container.type, T.TupleType):
        return _emit_contained(em, expr, item, container)
    elements = em.unpack_tuple(container)
    if _need_their_own_tests(item, elements):
        return is_one_of(em, expr, item, elements)
    return _emit_contained(em, expr, item, _as_list(em, expr, container.type, elements))


def _need_their_own_tests(item: Value, elements: Sequence[Value]) -> bool:
    """Are there elements of a tuple that no list looks an item up in?"""
    common = T.unify_all([e.type for e in elements])
    if common is None or item.type is T.NUMBER or (item.type is T.FLOAT and common in (T.INT, T.BOOL)):
        return True
    return any(isinstance(e.type, T.EnumType) or T.may_be_none(e.type) for e in (item, *elements))


def _emit_contained(em: Emitter, expr: tree.BinOp, item: Value, container: Value) -> Value:
    """Membership in what is no tuple."""
    if _is_display_of_enums(container):
        return is_one_of(em, expr, item, container.node.inputs)
    if isinstance(container.type, T.UnionType) and not T.may_be_none(container.type):
        return em.by_type(container, expr.range, lambda one: _emit_contains(em, expr, item, one))
    if T.may_be_none(item.type) and isinstance(item.type, T.UnionType):
        return em.by_type(item, expr.range, lambda one: _emit_contains(em, expr, one, container))
    if item.type is T.NONE and _never_holds_none(container.type):
        return em.constant(False, expr.range)
    if _is_number_of_another_kind(item.type, container.type):
        given = [NamedValue(None, container, range=expr.right.range), NamedValue(None, item, range=expr.left.range)]
        return call_library(em, expr.range, contains, given, original=operator.contains).as_value(em, expr.range)
    return em.op("aten::__contains__", [container, item], range=expr.range)


def _is_number_of_another_kind(item: Type, container: Type) -> bool:
    """May an item equal an element of a list or a key of a dict without being of its type?"""
    if item is T.NUMBER:
        return isinstance(container, T.ListType | T.DictType)
    return item is T.FLOAT and container in _LISTS_OF_INTS


def _is_display_of_enums(value: Value) -> bool:
    of_enums = isinstance(value.type, T.ListType) and isinstance(value.type.element, T.EnumType)
    return of_enums and value.node.kind == "prim::ListConstruct"


def _never_holds_none(t: Type) -> bool:
    return isinstance(t, T.ListType) and t.element in _NEVER_NONE


def is_one_of(em: Emitter, expr: tree.BinOp, item: Value, elements: Sequence[Value]) -> Value:
    """Membership in what is written out, for elements that no operator of lists compares."""
    if isinstance(item.type, T.UnionType):
        return em.by_type(item, expr.range, lambda one: is_one_of(em, expr, one, elements))
    result = em.constant(False, expr.range)
    for element in elements:
        result = em.op("aten::__or__", [result, _is_found(em, expr, item, element)], range=expr.range)
    return result


def _is_found(em: Emitter, expr: tree.BinOp, item: Value, element: Value) -> Value:
    """Is an item what stands in a container? Python finds a NaN that is the same object, as lists do."""
    if item.type is T.FLOAT and element.type is T.FLOAT and not is_constant(element):
        return em.op("aten::__contains__", [em.make_list(T.FLOAT, [element]), item], range=expr.range)
    return _is_equal(em, expr, item, element)


def _is_equal(em: Emitter, expr: tree.BinOp, item: Value, element: Value) -> Value:
    """Does an item equal what stands in a container? What is of another kind does not."""
    types = [enum_value_type(t) for t in (item.type, element.type)]
    kinds = [T.NUMBER if t in _NUMBERS else T.unshaped(t) for t in types]
    if isinstance(element.type, T.UnionType):
        return em.by_type(element, expr.range, lambda one: _is_found(em, expr, item, one))
    if T.NONE in kinds or (kinds[0] is not kinds[1] and not {T.STRING, T.NUMBER}.isdisjoint(kinds)):
        return em.constant(kinds[0] is kinds[1], expr.range)
    return _emit_operator(em, tree.BinOp("eq", expr.left, expr.right, range=expr.range), item, element)


_NUMBERS = (T.INT, T.FLOAT, T.BOOL, T.COMPLEX, T.NUMBER)
_NEVER_NONE = (*_NUMBERS, T.STRING)
_LISTS_OF_INTS = (T.ListType.of(T.INT), T.ListType.of(T.BOOL))
