"""Keywords that a function of the API does not have: refused with the one that was perhaps meant, on every Python."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jitlite.base.source import did_you_mean
from jitlite.base.tracebacks import HiddenFrames

_P = ParamSpec("_P")
_R = TypeVar("_R")


def unexpected_keyword(function: Callable[..., object], name: str) -> TypeError:
    """The error for a keyword that a function does not have."""
    parameters = inspect.signature(function).parameters.values()
    hint = did_you_mean(name, [p.name for p in parameters if p.kind is not p.VAR_KEYWORD])
    called = getattr(function, "__name__", "the function")
    return TypeError(f"{called}() got an unexpected keyword argument '{name}'" + (f"; {hint}" if hint else ""))


def checks_keywords(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Let calls of a function with a keyword that it does not have say which one was perhaps meant.

    Python says so from 3.13 on. A function that looks at the frame of its caller cannot have this around it.
    """
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in kwargs:
            if name not in known:
                raise unexpected_keyword(function, name)
        __tracebackhide__ = True
        with HiddenFrames():
            return function(*args, **kwargs)

    return checked
