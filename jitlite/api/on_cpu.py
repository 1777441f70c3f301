"""`on_cpu`: what stays Python in a trace."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import TracebackType
from typing import ParamSpec, TypeVar

from torch import _jit_internal

from jitlite.frontend.tracing.python_blocks import TracedBlock, python_call
from jitlite.frontend.tracing.trace_mode import current_tracer

_P = ParamSpec("_P")
_R = TypeVar("_R")


class on_cpu:
    """`with on_cpu():`, or `@on_cpu()` before a function: Python that a trace does not look into.

    A trace has one node for it, which runs the block, or calls the function, in each call of what is traced, with the
    tensors that it has then. So NumPy, loops over the values of tensors and `item()` have their place in a trace, and
    an engine runs what stands before and behind. Outside of traces nothing changes. A script calls such a function as
    one under `ignore` if it says what it gives, and compiles it and blocks else.

    A block gives the tensors that it sets, in variables, tuples, lists and dicts, and that are used behind it. It
    writes nothing that it reads. Numbers, modules and other objects that it reads are as they were in the trace.
    """

    def __init__(self) -> None:
        self._blocks: list[TracedBlock | None] = []

    def __enter__(self) -> None:
        tracer = current_tracer()
        self._blocks.append(None if tracer is None else TracedBlock(tracer, sys._getframe(1)))
        if self._blocks[-1] is not None:
            self._blocks[-1].begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        block = self._blocks.pop()
        if block is not None:
            block.end(kind, error, at)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """The function, which stays a call in a trace."""

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            tracer = current_tracer()
            if tracer is None:
                return function(*args, **kwargs)
            found: _R = python_call(tracer, function, args, kwargs)
            return found

        # scripts take an ignored function that does not say what it gives for one that gives a tensor
        is_typed = "return" in getattr(function, "__annotations__", ())
        return _jit_internal.ignore(call) if is_typed else call  # type: ignore[no-untyped-call]
