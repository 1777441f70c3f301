"""Sets as values: their methods, operators, and what they are made of.

A set of the graph is Python's own set. Its elements stand in the order that Python gives them, so each method and
operator of the program is that of Python, on the object that it has in the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_ARGUMENTS, WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.errors.names import NO_ATTRIBUTE, NOT_A_VALUE
from jitlite.base.errors.types import MIXED_ELEMENTS, NO_KEY, NOT_ITERABLE, OPERANDS
from jitlite.base.source import SourceRange, did_you_mean
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.empty_literals import as_wanted, unknown_elements
from jitlite.frontend.emit.values import Args, BuiltinFunction, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.ir.traits import Trait
from jitlite.ir.types import Type
from jitlite.operators.conversions import is_empty_literal
from jitlite.operators.overloads import NamedValue

NEW, FROZEN = "set::new", "set::frozen"

_QUESTIONS = ("issubset", "issuperset", "isdisjoint")
_COMBINED = ("union", "intersection", "difference", "symmetric_difference")
_CHANGED = ("update", "intersection_update", "difference_update", "symmetric_difference_update")
_SIGNS = ("|", "&", "-", "^")
_OF_ELEMENT = ("add", "discard", "remove")
_OF_NOTHING = ("pop", "clear", "copy")
_READING = (*_QUESTIONS, *_COMBINED, "copy")
_METHODS = (*_READING, *_CHANGED, *_OF_ELEMENT, "pop", "clear")
_KINDS = (
    ("eq", "set::eq"), ("ne", "set::ne"), ("le", "set::le"), ("<", "set::lt"), ("ge", "set::ge"), (">", "set::gt"),
    *((sign, f"set::{name}") for sign, name in zip(_SIGNS, _COMBINED, strict=True)),
)  # fmt: skip
"""The kinds of operators between two sets."""


def element_type(types: Sequence[Type], hint: Type | None, range: SourceRange) -> Type:
    """The type of the elements of a set: that of a hint, or what the types of the elements unify to.

    Raises:
        CompileError: there is none, or values of it cannot be in a set.
    """
    wanted = hinted(hint)
    if wanted is not None:
        return wanted
    if not types:
        raise unknown_elements(range)
    common = T.unify_all(types)
    if common is None:
        shown = " and ".join(sorted({t.annotation for t in types}))
        raise MIXED_ELEMENTS(f"the elements of a set are of several types: {shown}", range,
                             hint="annotate the set: `s: Set[float] = {1, 0.5}`")  # fmt: skip
    return checked_element(T.unshaped(common), range)


def hinted(hint: Type | None) -> Type | None:
    """The type of elements that the annotation of a set says; None where it says none."""
    found = [] if hint is None else [m for m in T.members_of(hint) if isinstance(m, T.SetType)]
    return found[0].element if len(found) == 1 else None


def checked_element(element: Type, range: SourceRange) -> Type:
    """The type, if its values can be in a set."""
    if T.may_be_in_set(element):
        return element
    raise NO_KEY(
        f"a set of {element.annotation} isn't supported, only of numbers, strings, members of enums, and tuples of "
        "these", range, hint="use a list",
    )  # fmt: skip


def as_element(b: Builder, value: Value, element: Type, range: SourceRange) -> Value:
    """A value as an element of a set."""
    return b.expect(element, value, range, f"the set holds {element.annotation}, and is given {value.type.annotation}")


def set_of(b: Builder, values: Sequence[Value], hint: Type | None, range: SourceRange, kind: str = NEW) -> Value:
    """A new set, to which the values are added one by one."""
    element = element_type([v.type for v in values], hint, range)
    return b.op(kind, [b.make_list(element, [as_element(b, v, element, range) for v in values])], range=range)


def listed(b: Builder, found: SugaredValue, range: SourceRange) -> SugaredValue:
    """The elements of a set as a list; what is no set stays as it is."""
    is_set = isinstance(found, SimpleValue) and isinstance(found.value.type, T.SetType)
    return found.iterate(b, range) if is_set else found


def with_elements(b: Builder, callee: BuiltinFunction, args: list[NamedValue], range: SourceRange) -> list[NamedValue]:
    """The arguments of an operator that goes through elements of lists, with lists in place of sets."""
    if callee.name not in Trait.OVER_ELEMENTS.kinds:
        return args

    def listed_argument(given: NamedValue) -> NamedValue:
        if given.value is None or not is_set(given.value):
            return given
        return given._replace(value=b.op("set::elements", [given.value], range=range))

    return list(map(listed_argument, args))


def iterable_value(b: Builder, value: Value, range: SourceRange) -> Value:
    """What a set can be made of, or be changed by: a set, list, dict or string; a tuple becomes a list.

    Raises:
        CompileError: the value is nothing of that kind, or its elements cannot be in a set.
    """
    t = value.type
    if isinstance(t, T.TupleType):
        parts = b.unpack_tuple(value)
        value = b.make_list(element_type([p.type for p in parts], None, range) if parts else T.STRING, parts)
    elif isinstance(t, T.ListType | T.DictType):
        checked_element(t.contained[0], range)
    elif not isinstance(t, T.SetType) and t is not T.STRING:
        raise NOT_ITERABLE(f"a set cannot be made of or combined with a {t.annotation}", range)
    return value


# -- methods


def method_of_set(value: Value, name: str, range: SourceRange, *, read_only: bool = False) -> SugaredValue | None:
    """The method of this name; None for a value that is no set.

    Raises:
        CompileError: sets have none of this name, or it would change one that is frozen.
    """
    t = value.type
    if not isinstance(t, T.SetType):
        return None
    names = _READING if t.frozen or read_only else _METHODS
    if name in _METHODS and read_only and not t.frozen and name not in names:
        raise NOT_A_VALUE.unsupported(f"a global set cannot be changed: '{name}'", range, hint="copy it: `set(it)`")
    if name not in names:
        shown = "frozenset" if t.frozen else "set"
        raise NO_ATTRIBUTE(
            f"'{shown}' object has no attribute or method '{name}'", range, hint=did_you_mean(name, names)
        )
    return SetMethod(value, name)


class SetMethod(SugaredValue):
    """A method of a set, waiting for its call."""

    is_function = True
    takes_iterables = True

    def __init__(self, owner: Value, name: str) -> None:
        self.owner = owner
        self.name = name
        self.kind = f"the method {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if kwargs:
            raise WRONG_KEYWORD(f"{self.name}() takes no keyword arguments", range)
        given = [a.in_graph(b.graph) for a in args]
        if self.name in _OF_NOTHING:
            self._count(given, 0, range)
            return SimpleValue(b.op(f"set::{self.name}", [self.owner], range=range))
        if self.name in _OF_ELEMENT:
            self._count(given, 1, range)
            return self._of_element(b, range, given[0])
        others = [self._other(b, value, range) for value in given]
        if self.name in _COMBINED and self.name != "symmetric_difference":
            return SimpleValue(self._combined(b, range, others))
        if self.name in ("update", "intersection_update", "difference_update"):
            return SimpleValue(self._changed(b, range, others))
        self._count(given, 1, range)
        return SimpleValue(self._asked(b, range, others[0]))

    def _count(self, given: Sequence[Value], wanted: int, range: SourceRange) -> None:
        if len(given) != wanted:
            raise WRONG_COUNT(f"{self.name}() takes {wanted} arguments, got {len(given)}", range)

    @property
    def _element(self) -> Type:
        assert isinstance(self.owner.type, T.SetType)
        return self.owner.type.element

    def _of_element(self, b: Builder, range: SourceRange, value: Value) -> SugaredValue:
        if self.name == "add":
            value = as_element(b, value, self._element, range)
        else:
            checked_element(T.unshaped(value.type), range)
        return SimpleValue(b.op(f"set::{self.name}", [self.owner, value], range=range))

    def _other(self, b: Builder, value: Value, range: SourceRange) -> Value:
        """What the set is combined with, as what its operators take."""
        value = iterable_value(b, value, range)
        if is_empty_literal(value):
            return b.make_list(self._element, [])
        is_made_room_for = self.name in ("update", "union") and isinstance(value.type, T.DictType)
        if isinstance(value.type, T.DictType) and not is_made_room_for:
            return b.op("aten::keys", [value], range=range)
        return b.op("aten::list", [value], range=range) if value.type is T.STRING else value

    def _combined(self, b: Builder, range: SourceRange, others: Sequence[Value]) -> Value:
        """Of several others, one after the other, as Python does it."""
        if not others:
            return b.op("set::copy", [self.owner], range=range)
        result = self.owner
        for other in others:
            result = b.op(f"set::{self.name}", [result, other], range=range)
        return result

    def _changed(self, b: Builder, range: SourceRange, others: Sequence[Value]) -> Value:
        if self.name == "intersection_update" and len(others) > 1:
            raise WRONG_ARGUMENTS("intersection_update of several others isn't supported", range,
                                  hint="call it once for each")  # fmt: skip
        for other in others:
            b.op(f"set::{self.name}", [self.owner, other], range=range)
        return b.constant(None, range)

    def _asked(self, b: Builder, range: SourceRange, other: Value) -> Value:
        """The answer to a question, or what stands behind a method of one other set or list."""
        if self.name == "isdisjoint":
            other = b.op("set::elements", [other], range=range) if isinstance(other.type, T.SetType) else other
        elif self.name in _QUESTIONS:
            other = other if isinstance(other.type, T.SetType) else b.op(NEW, [other], range=range)
            return b.op("set::le" if self.name == "issubset" else "set::ge", [self.owner, other], range=range)
        result = b.op(f"set::{self.name}", [self.owner, other], range=range)
        return b.constant(None, range) if self.name in _CHANGED else result


# -- operators


def is_set(value: Value) -> bool:
    """Is the value a set or frozenset?"""
    return isinstance(value.type, T.SetType)


def operate(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left op right` where one is a set; None for other values.

    Raises:
        CompileError: Python has no such operator for the two.
    """
    if not is_set(left) and not is_set(right):
        return None
    if is_set(left) and is_set(right):
        left, right = _as_other(b, left, right, range), _as_other(b, right, left, range)
        kind = dict(_KINDS).get(op)
        if kind is not None:
            return b.op(kind, _named(left, right, range), range=range)
    elif op in ("eq", "ne") and not any(isinstance(v.type, T.UnionType) for v in (left, right)):
        return b.constant(op == "ne", range)
    raise _no_operator(range, op, left, right)


def _as_other(b: Builder, value: Value, other: Value, range: SourceRange) -> Value:
    """An operand; an empty set of what nothing tells as one of what the other operand holds."""
    assert isinstance(value.type, T.SetType)
    return as_wanted(b, value, value.type.with_contained(other.type.contained), range)


def augment(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left op= right` for a set, which is changed, or a frozenset, which is not; None for other values."""
    if not isinstance(left.type, T.SetType):
        return None
    if left.type.frozen or not is_set(right) or op not in _SIGNS:
        return operate(b, range, op, left, right)
    b.op(f"set::{_CHANGED[_SIGNS.index(op)]}", _named(left, right, range), range=range)
    return left


def _named(left: Value, right: Value, range: SourceRange) -> list[NamedValue]:
    return [NamedValue(None, left, range=range), NamedValue(None, right, range=range)]


def _no_operator(range: SourceRange, op: str, left: Value, right: Value) -> Exception:
    return OPERANDS(
        f"unsupported operand types for {op}: '{left.type.annotation}' and '{right.type.annotation}'", range,
        hint="make a set of both sides" if op in _SIGNS else None,
    )  # fmt: skip
