"""Classes of the objects that are given to a trace, or that it gives."""

from __future__ import annotations

from collections.abc import Mapping

from jitlite.base.dataclass_values import fields_of
from jitlite.compiler.program import is_scriptable_class
from jitlite.executor.engine import new_program
from jitlite.frontend.classes.classes import ScriptClass
from jitlite.ir.compiling import compiling
from jitlite.ir.types import ClassType


def declare_dataclasses(value: object, within: tuple[int, ...] = ()) -> None:
    """Have a class type for each dataclass of which there is an object in a value.

    Args:
        within: the identities of what the value is part of.

    Raises:
        RuntimeError: it is part of itself, as no input or result of a trace can be.
        CompileError: its `__init__` is not TorchScript.
    """
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        fields = fields_of(value)
        if fields is None:
            return
        if is_scriptable_class(type(value)):
            _declare(type(value))
        parts = list(fields.values())
    for part in parts:
        if id(part) in (*within, id(value)):
            raise RuntimeError(f"a {type(part).__name__} that is part of itself cannot be traced")
        declare_dataclasses(part, (*within, id(value)))


def _declare(cls: type) -> None:
    """Have the class type with its attributes. Methods are compiled only where the traced program calls them."""
    with compiling():
        found = new_program().type_of_class(cls)
        if isinstance(found, ClassType) and isinstance(found.definition, ScriptClass):
            found.definition.complete()
