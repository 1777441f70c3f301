"""Implicit conversions of arguments: tensors to numbers, tuples to lists, bools to ints, strings to devices, members of
an `IntEnum` or `StrEnum` to their values, ints to floats.

An int where a float is wanted stays the int that it is, as in Python; only its type is another one.

`conversion` tells from types alone what would be done; `try_convert_to_type` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from jitlite.base.errors.calls import WRONG_ARGUMENTS
from jitlite.base.source import SourceRange
from jitlite.ir import types as T
from jitlite.ir.graph import Graph, Value
from jitlite.ir.types import Type

EMPTY_LITERAL = "prim::EmptyLiteral"

_NUMBERS = T.ListType.of(T.NUMBER)

Convert = Callable[[Graph, SourceRange | None, Value], Value]
"""Inserts the nodes of a conversion."""


class Conversion(NamedTuple):
    """What becomes of a value: its new type and how to get there, None if it is used as it is."""

    type: Type
    convert: Convert | None


_IMPLICIT: dict[tuple[Type, Type], str] = {
    (T.TENSOR, T.FLOAT): "aten::FloatImplicit", (T.TENSOR, T.COMPLEX): "aten::ComplexImplicit",
    (T.TENSOR, T.INT): "aten::IntImplicit", (T.TENSOR, T.NUMBER): "aten::ScalarImplicit",
    (T.NUMBER, T.FLOAT): "aten::Float", (T.NUMBER, T.COMPLEX): "aten::Complex", (T.NUMBER, T.INT): "prim::AsInt",
    (T.BOOL, T.FLOAT): "aten::Float", (T.BOOL, T.COMPLEX): "aten::Complex", (T.BOOL, T.INT): "aten::Int",
    (T.BOOL, T.NUMBER): "aten::ScalarImplicit", (T.STRING, T.DEVICE): "aten::device",
}  # fmt: skip
"""Operators that convert an argument of the one type where the other one is wanted."""


def conversion(
    wanted: Type, actual: Type, allow: bool, is_empty_literal: bool = False, widen: bool = False
) -> Conversion:
    """How a value of type `actual` is brought to `wanted`. It fits only if the new type is a subtype of `wanted`.

    Tuples become lists and are converted element by element in any case, the rest only where `allow` says so.

    Args:
        widen: an int is taken for a float.
    """
    if T.is_named(wanted) or T.is_named(actual):  # the table below would keep the classes alive
        return _conversion(wanted, actual, allow, is_empty_literal, widen)
    return _known_conversion(wanted, actual, allow, is_empty_literal, widen)


def _conversion(wanted: Type, actual: Type, allow: bool, is_empty_literal: bool, widen: bool) -> Conversion:
    if isinstance(wanted, T.OptionalType) and not isinstance(actual, T.OptionalType) and actual is not T.NONE:
        return conversion(wanted.element, actual, allow, is_empty_literal, widen)
    if is_empty_literal and _is_of_kind(wanted, actual):
        return Conversion(wanted, lambda graph, range, value: construct_empty(graph, range, wanted))
    if isinstance(actual, T.TupleType):
        return _tuple_conversion(wanted, actual, allow, widen)
    if widen and wanted is T.FLOAT and actual is T.INT:
        return _INT_AS_FLOAT
    return _implicit_conversion(wanted, actual) if allow else Conversion(actual, None)


def _implicit_conversion(wanted: Type, actual: Type) -> Conversion:
    """Of a tensor to a number, and of a member of an enum to its value."""
    kind = _IMPLICIT.get((T.unshaped(actual), wanted))
    if kind is not None:
        return Conversion(wanted, _operator(kind, wanted))
    if actual is _NUMBERS and wanted in (T.ListType.of(T.INT), T.ListType.of(T.FLOAT)):
        assert isinstance(wanted, T.ListType)
        return _conversion_of_display(wanted)
    value_type = enum_value_type(actual)
    if value_type is not actual and T.is_subtype(value_type, wanted):
        return Conversion(value_type, _operator("prim::EnumValue", value_type))
    return Conversion(actual, None)


_known_conversion = lru_cache(maxsize=4096)(_conversion)


def enum_value_type(t: Type) -> Type:
    """The type of the values of an Enum whose members are ints or strings themselves; other types as they are."""
    if not isinstance(t, T.EnumType):
        return t
    base = int if t.value_type is T.INT else str if t.value_type is T.STRING else None
    return t.value_type if base is not None and issubclass(t.python_class, base) else t


def _only_list(union: T.UnionType, actual: T.TupleType) -> Type:
    """The member that is a list of what the tuple holds, if there is just one; else the union."""
    lists = [m for m in union.members if isinstance(m, T.ListType) and is_convertible_to_list(actual, m)]
    return lists[0] if len(lists) == 1 else union


def _tuple_conversion(wanted: Type, actual: T.TupleType, allow: bool, widen: bool) -> Conversion:
    bare = wanted.element if isinstance(wanted, T.OptionalType) else wanted
    if isinstance(bare, T.UnionType) and not T.is_subtype(actual, bare):
        bare = _only_list(bare, actual)
    if isinstance(bare, T.ListType):
        return _conversion_to_list(bare, actual, allow, widen)
    is_like = isinstance(wanted, T.TupleType) and len(wanted.elements) == len(actual.elements)
    if not isinstance(wanted, T.TupleType) or not is_like or T.is_subtype(actual, wanted):
        return Conversion(actual, None)
    return _conversion_of_elements(wanted, actual, allow, widen)


def _conversion_to_list(wanted: T.ListType, actual: T.TupleType, allow: bool, widen: bool) -> Conversion:
    parts = [_element_conversion(wanted.element, a, allow, widen) for a in actual.elements]
    if not is_convertible_to_list(T.TupleType.of(p.type for p in parts), wanted):
        return Conversion(actual, None)

    def convert(graph: Graph, range: SourceRange | None, value: Value) -> Value:
        return construct_list(graph, range, wanted, _converted(graph, range, parts, _unpack(graph, range, value)))

    return Conversion(wanted, convert)


def _element_conversion(wanted: Type, actual: Type, allow: bool, widen: bool) -> Conversion:
    if allow and actual is T.NUMBER:
        return _implicit_conversion(wanted, actual)
    return _INT_AS_FLOAT if widen and wanted is T.FLOAT and actual is T.INT else Conversion(actual, None)


def _conversion_of_display(wanted: T.ListType) -> Conversion:
    """Of a list of numbers that is written out, to one of ints or of floats."""
    convert_element = _implicit_conversion(wanted.element, T.NUMBER).convert

    def convert(graph: Graph, range: SourceRange | None, value: Value) -> Value:
        assert convert_element is not None
        if value.node.kind != "prim::ListConstruct" or value.has_uses:
            raise WRONG_ARGUMENTS(
                "a list that may hold ints and floats is given where all have to be of one type", range,
                hint="write the list where it is used, or convert what it is made of: `[int(n), 2]`",
                expected=wanted.annotation, found=value.type.annotation,
            )  # fmt: skip
        one_type = (e if e.type is wanted.element else convert_element(graph, range, e) for e in value.node.inputs)
        return construct_list(graph, range, wanted, list(one_type))

    return Conversion(wanted, convert)


def _converted(
    graph: Graph, range: SourceRange | None, parts: Sequence[Conversion], elements: Sequence[Value]
) -> list[Value]:
    return [p.convert(graph, range, e) if p.convert else e for p, e in zip(parts, elements, strict=True)]


def _conversion_of_elements(wanted: T.TupleType, actual: T.TupleType, allow: bool, widen: bool) -> Conversion:
    parts = [conversion(w, a, allow, widen=widen) for w, a in zip(wanted.elements, actual.elements, strict=True)]
    result = T.TupleType.of(p.type for p in parts)

    def convert(graph: Graph, range: SourceRange | None, value: Value) -> Value:
        converted = _converted(graph, range, parts, _unpack(graph, range, value))
        return graph.insert("prim::TupleConstruct", converted, [result], range=range).output

    return Conversion(result, convert)


def is_convertible_to_list(actual: Type, wanted: T.ListType) -> bool:
    """Is `actual` the list type, or a tuple whose elements all fit into such a list?"""
    if T.is_subtype(actual, wanted):
        return True
    return isinstance(actual, T.TupleType) and all(T.is_subtype(e, wanted.element) for e in actual.elements)


def _operator(kind: str, result: Type) -> Convert:
    return lambda graph, range, value: graph.insert(kind, [value], [result], range=range).output


_INT_AS_FLOAT = Conversion(T.FLOAT, _operator("prim::unchecked_cast", T.FLOAT))


def _is_of_kind(wanted: Type, literal: Type) -> bool:
    """Is a type one of lists, dicts or sets, as that of a literal is?"""
    if isinstance(wanted, T.SetType) and isinstance(literal, T.SetType):
        return wanted.frozen is literal.frozen
    return isinstance(wanted, T.ListType | T.DictType) and type(wanted) is type(literal)


def is_empty_literal(value: Value) -> bool:
    """Is the value a literal of no elements that may still become one of another type?"""
    return value.node.kind == EMPTY_LITERAL


def construct_empty(graph: Graph, range: SourceRange | None, type: Type) -> Value:
    """Insert an empty list, dict or set."""
    if isinstance(type, T.SetType):
        nothing = construct_list(graph, range, T.ListType.of(type.element), [])
        return graph.insert("set::frozen" if type.frozen else "set::new", [nothing], [type], range=range).output
    kind = "prim::DictConstruct" if isinstance(type, T.DictType) else "prim::ListConstruct"
    return graph.insert(kind, [], [type], range=range).output


def construct_list(graph: Graph, range: SourceRange | None, type: T.ListType, elements: Sequence[Value]) -> Value:
    """Insert a list display."""
    return graph.insert("prim::ListConstruct", elements, [type], range=range).output


def _unpack(graph: Graph, range: SourceRange | None, value: Value) -> list[Value]:
    """The elements of a tuple; those it was made of, if it is made in sight."""
    if value.node.kind == "prim::TupleConstruct":
        return list(value.node.inputs)
    assert isinstance(value.type, T.TupleType)
    return list(graph.insert("prim::TupleUnpack", [value], value.type.elements, range=range).outputs)


def try_convert_to_type(
    graph: Graph,
    range: SourceRange | None,
    concrete_type: Type,
    value: Value,
    allow_conversions: bool,
    widen: bool = False,
) -> Value:
    """The value brought to `concrete_type` by the implicit conversions of calls, or itself where there is none."""
    convert = conversion(concrete_type, value.type, allow_conversions, is_empty_literal(value), widen).convert
    return value if convert is None else convert(graph, range, value)
