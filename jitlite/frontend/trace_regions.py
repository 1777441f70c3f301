"""What is around the operators of a trace: grad mode, and Python's own autograd functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jitlite.frontend.builder import Builder
from jitlite.frontend.callables import ContextClass
from jitlite.frontend.trace_warnings import current_place
from jitlite.ir import types as T
from jitlite.ir.graph import Value
from jitlite.source import Source, SourceRange

_NOWHERE = SourceRange(Source(""), 0, 0)
_AUTOCAST = (
    "The tracer does not record that autocast is on, so the trace will run without it. Use autocast around the trace "
    "and its calls, or convert with .to()"
)


class Modes:
    """Records where a function switches gradients on or off, by what the mode is at each operator."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._outside = torch.is_grad_enabled()
        self._entered: Value | None = None
        self._autocast = torch._C._is_any_autocast_enabled()

    def follow(self) -> None:
        """Called before each operator."""
        wanted = torch.is_grad_enabled()
        if (self._entered is not None) != (wanted != self._outside):
            if self._entered is not None:
                self.leave()
            else:
                self._enter(torch.enable_grad if wanted else torch.no_grad)
        if torch._C._is_any_autocast_enabled() and not self._autocast:
            self._autocast = True
            current_place().warn(_AUTOCAST)

    def _enter(self, cls: type) -> None:
        b = self._builder
        place = b.graph.current_range or _NOWHERE
        self._entered = ContextClass(cls, []).call(b, place, [], []).as_value(b, place)
        b.node("prim::Enter", [self._entered], [T.NONE])

    def leave(self) -> None:
        """Called at the end, too."""
        if self._entered is not None:
            self._builder.node("prim::Exit", [self._entered], [T.NONE])
            self._entered = None


def with_fixed(function: Callable[..., Any], arguments: list[Any], free: list[int]) -> Callable[..., Any]:
    """A function of the arguments at the positions `free`; the others are as they are in `arguments`."""

    def call(*given: Any) -> Any:
        complete = list(arguments)
        for position, argument in zip(free, given, strict=True):
            complete[position] = argument
        return function(*complete)

    return call
