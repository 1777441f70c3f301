"""Names of attributes, methods and parameters in the source."""

from __future__ import annotations

from jitlite.ir.code_text import (
    Identifier,
    identifier,
    is_identifier,
    made_identifier,
)


def is_attribute_name(name: str) -> bool:
    """Can the name stand behind a dot, within classes too?"""
    return name.isascii() and is_identifier(name) and not _is_private(name)


def _is_private(name: str) -> bool:
    """Is it a name that Python changes within a class?"""
    return name.startswith("__") and not name.endswith("__")


def method_name(name: str) -> Identifier:
    """The name of a method in the source."""
    return made_identifier(f"_{name.lstrip('_')}") if _is_private(name) else identifier(name, "the name of a method")


def parameter_name(name: str) -> Identifier:
    """The name of a parameter in the source: the program's own if Python can have it."""
    return identifier(name) if is_identifier(name) else made_identifier(name)
