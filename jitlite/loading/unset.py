"""Objects whose state was read but not set, as no code of their archive was to run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from jitlite.archive.errors import ArchiveError
from jitlite.ir.values import class_type_of

RAW_STATE = "__raw_state__"
"""The attribute that holds what the archive has for the state of such an object."""


class UnsetObject:
    """Stands for an object of a class in C++, such as packed weights, of which none is made.

    Attributes:
        class_name: the class's name in archives.
        __raw_state__: the object's state as the archive has it.
    """

    def __init__(self, class_name: str, state: object) -> None:
        self.class_name = class_name
        self.__raw_state__ = state

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which Python asks for on its own
            raise AttributeError(name)
        raise unset_error(self.class_name)

    def __repr__(self) -> str:
        return f"<object of {self.class_name} without its state>"


def leave_unset(made: object, state: object) -> None:
    """Let an object keep its state as the archive has it."""
    vars(made)[RAW_STATE] = state
    cls: Any = type(made)
    if not isinstance(made, torch.nn.Module) and "__getattr__" not in vars(cls):
        cls.__getattr__ = _missing_attribute


def _missing_attribute(owner: object, name: str) -> Any:
    """`__getattr__` of a class of the archive some of whose objects have no state."""
    found = class_type_of(owner)
    if found is not None and name in found.attributes and is_unset(owner):
        raise unset_error(found.qualified_name)
    raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{name}'")


def is_unset(value: object) -> bool:
    """Is a value an object without its state?"""
    return RAW_STATE in getattr(value, "__dict__", ())


def unset_error(class_name: str) -> ArchiveError:
    """What using an object without its state raises."""
    return ArchiveError(
        f"an object of '{class_name}' has no state: the archive was read with run_code=False, and code sets the state",
        "data.pkl", hint="read the archive with jitlite.load(file), which runs that code within bounds",
    )  # fmt: skip


def unset_objects(root: object) -> Iterator[Any]:
    """The objects without their state in a module that was read, each once."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        value = todo.pop()
        if isinstance(value, str | int | float | complex | torch.Tensor | type(None)) or id(value) in seen:
            continue
        seen.add(id(value))
        if is_unset(value):
            yield value
        elif isinstance(value, list | tuple):
            todo += value
        elif isinstance(value, dict):
            todo += value.values()
        elif isinstance(value, torch.nn.Module) or class_type_of(value) is not None:
            todo += (each for name, each in vars(value).items() if name not in _NOT_HELD)


_NOT_HELD = frozenset({"_parameters", "_buffers", *(n for n in vars(torch.nn.Module()) if "hooks" in n)})
"""Where no object of an archive can be."""
