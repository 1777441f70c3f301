"""Methods of strings and numbers that TorchScript lacks: functions of `python_library.py`, bound to a value."""

from __future__ import annotations

from jitlite.frontend.emit import python_library as library
from jitlite.frontend.emit.definition import Scope
from jitlite.frontend.emit.denotations import LibraryFunction
from jitlite.frontend.emit.named_tuples import BoundFunction
from jitlite.frontend.emit.values import SugaredValue
from jitlite.ir import types as T
from jitlite.ir.graph import Value

_CLASSES = (T.STRING, str), (T.INT, int), (T.FLOAT, float)


def method_of_plain_value(scope: Scope, value: Value, name: str) -> SugaredValue | None:
    """The method of this name of a string or number; None where no function stands for it."""
    original = next((getattr(cls, name, None) for t, cls in _CLASSES if t is value.type), None)
    function = library.library_of(original)
    return None if function is None else BoundFunction(LibraryFunction(scope, function, original), value, name)
