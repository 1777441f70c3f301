"""`Function.apply` in scripts: the call is left to Python, which runs the function's own forward and backward."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from jitlite.base.errors.classes import AUTOGRAD_FUNCTION
from jitlite.base.source import CompileError, SourceRange
from jitlite.frontend.emit.annotations import type_from_python
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.callables import PythonCall
from jitlite.frontend.emit.denotations import sugared_from_python
from jitlite.frontend.emit.emitter import Emitter
from jitlite.frontend.emit.resolver import FunctionResolver
from jitlite.frontend.emit.values import Args, SugaredValue
from jitlite.frontend.syntax.python_source import parsed_source_of
from jitlite.ir import types as T
from jitlite.ir.schema import Argument
from jitlite.ir.types import Type


class AutogradFunctionClass(SugaredValue):
    """A class that inherits from `torch.autograd.Function`."""

    def __init__(self, cls: type[torch.autograd.Function]) -> None:
        self.cls = cls
        self.kind = f"the autograd function {cls.__name__}"

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        if name == "apply":
            return ApplyValue(self.cls)
        member = inspect.getattr_static(self.cls, name, None)
        if not isinstance(member, staticmethod):
            raise AUTOGRAD_FUNCTION(f"{self.kind} has `apply` and static methods in scripts, and no '{name}'", range)
        assert isinstance(b, Emitter)
        return sugared_from_python(b, member.__func__, name, range)

    def has_attr(self, b: Builder, range: SourceRange, name: str) -> bool:
        return hasattr(self.cls, name)

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        raise AUTOGRAD_FUNCTION(f"{self.kind} cannot be called", range, hint=f"write {self.cls.__name__}.apply(...)")


class ApplyValue(SugaredValue):
    """`Function.apply`: it takes what the parameters of `forward` are annotated with, anything where they are not."""

    def __init__(self, cls: type[torch.autograd.Function]) -> None:
        self.cls = cls
        self.kind = f"the autograd function {cls.__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        if kwargs:
            raise AUTOGRAD_FUNCTION(
                f"{self.cls.__name__}.apply takes no keyword arguments", range, hint="pass by position"
            )
        forward: Any = inspect.getattr_static(self.cls, "forward")
        forward = getattr(forward, "__func__", forward)
        assert isinstance(b, Emitter)
        resolver = FunctionResolver(forward, class_types=b.program.type_of_class)
        parameters = [p for p in inspect.signature(forward).parameters.values() if p.kind is not p.VAR_KEYWORD]
        if self.cls.setup_context is torch.autograd.Function.setup_context:
            parameters = parameters[1:]  # the context
        arguments = []
        for i in builtins.range(len(args)):
            parameter = _parameter(parameters, i)
            if parameter is None:
                raise AUTOGRAD_FUNCTION(
                    f"{self.cls.__name__}.apply takes {len(parameters)} arguments, got {len(args)}", range
                )
            arguments.append(Argument(f"{parameter.name}_{i}", _type(parameter.annotation, T.ANY, resolver)))
        missing = [p for p in parameters[len(args) :] if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
        if missing:
            raise AUTOGRAD_FUNCTION(f"{self.cls.__name__}.apply is missing the argument '{missing[0].name}'", range)
        result = _type(inspect.signature(forward).return_annotation, _returned(forward), resolver)
        return PythonCall(_Apply(self.cls), arguments, result).call(b, range, args, kwargs)


class _Apply:
    """`cls.apply`, under the name of the class; `apply` itself is said to be one of torch.autograd.Function."""

    def __init__(self, cls: type[torch.autograd.Function]) -> None:
        self.cls = cls
        self.__name__ = f"{cls.__name__}.apply"
        self.__qualname__ = f"{cls.__qualname__}.apply"
        self.__module__ = cls.__module__

    def __call__(self, *args: object) -> Any:
        apply: Any = self.cls.apply
        return apply(*args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Apply) and other.cls is self.cls

    def __hash__(self) -> int:
        return hash(self.cls)


def _parameter(parameters: list[inspect.Parameter], i: int) -> inspect.Parameter | None:
    if i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL:
        return parameters[i]
    return next((p for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)


def _type(annotation: object, otherwise: Type, resolver: FunctionResolver) -> Type:
    """The type of an annotation, where scripts have such a one."""
    if annotation is inspect.Parameter.empty:
        return otherwise
    try:
        return type_from_python(annotation, None, resolver.resolve_type, class_types=resolver.class_types)
    except CompileError:
        return otherwise


def _returned(forward: Callable[..., object]) -> Type:
    """What a function without annotation gives: a tensor, or a tuple of as many as its returns have parts."""
    try:
        body = parsed_source_of(forward)[1].body  # type: ignore[arg-type]
    except CompileError:
        return T.TENSOR
    counts = {len(r.value.elts) if isinstance(r.value, ast.Tuple) else 0 for r in _returns(body)}
    count = counts.pop() if len(counts) == 1 else 0
    return T.TupleType.of([T.TENSOR] * count) if count else T.TENSOR


def _returns(nodes: list[ast.stmt]) -> Iterator[ast.Return]:
    """The return statements of a function, without those of functions in it."""
    waiting: list[ast.AST] = [*nodes[0].body] if nodes and isinstance(nodes[0], ast.FunctionDef) else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))
