"""Variables of functions that run, set from outside.

Python 3.13 writes through `frame.f_locals` (PEP 667). Before that, `f_locals` is a copy, which a function of Python's C
interface writes back.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping
from types import FrameType

_WRITES_THROUGH = sys.version_info >= (3, 13)
_write_back = None if _WRITES_THROUGH else getattr(ctypes.pythonapi, "PyFrame_LocalsToFast", None)


def set_variables(frame: FrameType, values: Mapping[str, object]) -> bool:
    """Set variables of a function that runs; says whether they have been set.

    Args:
        frame: the function; its variables with these names exist already.
        values: by name.
    """
    if not values:
        return True
    found = frame.f_locals
    found.update(values)
    if _write_back is not None:
        _write_back(ctypes.py_object(frame), ctypes.c_int(0))
    return all(frame.f_locals.get(name) is value for name, value in values.items())
