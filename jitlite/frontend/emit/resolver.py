"""Names of a program -> the Python objects that they denote where the program's function was defined."""

from __future__ import annotations

import builtins
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from jitlite.frontend.syntax.decorators import without_marks
from jitlite.ir.types import Type


class Resolver:
    """Looks names up in one mapping, then asks a callback; see `FunctionResolver` for a function's own scope.

    `class_types` gives the types of Python classes that annotations name.
    """

    def __init__(
        self,
        scope: Mapping[str, object] | None = None,
        callback: Callable[[str], object] | None = None,
        class_types: Callable[[type], Type | None] | None = None,
    ) -> None:
        self.scope = {} if scope is None else scope
        self.callback = callback
        self.class_types = class_types

    def lookup(self, name: str) -> object:
        """The object that `name` denotes.

        Raises:
            LookupError: where it denotes nothing.
        """
        if name in self.scope:
            return self.scope[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        found = None if self.callback is None else self.callback(name)
        if found is not None:
            return found
        raise LookupError(name)

    def resolve_type(self, name: str) -> object:
        """The object that a name, or a dotted path, denotes in an annotation. Names of `typing` need no import.

        Raises:
            LookupError: where it denotes nothing.
        """
        first, *rest = name.split(".")
        try:
            found = self.lookup(first)
        except LookupError:
            if not hasattr(typing, first):
                raise
            found = getattr(typing, first)
        for part in rest:
            try:
                found = getattr(found, part)
            except AttributeError:
                raise LookupError(name) from None
        return found

    def names(self) -> Iterable[str]:
        """The names there are, apart from Python's builtins."""
        return self.scope.keys()


class FunctionResolver(Resolver):
    """The scope of a Python function: its closure, its module, Python's builtins.

    Args:
        fn: the function; of a decorated one, that which is compiled is meant.
        extra: what names denote that the function itself does not know, e.g. the class it is a method of.
        callback: asked for names that are found nowhere else.
        class_types: see `Resolver`.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        extra: Mapping[str, object] | None = None,
        callback: Callable[[str], object] | None = None,
        class_types: Callable[[type], Type | None] | None = None,
    ) -> None:
        function = without_marks(fn)
        assert isinstance(function, types.FunctionType), "what has a source is a function"
        self.function = function
        self.extra = {} if extra is None else extra
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        super().__init__(function.__globals__, callback, class_types)

    def lookup(self, name: str) -> object:
        if name in self.cells:
            with suppress(ValueError):  # not assigned yet
                return self.cells[name].cell_contents
        if name not in self.scope and name in self.extra:
            return self.extra[name]
        try:
            return super().lookup(name)
        except LookupError:
            if self.function.__qualname__.rpartition("<locals>.")[2] != name:
                raise
            return self.function  # it calls itself, and is compiled before its name is bound: `@script` stands above it

    def names(self) -> Iterable[str]:
        return [*self.cells, *self.extra, *self.scope]
