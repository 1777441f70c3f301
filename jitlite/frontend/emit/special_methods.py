"""Special methods: operators and builtin functions on objects of script classes."""

from __future__ import annotations

import inspect

from jitlite.base.errors.types import OPERANDS
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.builtin_names import BINARY_METHODS
from jitlite.frontend.emit.values import Args, BuiltinFunction, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.operators.overloads import NamedValue

_MIRRORED = {"<": "__gt__", ">": "__lt__", "le": "__ge__", "ge": "__le__", "eq": "__eq__", "ne": "__ne__"}
"""The method of the right operand that a comparison falls back on."""

UNARY_METHODS = {"unary minus": "__neg__", "unary plus": "__pos__", "~": "__invert__"}


def is_object(value: Value) -> bool:
    """Is the value an object of a class that scripts know?"""
    return isinstance(value.type, T.ClassType) and value.type.definition is not None


def defines(value: Value, name: str) -> bool:
    """Is the value a named tuple whose class defines the special method itself?"""
    t = value.type
    if not isinstance(t, T.TupleType) or t.python_class is None:
        return False
    found = inspect.getattr_static(t.python_class, name, None)
    return inspect.isfunction(found) and found.__module__ != "collections"


def tuple_operator(b: Builder, range: SourceRange, op: str, left: Value, right: Value) -> Value | None:
    """`left op right` where one is a named tuple whose class defines it; None where tuples do what tuples do."""
    method = BINARY_METHODS.get(op, "")
    if defines(left, method):
        return call_magic(b, range, left, method, right)
    mirrored = _MIRRORED.get(op, f"__r{method[2:]}")
    return call_magic(b, range, right, mirrored, left) if defines(right, mirrored) else None


def call_magic(b: Builder, range: SourceRange, value: Value, name: str, *args: Value) -> Value | None:
    """What the special method gives, None where `value` has no such method."""
    given = [NamedValue(None, a, range=range) for a in args]
    if defines(value, name):
        method = b.member(value, name, range)
        assert isinstance(method, SugaredValue)
        return method.call(b, range, given, []).as_value(b, range)
    if not is_object(value):
        return None
    found = SimpleValue(value).magic(b, range, name, given)
    return None if found is None else found.as_value(b, range)


def binary_magic(
    b: Builder, range: SourceRange, op: str, left: Value, right: Value, *, in_place: bool = False
) -> Value | None:
    """`left op right`, or `left op= right`, where one is an object, as Python decides it; None where neither is.

    Raises:
        CompileError: where neither has a method for it.
    """
    if not is_object(left) and not is_object(right):
        return None
    method = BINARY_METHODS[op]
    found = call_magic(b, range, left, method, right)
    if found is None:
        found = call_magic(b, range, right, _MIRRORED.get(op, f"__r{method[2:]}"), left)
    if found is None and op == "ne":
        equal = binary_magic(b, range, "eq", left, right)
        found = None if equal is None else b.op("aten::__not__", [equal], range=range)
    if found is not None:
        return found
    if op == "eq":  # what object.__eq__ does
        return b.op("aten::__is__", [left, right], range=range)
    raise _no_method(method, op, left, right, range, in_place=in_place)


def _no_method(method: str, op: str, left: Value, right: Value, range: SourceRange, *, in_place: bool) -> CompileError:
    what = "Cannot emit inplace op: " if in_place else ""
    return OPERANDS(
        f"{what}'{left.type.annotation}' object has no attribute or method '{method}': unsupported operand types "
        f"for {op}, '{left.type.annotation}' and '{right.type.annotation}'",
        range,
        hint=f"define {method}",
    )


def length_truth(b: Builder, range: SourceRange, value: Value) -> Value:
    """The truth of an object without `__bool__`: has it a length, and is that not 0?"""
    length = call_magic(b, range, value, "__len__")
    return b.constant(True, range) if length is None else b.op("aten::Bool", [length], range=range)


class UnionLength(SugaredValue):
    """`len` of what is no object."""

    kind = "builtin aten::len"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        value = args[0].value if len(args) == 1 and not kwargs else None
        if value is None or not isinstance(value.type, T.UnionType) or T.may_be_none(value.type):
            return BuiltinFunction("aten::len").call(b, range, args, kwargs)

        def length(one: Value) -> Value:
            return MagicFunction("__len__", self).call(b, range, [NamedValue(None, one)], []).as_value(b, range)

        return SimpleValue(b.by_type(value, range, length))


class MagicFunction(SugaredValue):
    """A builtin function that asks an object's special method, e.g. `len`."""

    is_function = True

    def __init__(self, method: str, base: SugaredValue) -> None:
        self.method = method
        self.base = base
        self.kind = base.kind
        self.instead_of_value = base.instead_of_value
        self.takes_functions = base.takes_functions

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        return self.base.attr(b, range, name)

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        subject = args[0].value if args else None
        if subject is not None and defines(subject, self.method):
            others = [a.in_graph(b.graph) for a in args[1:]]
            answer = call_magic(b, range, subject, self.method, *others)
            assert answer is not None
            return SimpleValue(answer)
        if subject is not None and self.method == "__bool__" and defines(subject, "__len__"):
            return SimpleValue(length_truth(b, range, subject))
        if args and (args[0].value is not None) and is_object(args[0].value):
            found = SimpleValue(args[0].value).magic(b, range, self.method, args[1:])
            if found is not None:
                return found
            if self.method == "__bool__":
                return SimpleValue(length_truth(b, range, args[0].value))
        return self.base.call(b, range, args, kwargs)


def is_special_name(name: str) -> bool:
    """Is it a method that Python calls, whose arguments therefore have known types?"""
    return name.startswith("__") and name.endswith("__") and name != "__call__"
