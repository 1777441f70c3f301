"""`fork`, `wait` and results on demand, as Python calls them. In scripts they are part of the language."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

import torch

from jitlite.frontend.tracing.trace_mode import current_tracer
from jitlite.interpreter import futures
from jitlite.ir.awaits import Await
from jitlite.objects.function import ScriptFunction
from jitlite.objects.module import ScriptModule
from jitlite.objects.overloaded import OverloadedMethod

_P = ParamSpec("_P")
_R = TypeVar("_R")


def fork(func: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> torch.futures.Future[_R]:
    """A future of `func(*args, **kwargs)`: what is compiled runs in another thread, what is Python runs at once.

    Whatever the call raises is raised by `wait`.

    Args:
        func: a function or module.
        args, kwargs: what it is called with.
    """
    call = partial(func, *args, **kwargs)
    # a trace records what its own thread does
    if isinstance(func, ScriptFunction | ScriptModule | OverloadedMethod) and current_tracer() is None:
        return futures.fork(call)
    return futures.at_once(call)


def wait(future: torch.futures.Future[_R]) -> _R:
    """The result of a future.

    Raises:
        Exception: what the call ended with.
    """
    result: _R = futures.wait(future)
    return result


def _awaitable(func: Callable[..., object], *args: object, **kwargs: object) -> Await:
    """The result of `func(*args, **kwargs)`, which is called when somebody waits for it, and once."""
    return Await(partial(func, **kwargs) if kwargs else func, *args)


def _awaitable_wait(awaited: Any) -> Any:
    """The result of `awaited`, computed now if it was not yet.

    Raises:
        Exception: what computing it ended with.
    """
    return awaited.wait()


def _awaitable_nowait(value: object) -> Await:
    """A result that is there already."""
    return Await.ready(value)
