"""Functions of a kind of their own: those that are marked unused, and an operator with its overloads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitlite.base.errors.names import NO_ATTRIBUTE
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.builder import Builder
from jitlite.frontend.emit.values import Args, BuiltinFunction, SimpleValue, SugaredValue
from jitlite.ir import ops
from jitlite.ir.types import Type


class UnusedFunction(SugaredValue):
    """A function marked `unused`: a call raises."""

    def __init__(self, function: Callable[..., Any], result: Type) -> None:
        self.result = result
        self.function = function
        self.kind = f"the unused function {function.__name__}"

    def call(self, b: Builder, range: SourceRange, args: Args, kwargs: Args) -> SugaredValue:
        name = self.function.__name__
        text = f"the function '{name}' is marked unused: it is annotated to be ignored and cannot be run"
        message = b.constant(text, range)
        none = b.constant(None, range)
        b.node("prim::RaiseException", [message, none], [], range)
        return SimpleValue(b.uninitialized(self.result))


class OperatorPacket(BuiltinFunction):
    """`torch.ops.aten.add`, whose attributes are its overloads."""

    def attr(self, b: Builder, range: SourceRange, name: str) -> SugaredValue:
        overloads = {found.schema.overload or "default": found for found in ops.lookup(self.name)}
        if name in overloads:
            return BuiltinFunction(self.name, candidates=[overloads[name]])
        raise NO_ATTRIBUTE(
            f"{self.kind} has no overload '{name}'", range, hint=f"its overloads are: {', '.join(overloads)}"
        )
