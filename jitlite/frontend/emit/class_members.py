"""The functions that the members of a class body are made of."""

from __future__ import annotations

import inspect

from jitlite.frontend.syntax.decorators import without_marks


def function_of(member: object) -> object:
    """The function that is compiled for a member of a class body."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    member = without_marks(member)
    return member if inspect.isfunction(member) else None


def functions_of(member: object) -> list[object]:
    """The plain functions behind a member of a class body: a property has several, and so has what is decorated."""
    found: list[object] = []
    for function in map(function_of, _accessors(member)):
        while function is not None and not any(function is other for other in found):
            found.append(function)
            function = function_of(getattr(function, "__wrapped__", None))
    return found


def _accessors(member: object) -> list[object]:
    return [member.fget, member.fset] if isinstance(member, property) else [member]


def class_with(cls: type | None, function: object) -> type | None:
    """The class, of `cls` and its bases, in whose body a function stands."""
    for owner in cls.__mro__ if cls is not None else ():
        if any(function in functions_of(member) for member in owner.__dict__.values()):
            return owner
    return None


def method_around(cls: type, function: object) -> tuple[type, str] | None:
    """The class and the name of the method that a decorator has put in place of `function`; None where none has."""
    for owner in cls.__mro__:
        for name, member in owner.__dict__.items():
            if not isinstance(member, staticmethod | classmethod) and function in functions_of(member):
                return None if function in map(function_of, _accessors(member)) else (owner, name)
    return None
