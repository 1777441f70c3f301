"""Whether a trace is going on in this thread, and what is told those who ask torch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch

from jitlite.base.records import Record


class SeedListener(Protocol):
    """What records seeds: see `GeneratorState`."""

    def check(self) -> None: ...
    def note(self) -> None: ...


class PythonRun(Record):
    """Python that has been run, which is a function of numbers and tensors for tensors.

    Attributes:
        name: what the node is to be called.
        function: called with the arguments, it gives a tuple of tensors; None if there are none.
        arguments: as the trace has them.
        results: what it has given, as the trace is to go on with them.
    """

    name: str
    function: Callable[..., object]
    arguments: Sequence[object]
    results: Sequence[torch.Tensor]


class Listener(Protocol):
    """What records a thread: `Tracer`, at the level of Python's calls, or `DispatchTracer`, below autograd.

    Attributes:
        paused: above 0 while operators just run.
        sees_calls: is it told of the operators that Python calls, by `called`?
        below_autograd: is it told of what reaches the dispatcher, with sizes as torch has them?
        generator: notices what sets the generator of random numbers.
    """

    paused: int
    sees_calls: bool
    below_autograd: bool

    @property
    def generator(self) -> SeedListener: ...
    def called(self, op: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Any: ...
    def call_function(self, function: Any, arguments: Sequence[Any], run: Callable[[], Any]) -> Any: ...
    def call_python(self, name: str, function: Callable[..., object], arguments: Sequence[object]) -> object: ...
    def record_python(self, run: PythonRun) -> list[torch.Tensor]: ...
    def call_module(self, module: torch.nn.Module, args: Sequence[object], kwargs: Mapping[str, object]) -> Any: ...
    def asked_for(self, tensor: torch.Tensor, number: object, what: str) -> None: ...
    def same_memory(self, tensor: torch.Tensor, other: torch.Tensor, *, detached: bool = True) -> None: ...
    def is_followed(self, tensor: torch.Tensor) -> bool: ...
    def known(self, tensor: torch.Tensor) -> Any: ...
    def size(self, tensor: torch.Tensor, dim: int, number: int) -> Any: ...
    def numel(self, tensor: torch.Tensor, number: int) -> Any: ...
    def not_recording(self) -> Any: ...
    @property
    def own_tensors(self) -> Callable[[], AbstractContextManager[None]]: ...


class _Current(threading.local):
    tracer: Any = None


current = _Current()
"""`tracer` is what records this thread, a `Tracer`."""


@contextmanager
def recorded_by(tracer: Listener) -> Iterator[None]:
    """Within the `with`, the tracer is what records this thread."""
    before = current.tracer
    current.tracer = tracer
    try:
        yield
    finally:
        current.tracer = before


class TracingState:
    """What `torch._C._get_tracing_state()` gives while a function is being traced."""

    def push_scope(self, name: str) -> None:
        """Called by torch where a submodule begins."""

    def pop_scope(self) -> None:
        """Called by torch where a submodule ends."""


_STATE = TracingState()


_torchs_state, _torchs_is_tracing = torch._C._get_tracing_state, torch._C._is_tracing


def get_tracing_state() -> Any:
    """What `torch._C._get_tracing_state` is while a trace is going on: true for the thread that traces."""
    asked_by = sys._getframe(1).f_code
    return _torchs_state() if current.tracer is None or asked_by in _TAKES_SIZES_FOR_TENSORS else _STATE


_TAKES_SIZES_FOR_TENSORS = frozenset({torch.nn.functional.interpolate.__code__})
"""Functions that, told of a trace, take sizes for tensors. What they do otherwise can be followed as well."""


def is_tracing() -> bool:
    """What `torch._C._is_tracing` is while a trace is going on: true for the thread that traces."""
    return bool(_torchs_is_tracing()) if current.tracer is None else True
