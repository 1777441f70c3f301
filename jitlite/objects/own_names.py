"""Names that script modules have of their own, where the user's module has none of them."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

from jitlite.ir.values import CLASS_TYPE

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")


def gives_way(function: F) -> F:
    """A method that gives way to what the user's module has under its name."""
    return _GivesWay(function)  # type: ignore[return-value]


def attribute_that_gives_way(function: Callable[[Any], R]) -> R:
    """The same as an attribute, which is what the function returns."""
    return _GivesWay(function, called=True)  # type: ignore[return-value]


class _GivesWay:
    """A method of script modules that gives way to whatever the user's module has under this name.

    An attribute, parameter, buffer, submodule or compiled method comes first. The method itself can always be had
    from the class: `ScriptModule.save(module, path)`.
    """

    def __init__(self, function: Callable[..., Any], *, called: bool = False) -> None:
        self.function = function
        self.called = called
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, cls: object = None) -> Any:
        if owner is None:
            return self if self.called else self.function
        state = vars(owner)
        for kind in ("_parameters", "_buffers", "_modules"):
            if self.name in state.get(kind, ()):
                return state[kind][self.name]
        found = state.get(CLASS_TYPE)
        if found is not None and (self.name in found.methods or self.name in found.constants):
            return owner.__getattr__(self.name)
        return self.function(owner) if self.called else types.MethodType(self.function, owner)
