"""Sugared values of Python's own types as functions, and of `print` and `breakpoint`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Sequence

from jitlite.base.errors.calls import WRONG_COUNT, WRONG_KEYWORD
from jitlite.base.errors.types import WRONG_TYPE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.shown_values import shown
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value, constant_of, is_constant
from jitlite.ir.types import Type
from jitlite.operators.overloads import NamedValue


class Cast(SugaredValue):
    """`int`, `float`, `bool`, `str`, `complex` as functions."""

    def __init__(self, type: Type, operator: str) -> None:
        self.type = type
        self.operator = operator
        self.takes_functions = type in (T.STRING, T.BOOL)
        self.kind = f"the type {type.annotation}"
        dtypes: dict[Type, str] = {T.FLOAT: "float64", T.INT: "int64", T.BOOL: "bool", T.COMPLEX: "complex128"}
        asked = f"to ask whether a value is one, write isinstance(x, {type.annotation})"
        self.instead_of_value = f"{asked}; as a dtype, torch.{dtypes[type]}" if type in dtypes else asked

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        python_types: dict[Type, type] = {T.STRING: str, T.INT: int, T.FLOAT: float}
        python_type = python_types.get(self.type)
        member = inspect.getattr_static(python_type, name, None) if python_type is not None else None
        if not inspect.ismethoddescriptor(member):  # those of the class, as `str.maketrans`, are none
            return super().attr(b, range, name)
        return MethodOfType(self.type, name)

    def _is_converted(self, value: Value) -> bool:
        """Is the value what it is to be converted to? One typed float may hold a Python int (`2 ** 3`)."""
        if T.is_subtype(value.type, self.type) and self.type not in (T.FLOAT, T.COMPLEX):
            return True
        return value.type is T.FLOAT and self.type is T.FLOAT and _is_python_float(value)

    def _read(self, b: Builder, argument: NamedValue, range: SourceRange) -> Value:
        """The value, or, where the graph has none, what is asked of it."""
        given = argument.constant
        truth = given.truth(b, range) if self.type is T.BOOL and isinstance(given, SugaredValue) else None
        return shown(b, argument, range) if truth is None else truth

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if self.takes_functions:
            args = [NamedValue(a.name, self._read(b, a, range), range=a.range) for a in args]
        if len(args) == 1 and not kwargs:
            value = args[0].in_graph(b.graph)
            if self._is_converted(value):
                return SimpleValue(value)
            if self.type is T.BOOL and (truth := container_truth(b, value, range)) is not None:
                return SimpleValue(truth)
        if not args and not kwargs and self.type in _ZERO:
            return SimpleValue(b.constant(_ZERO[self.type], range))
        return SimpleValue(b.op(self.operator, list(args), kwargs, range))


def container_truth(b: Builder, value: Value, range: SourceRange) -> Value | None:
    """Has a list, dict, tuple or text elements? None for a value of another type."""
    kinds = T.members_of(value.type)
    if len(kinds) > 1 and all(
        isinstance(m, T.ListType | T.DictType | T.SetType | T.TupleType) or m is T.STRING for m in kinds
    ):
        return b.by_type(value, range, lambda one: container_truth(b, one, range) or one)
    if isinstance(value.type, T.TupleType):
        return b.constant(bool(value.type.elements), range)
    if not isinstance(value.type, T.ListType | T.DictType | T.SetType) and value.type is not T.STRING:
        return None
    length = b.op("aten::len", [value], range=range)
    return b.op("aten::gt", [length, b.constant(0, range)], range=range)


_ZERO: dict[Type, object] = {T.INT: 0, T.FLOAT: 0.0, T.BOOL: False, T.STRING: "", T.COMPLEX: 0j}


def _is_python_float(value: Value) -> bool:
    return is_constant(value) and type(constant_of(value)) is float


class MethodOfType(SugaredValue):
    """`str.upper`, as a function of a text."""

    is_function = True

    def __init__(self, type: Type, name: str) -> None:
        self.type = type
        self.name = name
        self.kind = f"the method {type.annotation}.{name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if not args:
            raise WRONG_COUNT(f"unbound method {self.type.annotation}.{self.name}() needs an argument", range)
        message = f"{self.kind} is one of a value of type {self.type.annotation}"
        this = args[0].in_graph(b.graph)
        if this.type is not self.type:
            raise WRONG_TYPE(message, range, expected=self.type.annotation, found=this.type.annotation)
        return SimpleValue(this).attr(b, range, self.name).call(b, range, args[1:], kwargs)


class StandardStream(SugaredValue):
    """`sys.stdout` or `sys.stderr`, to which `print` writes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = f"the stream sys.{name}"

    @property
    def is_symbolic(self) -> bool:
        return True


def standard_stream(found: object) -> StandardStream | None:
    """The stream that a Python object is; None where it is none that scripts know."""
    names = (name for name in ("stdout", "stderr") if found is getattr(sys, name) and found is not None)
    return next(map(StandardStream, names), None)


class PrintValue(SugaredValue):
    """`print`."""

    kind = "the function print"
    takes_functions = True

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        values = [shown(b, a, range) for a in args]
        given = {str(keyword.name): keyword for keyword in kwargs}
        to_stderr = self._is_stderr(b, given.pop("file", None), range)
        given.pop("flush", None)
        texts = {name: self._text(b, keyword, range) for name, keyword in given.items()}
        separator, end = texts.get("sep"), texts.get("end")
        if end is None and not to_stderr:
            b.node("prim::Print", values if separator is None else [_joined(b, range, values, separator)], [], range)
            return NoneValue()
        text = _joined(b, range, values, separator or b.constant(" ", range))
        b.op("python::print", [text, end or b.constant("\n", range), b.constant(to_stderr, range)], range=range)
        return NoneValue()

    def _is_stderr(self, b: Builder, file: NamedValue | None, range: SourceRange) -> bool:
        if file is not None and isinstance(file.constant, StandardStream):
            return file.constant.name == "stderr"
        if file is None or file.in_graph(b.graph).type is T.NONE:
            return False
        raise WRONG_KEYWORD.unsupported(
            "print writes to sys.stdout and sys.stderr only", range, hint="leave out `file`"
        )

    def _text(self, b: Builder, keyword: NamedValue, range: SourceRange) -> Value | None:
        """The text that a keyword gives; None where that is what Python takes anyway."""
        if keyword.name not in ("sep", "end"):
            raise WRONG_KEYWORD(
                f"print has no parameter '{keyword.name}'", range, found=str(keyword.name),
                hint="it has sep, end, file and flush",
            )  # fmt: skip
        given = keyword.in_graph(b.graph)
        if given.type not in (T.STRING, T.NONE):
            raise WRONG_TYPE(
                f"print takes a text for '{keyword.name}'", range, expected="str", found=given.type.annotation
            )
        is_default = keyword.name == "end" and is_constant(given) and constant_of(given) == "\n"
        return None if given.type is T.NONE or is_default else given


def _joined(b: Builder, range: SourceRange, values: Sequence[Value], separator: Value) -> Value:
    plain = b.constant("{}", range)
    texts = [b.op("aten::format", [plain, value], range=range) for value in values]
    return b.op("aten::join", [separator, b.make_list(T.STRING, texts)], range=range)


class FormatValue(SugaredValue):
    """`repr` and `format`, which do what a field of a format string does."""

    is_function = takes_functions = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = f"the function {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        most = 2 if self.name == "format" else 1
        if kwargs or not 1 <= len(args) <= most:
            raise WRONG_COUNT(f"{self.name} takes 1 to {most} arguments, got {len(args) + len(kwargs)}", range)
        field = "{!r}" if self.name == "repr" else "{:{}}" if len(args) == 2 else "{}"
        values = [b.constant(field, range), shown(b, args[0], range)]
        if len(args) == 2:
            spec = args[1].in_graph(b.graph)
            known = constant_of(spec, None)
            if isinstance(known, str) and not {"{", "}"} & set(known):
                values[0] = b.constant(f"{{:{known}}}", range)
            else:
                values.append(spec)
        return SimpleValue(b.op("aten::format", values, range=range))


class BreakpointValue(SugaredValue):
    """`breakpoint`."""

    kind = "the function breakpoint"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if args or kwargs:
            raise WRONG_COUNT("breakpoint takes no arguments in a script", range, hint="write breakpoint()")
        b.node("prim::Breakpoint", [], [], range)
        return NoneValue()


class NoneValue(SugaredValue):
    """The result of a call that gives None."""

    kind = "None"

    def as_value(self, b: Builder, range: SourceRange) -> Value:
        return b.constant(None, range)
