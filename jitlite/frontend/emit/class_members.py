"""The functions that the members of a class body are made of."""

from __future__ import annotations

import inspect


def function_of(member: object) -> object:
    """The plain function behind a member of a class body."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    while hasattr(member, "__wrapped__"):
        member = member.__wrapped__
    return member if inspect.isfunction(member) else None


def functions_of(member: object) -> list[object]:
    """The plain functions behind a member of a class body: those of a property are several."""
    members = [member.fget, member.fset] if isinstance(member, property) else [member]
    return [f for f in map(function_of, members) if f is not None]
