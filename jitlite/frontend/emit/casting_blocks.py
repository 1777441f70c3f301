"""Where automatic casting is on and off in a function that is traced."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch


class _CurrentSwitches(threading.local):
    def __init__(self) -> None:
        self.switches: list[bool] = []


_current = _CurrentSwitches()


class autocast:
    """Switch the automatic casting of a `CastingOptions.policy` on or off, for what a trace records.

    It is a context manager, and a decorator of functions and of modules, whose `forward` it changes. The innermost one
    counts. Outside of traces it does nothing; it is not `torch.autocast`.
    """

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled

    def __enter__(self) -> autocast:
        _current.switches.append(self.enabled)
        return self

    def __exit__(self, *exception: object) -> None:
        _current.switches.pop()

    def __call__(self, wrapped: Any) -> Any:
        if isinstance(wrapped, torch.nn.Module):
            wrapped.forward = self._around(wrapped.forward)
            return wrapped
        return self._around(wrapped)

    def _around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(*args: object, **kwargs: object) -> Any:
            with autocast(self.enabled):
                return function(*args, **kwargs)

        return called


def scope_of_switches() -> str:
    """What is written down at a node that is recorded now: nothing outside of all blocks."""
    return f"autocast:{int(_current.switches[-1])}" if _current.switches else ""
