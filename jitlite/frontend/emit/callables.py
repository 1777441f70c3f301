"""What can be called by name: script functions, overloads, constructors, calls left to Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from jitlite.base.errors.calls import WRONG_ARGUMENTS, WRONG_KEYWORD
from jitlite.base.errors.classes import NO_SCRIPT_CLASS
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.interfaces import infer_for_call, match_call
from jitlite.frontend.emit.values import Args, SimpleValue, SugaredValue
from jitlite.ir import types as T
from jitlite.ir.constants import QualifiedClassName
from jitlite.ir.graph import Value, constant_of
from jitlite.ir.object_creation import constructor_of_named_tuple
from jitlite.ir.schema import Argument, Schema, function_schema
from jitlite.ir.types import Type
from jitlite.ir.unit import Function
from jitlite.operators.overloads import MatchedSchema, match_schema, match_schemas, schema_argument_to_split
from jitlite.operators.prims import shows_empty_text


class Overload(Protocol):
    """What can be called once its arguments have been matched with its schema."""

    @property
    def schema(self) -> Schema: ...

    @property
    def leading(self) -> Args:
        """Arguments that come before those of the call: the object of a method."""
        ...

    def emit(self, b: Builder, range: SourceRange, matched: MatchedSchema) -> SugaredValue: ...


class FunctionValue(SugaredValue):
    """A script function."""

    is_function = True
    leading: Args = ()

    def __init__(self, function: Function) -> None:
        self.function = function
        self.kind = f"the function {function.name}"

    @property
    def schema(self) -> Schema:
        return self.function.schema

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        try:
            matched = match_call(self.schema, b.graph, range, args, kwargs)
        except CompileError:
            of_union = schema_argument_to_split(self.schema, args, kwargs)
            if of_union is None:
                raise
            return SimpleValue(b.call_by_type(of_union, range, args, kwargs, partial(self.call, b, range)))
        return self.emit(b, range, matched)

    def emit(self, b: Builder, range: SourceRange, matched: MatchedSchema) -> SugaredValue:
        constant = b.graph.insert(
            "prim::Constant", (), (T.FUNCTION,), {"name": self.function.name, "value": self.function}, range
        ).output
        return SimpleValue(
            b.node("prim::CallFunction", [constant, *matched.inputs], matched.return_types, range).output
        )


class NamedTupleConstructor(SugaredValue):
    """A NamedTuple class."""

    def __init__(self, type: T.TupleType, defaults: dict[str, object]) -> None:
        assert type.names is not None
        self.type = type
        self.kind = f"the class {type.annotation}"
        annotated = getattr(type.python_class, "__annotations__", type.names)
        arguments = [
            Argument(name, t, default_text=repr(defaults[name]), default=defaults[name])
            if name in defaults
            else Argument(name, t, inferred=name not in annotated)
            for name, t in zip(type.names, type.elements, strict=True)
        ]
        self.schema = function_schema(type.qualified_name or "NamedTuple", arguments, [type])

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        own = constructor_of_named_tuple(self.type.python_class)
        if own is not None:
            raise NO_SCRIPT_CLASS(
                f"the named tuple '{self.type.annotation}' is made by a {own} of its own", range,
                hint="give it a static method that computes the fields and makes one",
            )  # fmt: skip
        matched = match_call(self.schema, b.graph, range, args, kwargs)
        return SimpleValue(b.make_tuple(matched.inputs, self.type))


class ExceptionClass(SugaredValue):
    """An exception class."""

    def __init__(self, cls: type[BaseException], name: str | None) -> None:
        self.cls = cls
        self.qualified = None if name is None else QualifiedClassName(name, cls)
        self.kind = f"the exception {cls.__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if self.qualified is None:
            if kwargs:
                raise WRONG_KEYWORD(f"{self.cls.__name__} takes no keyword arguments here", range)
            message = self._message_with_class(b, range, [a.in_graph(b.graph) for a in args])
            return ExceptionInstance(self, message)
        args, kwargs = self._bound(range, args, kwargs)
        values = [a.in_graph(b.graph) for a in (*args, *kwargs)]
        if self._has_plain_text(values):
            return ExceptionInstance(self, values[0] if values else b.constant("", range))
        node = b.node("prim::NewException", [b.constant(self.qualified, range), *values], [T.EXCEPTION], range)
        if kwargs:
            node.attributes["keywords"] = [str(k.name) for k in kwargs]
        return SimpleValue(node.output)

    def _has_plain_text(self, values: Sequence[Value]) -> bool:
        """Does a text say what it is made of? The empty one stands for no argument, where the two look alike."""
        if self._has_own_constructor or len(values) > 1:
            return False
        if not values:
            return not shows_empty_text(self.cls)
        return values[0].type is T.STRING and (shows_empty_text(self.cls) or constant_of(values[0], None) != "")

    @property
    def _has_own_constructor(self) -> bool:
        """May making one do something else than keep its arguments?"""
        written = [base for base in self.cls.__mro__ if base.__module__ != "builtins"]
        return any(name in base.__dict__ for base in written for name in ("__init__", "__new__"))

    def _bound(self, range: SourceRange, args: Args, kwargs: Args) -> tuple[Args, Args]:
        """The arguments that go by position, in the order of the constructor's parameters, and those that cannot.

        Raises:
            CompileError: where they do not fit the parameters.
        """
        try:
            signature = inspect.signature(self.cls)
        except (TypeError, ValueError):  # written in C, without a signature: it says itself what it takes
            return args, kwargs
        try:
            bound = signature.bind(*args, **{str(k.name): k for k in kwargs})
        except TypeError as error:
            raise WRONG_ARGUMENTS(f"{self.cls.__name__}: {error}", range) from None
        return list(bound.args), [k for k in kwargs if k.name in bound.kwargs]

    def _message_with_class(self, b: Builder, range: SourceRange, values: Sequence[Value]) -> Value:
        """The message of an exception whose class has no name in the graph: `AssertionError: message`."""
        message = b.constant(f"{self.cls.__name__}: ", range)
        for value in values:
            text = value if value.type is T.STRING else b.op("aten::str", [value], range=range)
            message = b.op("aten::add", [message, text], range=range)
        return message


class ExceptionInstance(SugaredValue):
    """`ValueError(message)`, for `raise`."""

    def __init__(self, cls: ExceptionClass, message: Value) -> None:
        self.cls = cls
        self.message = message
        self.kind = f"an instance of {cls.cls.__name__}"


class ContextClass(SugaredValue):
    """A class of torch that is used in `with`, such as `torch.no_grad`: a plain Python object at run time."""

    def __init__(self, cls: type, schema_arguments: Sequence[Argument]) -> None:
        self.cls = cls
        self.type = T.ClassType.of(f"__torch__.{cls.__module__}.{cls.__name__}", cls)
        self.schema = function_schema(cls.__name__, schema_arguments, [T.NONE])
        self.kind = f"the class {cls.__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        instance = b.node("prim::CreateObject", [], [self.type], range).output
        matched = match_schema(self.schema, b.graph, range, list(args), list(kwargs))
        node = b.node("prim::CallMethod", [instance, *matched.inputs], [T.NONE], range)
        node.attributes["name"] = "__init__"
        return SimpleValue(instance)


class PythonCall(SugaredValue):
    """A function left to Python (`@ignore`): called as it is when the graph runs."""

    is_function = True

    def __init__(
        self, function: Callable[..., Any], arguments: Sequence[Argument], result: Type, rest: Argument | None = None
    ) -> None:
        self.function = function
        self.schema = function_schema(function.__name__, arguments, [result])
        self.result = result
        self.rest = rest
        """What `*args` stands for: further positional arguments, all of one type."""
        self.kind = f"the ignored function {function.__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        schema = self._schema_for(len(args))
        matched = match_call(schema, b.graph, range, args, kwargs)
        node = b.node("prim::PythonOp", matched.inputs, matched.return_types, range)
        node.attributes["name"] = self.function.__name__
        node.attributes["callable"] = self._positional(schema)
        return SimpleValue(node.output)

    def _schema_for(self, given: int) -> Schema:
        """The schema with as many parameters as `given` positional arguments need."""
        ordinary = [a for a in self.schema.arguments if not a.kwarg_only]
        if self.rest is None or given <= len(ordinary):
            return self.schema
        more = [Argument(f"{self.rest.name}_{i}", self.rest.type) for i in range(given - len(ordinary))]
        keywords = [a for a in self.schema.arguments if a.kwarg_only]
        return function_schema(self.schema.name, [*ordinary, *more, *keywords], [self.result])

    def _positional(self, schema: Schema) -> Callable[..., object]:
        """The function with all arguments by position, keyword-only ones included."""
        names = [a.name for a in schema.arguments if a.kwarg_only]
        if not names:
            return self.function
        function, first = self.function, len(schema.arguments) - len(names)

        def call(*args: object) -> Any:
            return function(*args[:first], **dict(zip(names, args[first:], strict=True)))

        call.__name__ = function.__name__
        return call


class OverloadedFunction(SugaredValue):
    """Several functions of one name; the first that takes the arguments as they are, else with conversions, is called.

    Args:
        candidates: give the schemas and the calls; they are made when the function is called.
    """

    is_function = True

    def __init__(self, name: str, candidates: Callable[[SourceRange], Sequence[Overload]]) -> None:
        self.candidates = candidates
        self.kind = f"the overloaded function {name}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        candidates = self.candidates(range)
        schemas = [c.schema for c in candidates]
        given = [*candidates[0].leading, *args]
        infer_for_call(schemas, [*given, *kwargs])
        position, matched = match_schemas(schemas, b.graph, range, given, list(kwargs))
        return candidates[position].emit(b, range, matched)
