"""Classes with a `__new__` of their own."""

from __future__ import annotations

import inspect

from jitlite.base.errors.classes import NO_SCRIPT_CLASS
from jitlite.base.source import SourceRange
from jitlite.frontend.emit.ways_out import instead_of_class
from jitlite.ir.object_creation import looks_at_arguments


def check_creation(cls: type, range: SourceRange) -> None:
    """Check that making an object needs nothing of the arguments of the call but in `__init__`.

    Raises:
        NotSupportedError: the class has a `__new__` that looks at them.
    """
    if looks_at_arguments(cls):
        raise NO_SCRIPT_CLASS(
            f"'{cls.__name__}' makes its objects in __new__, which scripts give no arguments", range,
            hint=instead_of_class(cls) or "make them in __init__",
        )  # fmt: skip


def takes_any_arguments(cls: type) -> bool:
    """Does a class without an `__init__` take arguments, of which its `__new__` makes nothing?"""
    return inspect.isfunction(cls.__new__)
