"""A pickler that writes Python functions and classes of tests themselves, as cloudpickle does.

Executed with `__name__` set to "cloudpickle": a compiled function asks who pickles it.
"""

from __future__ import annotations

import importlib
import io
import marshal
import pickle
import types
from typing import Any


def _make_function(code: bytes, names: dict[str, Any], qualname: str, defaults: Any, cells: tuple[Any, ...]) -> Any:
    made = types.FunctionType(marshal.loads(code), names, None, defaults, tuple(map(types.CellType, cells)))
    made.__qualname__ = qualname
    return made


def _annotate(function: Any, annotations: dict[str, Any]) -> Any:
    function.__annotations__ = annotations
    return function


def _make_class(name: str, bases: tuple[type, ...], members: dict[str, Any]) -> type:
    return type(bases[0])(name, bases, members)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        is_ours = getattr(obj, "__module__", None) == "by_value_example"
        if isinstance(obj, types.FunctionType) and is_ours:
            cells = tuple(c.cell_contents for c in obj.__closure__ or ())
            names = {n: obj.__globals__[n] for n in ("torch", "nn") if n in obj.__globals__}
            arguments = (marshal.dumps(obj.__code__), names, obj.__qualname__, obj.__defaults__, cells)
            made = _By(_make_function, arguments)
            return _annotate, (made, obj.__annotations__)
        if isinstance(obj, type) and is_ours:
            left_out = ("__dict__", "__weakref__")
            members = {n: v for n, v in vars(obj).items() if n not in left_out}
            return _make_class, (obj.__name__, obj.__bases__, members)
        if isinstance(obj, types.ModuleType):
            return importlib.import_module, (obj.__name__,)
        return NotImplemented


class _By:
    def __init__(self, make: Any, arguments: Any) -> None:
        self.made = make, arguments

    def __reduce__(self) -> Any:
        return self.made


def dumps(obj: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file).dump(obj)
    return file.getvalue()
