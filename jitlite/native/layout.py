"""How types are held in machine code."""

from __future__ import annotations

import struct
from typing import Any

from jitlite.ir import types as T
from jitlite.ir.constants import INT64_MAX, INT64_MIN
from jitlite.ir.types import Type

LOWEST, HIGHEST = INT64_MIN, INT64_MAX

SCALARS: dict[Type, tuple[str, str, type]] = {
    T.INT: ("i", "i64", int),
    T.FLOAT: ("f", "double", float),
    T.BOOL: ("b", "i1", bool),
}
"""Types of numbers: the letter that rules write, LLVM's type, and the class that a value from outside has to be of."""

OUTSIDE = "o"
"""The letter for a list that comes from outside: it is a list of Python, and only read."""


def letter_of(t: Type) -> str:
    """The letter that rules write for a type; "" for types that machine code does not hold."""
    if t in SCALARS:
        return SCALARS[t][0]
    if storage(t) is None:
        return ""
    return "l" if isinstance(t, T.ListType) else "d" if isinstance(t, T.DictType) else "t"


def storage(t: Type) -> str | None:
    """LLVM's type for values of a type, None where there is none. Lists and dicts are pointers to a box."""
    if t in SCALARS:
        return SCALARS[t][1]
    if isinstance(t, T.ListType):
        return None if storage(t.element) is None else "ptr"
    if isinstance(t, T.DictType):
        return "ptr" if t.key is T.INT and storage(t.value) is not None else None
    if isinstance(t, T.TupleType) and t.names is None and t.elements:
        parts = [storage(e) for e in t.elements]
        return None if None in parts else "{ " + ", ".join(map(str, parts)) + " }"
    return None


def stored(t: Type) -> str:
    """LLVM's type for values of a type that has one."""
    found = storage(t)
    assert found is not None, f"{t} has no place in machine code"
    return found


def literal(value: Any, t: Type) -> str | None:
    """A number as LLVM writes it; None where it is not just of the type, or does not fit."""
    wanted: object = SCALARS[t][2] if t in SCALARS else None
    if type(value) is not wanted:
        return None
    if t is T.FLOAT:
        return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    if t is T.BOOL:
        return "true" if value else "false"
    return str(value) if LOWEST <= value <= HIGHEST else None


def zero(t: Type) -> str:
    """A value of a type that nothing reads."""
    return "zeroinitializer" if t not in SCALARS else {"i": "0", "f": "0.0", "b": "false"}[SCALARS[t][0]]
