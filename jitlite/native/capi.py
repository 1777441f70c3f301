"""Addresses of the C functions that machine code calls: Python's stable interface, and the mathematics Python uses."""

from __future__ import annotations

import ctypes
import functools

MATHEMATICS = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "fmod", "log", "log10",
    "pow", "sin", "sinh", "tan", "tanh",
)  # fmt: skip
"""Functions of C's library. They are called by address: LLVM would replace `pow` by what is not the same to the bit."""

_LIBRARIES = (None, "libm.so.6", "libm.dylib")


@functools.cache
def address(name: str) -> int:
    """Where a function is.

    Raises:
        OSError: where it is not to be found.
    """
    if name not in MATHEMATICS:
        found = getattr(ctypes.pythonapi, name, None)
        if found is not None:
            return ctypes.cast(found, ctypes.c_void_p).value or 0
    else:
        for library in _LIBRARIES:
            try:
                return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
            except (OSError, AttributeError):
                continue
    raise OSError(f"there is no C function {name}")


def pointer(number: int) -> str:
    """An address as LLVM writes it."""
    return f"inttoptr (i64 {number} to ptr)"
