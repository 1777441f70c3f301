"""What a pickle of a program carries of functions that are not found by their names: their sources."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from types import FrameType, FunctionType

from jitlite.base.records import Record
from jitlite.base.source import CompileError, Source
from jitlite.frontend.syntax.python_source import carry_source, plain_function, source_of

CarriedSource = tuple[FunctionType, str, str | None, int]
"""A function with its source: the text, its file, and the number of its first line there."""

_BY_VALUE = frozenset({"cloudpickle", "dill"})
"""Picklers that can pickle a Python function which has no name to be found by."""


class ByValuePickler(Record):
    """A pickler that writes Python functions and classes themselves where their names lead nowhere.

    Attributes:
        registered: modules, whose submodules count too, that it is told to write although they can be imported here:
            `cloudpickle.register_pickle_by_value`.
    """

    registered: frozenset[str] = frozenset()

    def names_module_of(self, definition: object) -> bool:
        """Does it write names of the module that a function or class is defined in?"""
        module = getattr(definition, "__module__", None) or "__main__"
        parents = itertools.accumulate(module.split("."), "{}.{}".format)
        return module != "__main__" and self.registered.isdisjoint(parents)

    def finds(self, definition: object) -> bool:
        """Does it write the name of a function or class?"""
        return self.names_module_of(definition) and found_by_name(definition) is definition


def by_value_pickler(caller: FrameType) -> ByValuePickler | None:
    """The caller, if it is a pickler that writes Python functions themselves where their names lead nowhere."""
    found: FrameType | None = caller
    while found is not None and found.f_globals.get("__name__") == "pickle":  # on which such a pickler is built
        found = found.f_back
    if found is None or _BY_VALUE.isdisjoint(str(found.f_globals.get("__name__")).split(".")):
        return None
    registry = found.f_globals.get("list_registry_pickle_by_value")
    return ByValuePickler(frozenset(map(str, registry())) if callable(registry) else frozenset())


def found_by_name(definition: object, name: str | None = None) -> object:
    """What the name of a function or class, or another name, is bound to in its module; None for nothing.

    Names of what is local to a function (`f.<locals>.g`) are bound to nothing.
    """
    found: object = sys.modules.get(getattr(definition, "__module__", None) or "")
    for part in (name or str(getattr(definition, "__qualname__", "<locals>"))).split("."):
        found = getattr(found, part, None)
    return found


def carry_sources(carried: Iterable[CarriedSource]) -> None:
    """Remember the sources that came with functions."""
    for function, text, filename, first_line in carried:
        carry_source(function, Source(text, filename, first_line))


def described_source(function: FunctionType) -> tuple[str, str | None, int] | None:
    """The text of a function, its file and its first line; None where nobody knows."""
    try:
        source = source_of(function)
    except CompileError:  # then it cannot be compiled anew, nor could it here
        return None
    return source.text, source.filename, source.first_line


def methods_of(cls: type) -> Iterator[FunctionType]:
    """The Python functions that a class itself has: methods, static ones, those of properties."""
    for member in vars(cls).values():
        parts = (member.fget, member.fset, member.fdel) if isinstance(member, property) else (member,)
        for part in parts:
            function = part.__func__ if isinstance(part, staticmethod | classmethod) else part
            if isinstance(function, FunctionType):
                yield plain_function(function)
