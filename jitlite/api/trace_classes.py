"""Classes of the objects that are given to a trace, or that it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jitlite.base.dataclass_values import fields_of
from jitlite.compiler.program import is_scriptable_class
from jitlite.executor.engine import new_program
from jitlite.frontend.classes.classes import ScriptClass
from jitlite.ir.compiling import compiling
from jitlite.ir.types import ClassType


def declare_dataclasses(value: object) -> None:
    """Have a class type for each dataclass of which there is an object in a value.

    Raises:
        RuntimeError: it is part of itself.
        CompileError: the `__init__` of a class is not TorchScript.
    """
    for found in _objects_in(value):
        if is_scriptable_class(type(found)):
            _declare(type(found))


def check_finite(value: object) -> None:
    """See that a value is no part of itself.

    Raises:
        RuntimeError: it is, as no input or result of a trace can be.
    """
    for _ in _objects_in(value):
        pass


def _objects_in(value: object, within: tuple[int, ...] = ()) -> Iterator[object]:
    """The objects of dataclasses in a value that is part of what `within` identifies."""
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        fields = fields_of(value)
        if fields is None:
            return
        yield value
        parts = list(fields.values())
    for part in parts:
        if id(part) in (*within, id(value)):
            raise RuntimeError(f"a {type(part).__name__} that is part of itself cannot be traced")
        yield from _objects_in(part, (*within, id(value)))


def _declare(cls: type) -> None:
    """Have the class type with its attributes. Methods are compiled only where the traced program calls them."""
    with compiling():
        found = new_program().type_of_class(cls)
        if isinstance(found, ClassType) and isinstance(found.definition, ScriptClass):
            found.definition.complete()
